"""The last result of every row, from what the test suites write for machines (JUnit's XML), in one JSON file."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from .controller import ROWS as CONTROLLER
from .host import ROWS as HOST
from .proved import ROWS as PROVED
from .row import Proved, Row

FILE = Path(__file__).with_name("results.json")
TABLE = "tests/faults/test_fault_table.py::test_a_fault_is_named_and_a_plain_rerun_goes_on"


@dataclass(frozen=True)
class Result:
    """`passed` of a test, and the commit that it was run on; "+" behind it says that there were changes beside."""

    passed: bool
    commit: str


def rows() -> list[Row | Proved]:
    return [*CONTROLLER, *HOST, *PROVED]


def test_of(row: Row | Proved) -> str:
    """`file::name`, or `file::name[row]`."""
    return row.test if isinstance(row, Proved) else f"{TABLE}[{row.name}]"


def tests_in(report: Path) -> Iterator[tuple[str, bool]]:
    """The tests of a suite that were not skipped, as pytest names them, and whether they passed."""
    # The trainer is a project of its own, from whose folder its tests are named.
    top = "trainer/" if report.stem == "trainer" else ""
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        if case.find("skipped") is None:
            file = f"{top}{case.get('classname', '').replace('.', '/')}.py"
            yield f"{file}::{case.get('name', '')}", case.find("failure") is None and case.find("error") is None


def found_in(reports: Iterable[Path], commit: str) -> dict[str, Result]:
    """Results of the tests that rows name; a test that is named without its rows passed if all of them did."""
    seen: dict[str, bool] = {}
    for report in reports:
        for name, passed in tests_in(report):
            for key in (name, re.sub(r"\[.*\]$", "", name)):
                seen[key] = passed and seen.get(key, True)
    return {name: Result(seen[name], commit) for name in sorted({test_of(row) for row in rows()} & set(seen))}


def read(file: Path = FILE) -> dict[str, Result]:
    known = json.loads(file.read_text()) if file.exists() else {}
    return {name: Result(**each) for name, each in known.items()}


def write(results: dict[str, Result], file: Path = FILE) -> None:
    """Whole or not at all; what no row names any more goes."""
    wanted = {test_of(row) for row in rows()}
    kept = {name: asdict(results[name]) for name in sorted(wanted & set(results))}
    temporary = file.with_suffix(".new")
    temporary.write_text(json.dumps(kept, indent=1) + "\n")
    temporary.replace(file)
