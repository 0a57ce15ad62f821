"""The fault table: every row has a test, results are read as pytest names them, and the page is current."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import REPOSITORY
from gpuwright.checks.all import CHECKS
from module_refusals import ARGUMENT, MODULE_REFUSALS, refusing_calls

sys.path.append(str(REPOSITORY / "tests/faults"))

import write_page as tool
from fault_table import page, results
from fault_table.controller import ROWS as CONTROLLER
from fault_table.host import ROWS as HOST
from fault_table.ids import ids
from fault_table.proved import ROWS as PROVED
from fault_table.results import Result
from fault_table.row import Proved, Row

# Their messages are problems of single hosts, which have ids, or the lines of checks.
WITHOUT_ID = {
    # It repeats what the module said, which ends with its id.
    ("system_repository/debian.yml", "Report what was wrong with {{ system_repository_id }}"),
    ("system_repository/redhat.yml", "Report what was wrong with {{ system_repository_id }}"),
    # The id is that of the cause.
    ("drain/command_drain.yml", "Undo a drain_command that was lost"),
    ("framework_pytorch/packages.yml", "Report what pip could not do"),
    ("rollout/not_begun.yml", "End with what failed before the first change"),
    ("rollout/hands_off.yml", "Leave this host to whoever works on it"),
    ("system_kernel/available.yml", "Stop before anything changes, since the package manager failed"),
    ("system_packages/debian.yml", "Report what apt could not do"),
    ("system_packages/redhat.yml", "Report what dnf could not do"),
    ("accept/judge.yml", "End with the verdict of the acceptance"),
    ("preflight/fail_as_left_out.yml", "Stop every host, as preflight_on_problem says"),
    ("preflight/fail_as_left_out.yml", "Leave this host out, with the reason"),
    ("preflight/question.yml", "Check every variable of the roles"),
    ("preflight/read.yml", "End a run whose variables are wrong on every host"),
    ("verify/verdict.yml", "End with the verdict"),
}
ENDINGS = (("fail", "msg"), ("assert", "fail_msg"))
IN_BRACKETS = re.compile(r"\[[a-z_]+\.[a-z_]+\]")

REPORT = """<testsuites><testsuite>
<testcase classname="tests.faults.test_bare_host" name="test_unreachable_repository"/>
<testcase classname="tests.world.test_refused" name="test_it_is_refused[sudo without rights]"><failure/></testcase>
<testcase classname="tests.world.test_refused" name="test_it_is_refused[another login]"/>
<testcase classname="tests.world.test_refused" name="test_it_is_refused[read-only root]"><skipped/></testcase>
</testsuite></testsuites>"""


def functions(file: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)}


@pytest.fixture(scope="module")
def collected() -> set[str]:
    """The tests of the files that rows name, as pytest names them; the trainer's need PyTorch, which is not here."""
    files = {test.partition("::")[0] for test in map(results.test_of, results.rows())}
    found: set[str] = set()
    # Each suite has a conftest.py of its own, and they cannot be in one process.
    for suite in sorted({"/".join(file.split("/")[:2]) for file in files if file.startswith("tests/")}):
        asked = sorted(file for file in files if file.startswith(f"{suite}/"))
        command = [sys.executable, "-m", "pytest", "-q", "--collect-only", *asked]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
        found |= {line for line in done.stdout.splitlines() if "::" in line}
    return found


@pytest.mark.parametrize(
    "row", [row for row in PROVED if not row.test.startswith("trainer/")], ids=lambda row: row.fault
)
def test_the_test_of_a_row_is_there(row: Proved, collected: set[str]) -> None:
    # Without a name in brackets, every one of its cases counts.
    assert any(name == row.test or name.startswith(f"{row.test}[") for name in collected), f"no test is {row.test}"


@pytest.mark.parametrize("row", [row for row in PROVED if row.test.startswith("trainer/")], ids=lambda row: row.fault)
def test_the_trainers_test_of_a_row_is_there(row: Proved) -> None:
    file, _, name = row.test.partition("::")
    assert (REPOSITORY / file).is_file(), f"{file} is not there"
    assert name in functions(REPOSITORY / file), f"{file} has no {name}"


def test_a_fault_on_a_host_is_a_row_of_its_table(collected: set[str]) -> None:
    assert {results.test_of(row) for row in (*CONTROLLER, *HOST)} <= collected


def tasks(part: Any) -> Iterator[dict[str, Any]]:
    """Every task of a file, those in blocks and rescues as well."""
    for each in part or []:
        yield each
        for word in ("block", "rescue", "always"):
            yield from tasks(each.get(word))


def refusing_tasks() -> Iterator[tuple[str, str, str]]:
    """File, name and message of each task that ends a run of a role."""
    for file in sorted((REPOSITORY / "roles").glob("*/tasks/*.yml")):
        for task in tasks(yaml.safe_load(file.read_text())):
            said = [(task.get(f"ansible.builtin.{name}") or {}).get(key) for name, key in ENDINGS]
            yield from ((f"{file.parts[-3]}/{file.name}", task["name"], text) for text in said if text)


def test_every_task_that_ends_a_run_has_an_id() -> None:
    found = list(refusing_tasks())
    assert len(found) > 25
    without = {(file, name) for file, name, text in found if not IN_BRACKETS.search(text)}
    assert without == WITHOUT_ID


def test_every_module_that_fails_has_an_id() -> None:
    """But for what a wrong task is told, and what is a check."""
    without = [call for call in refusing_calls() if not IN_BRACKETS.search(call[1])]
    allowed = {key for key, how in MODULE_REFUSALS.items() if how == ARGUMENT or key[0] == "amp_smoke_test"}
    # The first line has it.
    allowed |= {("planning", "conflict_message"), ("driver_module", "refusal(wanted, found)")}
    # The end of the run tells the reason, with its id; where no callback does, the message does.
    allowed |= {("operator_lock", "left_out_message")}
    # Each of its errors ends with an id of its own.
    ending_so = ("apt_repository", "dnf_repository", "files", "kept_driver", "operator_lock", "repository_key")
    allowed |= {(name, "str(error)") for name in ending_so}
    # A BundleError and a PackagesError end with theirs.
    allowed |= {
        ("apt_repository", "without_login(str(error))"),
        ("bundle_make", "str(error)"),
        ("bundle_packages", "str(error)"),
    }
    extra = [row for row in without if not any(row[0] == name and row[1].startswith(text) for name, text in allowed)]
    assert extra == []


def test_an_id_of_the_table_is_that_of_a_message_or_a_check() -> None:
    known = {*ids(), *(check.id for check in CHECKS)}
    assert sorted({row.id for row in results.rows() if row.id} - known) == []


def test_preflights_rows_have_their_ids() -> None:
    found = ids()
    assert found["space.free"] == ["plugins/module_utils/preflight/space.py"]
    assert found["reach.port"] == ["plugins/plugin_utils/failures/reach.py"]
    assert found["kernel.headers"] == ["roles/system_kernel/tasks/available.yml"]
    assert {"run.internal", "variable.unknown", "operator.busy", "packages.unfinished"} <= set(found)


def test_no_two_rows_have_one_name() -> None:
    names = Counter([*(row.name for row in (*CONTROLLER, *HOST)), *(f"{row.id}: {row.fault}" for row in PROVED)])
    assert [name for name, times in names.items() if times > 1] == []


@pytest.mark.parametrize("row", [*CONTROLLER, *HOST], ids=lambda row: row.name)
def test_what_is_broken_on_a_host_is_mended(row: Row) -> None:
    assert bool(row.harm) == bool(row.mend) and (row.says or row.status == 0)


def test_the_trainers_tests_are_named_from_its_own_folder(tmp_path: Path) -> None:
    (row,) = [row for row in PROVED if row.test.endswith("::test_full_disk_spares_the_older_checkpoint")]
    name = row.test.partition("::")[2]
    case = f'<testcase classname="tests.engine.test_training" name="{name}"/>'
    report = tmp_path / "trainer.xml"
    report.write_text(f"<testsuites><testsuite>{case}</testsuite></testsuites>")
    assert results.found_in([report], "abc") == {row.test: Result(True, "abc")}


def test_results_are_those_of_the_rows_tests(tmp_path: Path) -> None:
    report = tmp_path / "faults.xml"
    report.write_text(REPORT)
    found = results.found_in([report], "abc")
    world = "tests/world/test_refused.py::test_it_is_refused"
    assert found == {
        f"{world}[sudo without rights]": Result(False, "abc"),
        f"{world}[another login]": Result(True, "abc"),
    }
    results.write({**found, "tests/gone.py::test_x": Result(True, "old")}, tmp_path / "results.json")
    assert results.read(tmp_path / "results.json") == found
    lines = page.text(found).splitlines()
    assert [line for line in lines if "may not become root" in line][0].endswith("| **failed** on abc |")


def test_a_suite_that_was_not_run_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        tool.record(["nowhere"])
    assert "nowhere.xml is missing" in str(ended.value) and "tests/run.py nowhere" in str(ended.value)


def test_the_page_is_what_make_docs_writes() -> None:
    assert (REPOSITORY / "docs/faults.md").read_text() == tool.text()
