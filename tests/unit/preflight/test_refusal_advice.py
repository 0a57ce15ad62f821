"""What preflight refuses with is followed as it is printed, and the run gets past it."""

from __future__ import annotations

import ast
import re

import pytest
import refusal_advice
import yaml
from conftest import REPOSITORY
from refusal_advice import REFUSALS, VARIABLES, Refusal, follow

MOST_STEPS = 3
MODULES = REPOSITORY / "plugins/module_utils"
MODULE = "gpuwright.node.preflight_checks"


@pytest.mark.parametrize("refusal", [row for row in REFUSALS if not row.by_hand], ids=lambda row: row.name)
def test_what_is_printed_gets_past_it(refusal: Refusal) -> None:
    state = refusal.broken()
    rows = state.stops()
    assert any(refusal.words in row["problem"] for row in rows), rows
    steps = 0
    while rows:
        steps += 1
        assert steps <= MOST_STEPS, rows
        follow(state, rows[0]["next"])
        rows = state.stops()
    assert steps == refusal.steps


@pytest.mark.parametrize("refusal", [row for row in REFUSALS if row.by_hand], ids=lambda row: row.name)
def test_what_is_done_by_hand_stops_and_names_where_to_look(refusal: Refusal) -> None:
    rows = [row for row in refusal.broken().stops() if refusal.words in row["problem"]]
    assert rows and rows[0]["next"]
    with pytest.raises(AssertionError):
        for row in rows:
            follow(refusal.broken(), row["next"])


def test_every_row_of_preflight_that_can_stop_a_run_is_in_the_table() -> None:
    """As many as there are calls of problem() that may stop, found in the code itself."""
    calls = 0
    for file in (MODULES / "preflight").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "problem":
                stops = [word.value for word in node.keywords if word.arg == "stops"]
                calls += not (stops and isinstance(stops[0], ast.Constant) and stops[0].value is False)
    # Rows of package states have their own function; the same row for other families or states counts once here.
    assert calls == 30


@pytest.mark.parametrize(("variable", "asked"), sorted(VARIABLES.items()))
def test_a_variable_that_is_printed_reaches_what_is_asked_for(variable: str, asked: str) -> None:
    """The role hands it to preflight_checks under that name; gpuwright_busy and downgrade by a private one."""
    tasks = yaml.safe_load((REPOSITORY / "roles/preflight/tasks/host.yml").read_text())
    handed = next(task[MODULE] for task in tasks if MODULE in task)
    text = (REPOSITORY / "roles/preflight/vars/main.yml").read_text()
    private = re.search(r"__preflight_[a-z]+", handed[asked])
    assert variable in handed[asked] or (private and re.search(rf"{private[0]}: >-\n[^:]*{variable}", text))


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    rows = refusal_advice.table()
    followed = [row for row in rows if row[1].startswith("followed")]
    with capsys.disabled():
        print(
            f"\npreflight: {len(followed)} of {len(rows)} stops followed as printed, at most 2 steps; by hand: the rest"
        )
    assert len(followed) >= 18
