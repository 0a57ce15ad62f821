"""The fault table and all ids: the beginning of docs/faults.md."""

from __future__ import annotations

from collections.abc import Mapping

from .ids import ids
from .results import Result, rows, test_of
from .row import Proved, Row

HEAD = """# Errors by their id

<!-- Written by `make docs` from the tables and results in tests/faults; do not edit. -->

A message that stops a run says what is wrong, where, what was expected and what to do next. It ends with an id in
brackets, `[space.free]`. Look the id up here to see which faults it stands for and whether anything was changed by
then. Do what the message says, and start the same run again: it goes on from there. A FAIL or UNKNOWN of a verification
is the finding of a check: [verdict.md](verdict.md) explains those.

## The fault table

What is wrong, how a test makes it, and what the toolkit does. Faults without an id are told in Ansible's own words, or
need no message. Where a single command meets the fault
(`tests/faults/test_fault_table.py`), the host is compared file by file, the fault is taken away, and a plain run has to
end with status 0 and leave the host as it was; at the end, the host that met all of them is brought to PASS.

| id | fault | made by | exit status | left behind | test | last result |
|---|---|---|---|---|---|---|
"""


IDS = """
## Every id

All ids of messages, and the files that print them; those of checks are in [checks.md](checks.md).

| id | printed by |
|---|---|
"""


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def line(row: Row | Proved, results: Mapping[str, Result]) -> str:
    test = test_of(row)
    result = results.get(test)
    told = "none yet" if result is None else f"{'passed' if result.passed else '**failed**'} on {result.commit}"
    name = test.partition("::")[0]
    cells = (f"`{row.id}`" if row.id else "", row.fault, row.made, str(row.status), row.state,
             f"[{name.rpartition('/')[2]}](../{name})", told)  # fmt: skip
    return f"| {' | '.join(map(cell, cells))} |\n"


def text(results: Mapping[str, Result]) -> str:
    found = sorted(rows(), key=lambda row: (row.id == "", row.id, row.fault))
    printed = (f"| `{fault}` | {', '.join(f'`{name}`' for name in names)} |\n" for fault, names in ids().items())
    return HEAD + "".join(line(row, results) for row in found) + IDS + "".join(printed)
