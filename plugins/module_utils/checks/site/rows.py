# SPDX-License-Identifier: Apache-2.0
"""The rows of a site's own checks in a report: one for each program, from what it answered."""

import shlex
from typing import Any, List, Mapping

from ...verdict.check import (
    FAIL,
    PASS,
    SKIP,
    STANDARD,
    UNKNOWN,
    WARN,
    Check,
    Judge,
    Outcome,
    failed,
    passed,
    skipped,
    unknown,
    warned,
)
from ...verdict.evidence import Evidence
from .reading import FAMILY, FOLDER, LINK, NO_FILE, NO_PROGRAM, NOT_ROOTS, OURS

READING = "site_checks"
FOUND = "found"
STATUSES = (PASS, WARN, FAIL, UNKNOWN, SKIP)
NOT_RUN = (LINK, NO_FILE, NOT_ROOTS, NO_PROGRAM, OURS)
LOOK = f"Run: ls -la {FOLDER} # Only programs of root's, which nobody else may change, are run"
RULE = "its one line of JSON, as docs/verdict.md describes it"


def site_rows(readings: Mapping[str, Any]) -> List[Check]:
    """A check for each program of the site in these readings; none where they were not asked."""
    found = readings.get(READING)
    if isinstance(found, dict):
        # It could not be read at all, so it is not known what they would have said.
        return [_check(0, f"{FAMILY}.folder", FOLDER)]
    rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
    return [_check(at, str(row.get("id")), str(row.get("path"))) for at, row in enumerate(rows)]


def _check(at: int, name: str, path: str) -> Check:
    run = f"Run: sudo {shlex.quote(path)} # It shows what this site's own check sees"
    return Check(
        id=name,
        layer="system",
        level=STANDARD,
        severity=FAIL,
        question=f"What does the site's own check {path} say?",
        judge=_judge(at),
        needs_gpu=False,
        remedy="drain",
        action=LOOK if path == FOLDER else run,
        source="the site",
    )


def _judge(at: int) -> Judge:
    def judge(readings: Evidence, _expected: Evidence) -> Outcome:
        """What the program says; whatever is no such answer is UNKNOWN, with the reason."""
        answer = readings.each(READING)[at].at("answer")
        given = answer.value if isinstance(answer.value, dict) else {}
        code, why = given.get("code"), given.get("unreadable")
        if isinstance(why, str) and isinstance(code, str):
            # Nobody is told to run what root refuses to run.
            action = LOOK if code in NOT_RUN else ""
            return unknown(code, f"cannot tell: {why}; expected {RULE}", action=action)
        # Its own UNKNOWN is a word here, and no failed reading.
        status = UNKNOWN if given.get("status") == UNKNOWN else answer.one_of(STATUSES, "status")
        # Any words are its message, also those that mean "no value" in a reading.
        message = str(given["message"]) if given.get("message") else answer.text("message")
        value, expected = given.get("value"), given.get("expected")
        action = str(given.get("action") or "")
        if status == FAIL:
            return failed(FOUND, value, expected, message, action, str(given.get("remedy") or ""))
        if status == WARN:
            return warned(FOUND, value, expected, message, action)
        if status == SKIP:
            return skipped(FOUND, message)
        if status == UNKNOWN:
            return unknown(FOUND, message, value, expected, action)
        return passed(value, expected, message)

    return judge


def is_site(name: str) -> bool:
    """Whether this is the id of such a row."""
    return name.startswith(FAMILY + ".")
