"""The table of guards is whole: each promise of docs/security.md has a row, each place and each test is there."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
sys.path.append(str(REPOSITORY / "tests/guards"))

from guard_rows import PAGE, Guard, guards, statements  # noqa: E402

GUARDS = guards()
# Rows of the two tables that test_unit_exposure.py itself reads, and holds the services to.
READ_BY_THE_TEST = ("| service | exposure |", "| setting | services |")
# How these sentences of the page begin, which explain a promise and make none.
EXPLAIN = (
    "The exposure is what `systemd-analyze security",
    "Without the settings below it is",
    "User, group and folders are those of the defaults.",
    "Why the exposure is not lower:",
    "`gpuwright-check` must be root",
    "Before 252, `ProtectClock=` allows",
    "| RHEL 8 |",
    "| Ubuntu 22.04 |",
    "| Debian 12, Ubuntu 24.04 |",
    "A program's name, the name of its file",
    "A user may still cause real messages:",
)


def normal(text: str) -> str:
    return " ".join(text.split())


def page_statements(page: str) -> list[str]:
    """The statements of a page without those tables, each on one line."""
    text = (REPOSITORY / page).read_text()
    for head in READ_BY_THE_TEST:
        before, found, behind = text.partition(head)
        text = before + behind[behind.index("\n\n") :] if found else text
    return [normal(each) for each in statements(text)]


def test_every_promise_of_the_page_has_a_guard():
    promises = [normal(guard.promise) for guard in GUARDS if guard.page == PAGE]
    without = [
        each
        for each in page_statements(PAGE)
        if not each.startswith(EXPLAIN) and not any(promise in each for promise in promises)
    ]
    assert without == []


def test_what_only_explains_is_on_the_page():
    found = page_statements(PAGE)
    assert [words for words in EXPLAIN if not any(each.startswith(words) for each in found)] == []


@pytest.mark.parametrize("page", sorted({guard.page for guard in GUARDS}))
def test_every_row_names_one_promise(page):
    found = page_statements(page)
    promises = {normal(guard.promise) for guard in GUARDS if guard.page == page}
    assert {each: sum(each in one for one in found) for each in promises} == dict.fromkeys(promises, 1)


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_every_place_and_every_test_is_there(guard: Guard):
    file = REPOSITORY / guard.file
    changed = guard.without(file.read_text())
    assert guard.remove != guard.instead
    if file.suffix == ".py":
        ast.parse(changed)
    path, _, name = guard.test.partition("::")
    tree = ast.parse((REPOSITORY / path).read_text())
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert name in functions, guard.test


def test_no_row_is_there_twice():
    assert [each for each, count in Counter(GUARDS).items() if count > 1] == []
