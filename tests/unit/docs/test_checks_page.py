"""docs/checks.md says what the rows of the checks say, and how often each was tried and wrong."""

from __future__ import annotations

import json

import pytest
from module_files import load_file

checks_page = load_file("tools/checks.py")
TRIED = json.loads(checks_page.TRIED.read_text())


@pytest.fixture(scope="module")
def tallies() -> dict:
    return checks_page.count()


def test_the_page_is_what_the_rows_say(tallies: dict) -> None:
    rows = checks_page.checks.CHECKS
    assert checks_page.PAGE.read_text() == checks_page.page(rows, tallies, TRIED), "run `make docs`"


def test_a_changed_question_is_drift(tallies: dict) -> None:
    first, *rest = checks_page.checks.CHECKS
    changed = (first._replace(question="Is it another question?"), *rest)
    assert checks_page.PAGE.read_text() != checks_page.page(changed, tallies, TRIED)


def test_no_check_raises_a_false_alarm_or_misses_a_fault(tallies: dict) -> None:
    wrong = {name: vars(tally) for name, tally in tallies.items() if tally.alarms or tally.missed}
    assert wrong == {}


def test_every_check_was_tried_on_healthy_and_on_broken_inputs(tallies: dict) -> None:
    assert [name for name, tally in tallies.items() if not (tally.healthy and tally.broken)] == []


def test_a_wrong_answer_is_counted() -> None:
    tally = checks_page.Tally()
    for should_be, is_bad in ((True, True), (True, False), (False, True), (False, False)):
        tally.add(should_be, is_bad)
    assert vars(tally) == {"healthy": 2, "alarms": 1, "broken": 2, "missed": 1}


def test_what_the_long_count_says_is_about_checks_that_there_are() -> None:
    known = {check.id for check in checks_page.checks.CHECKS}
    fields = TRIED["fields"]
    assert set(fields["mutants_of_check"]) <= known
    assert fields["mutants"] == sum(fields["mutants_of_check"].values()) > 10_000
    assert fields["unnoticed"] == 0
