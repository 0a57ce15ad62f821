"""An action is for what was found: its command, its package manager, and only the units and packages that need it."""

from __future__ import annotations

import healthy_node
import pytest
from action_rows import ROWS
from gpuwright.checks.all import run_checks
from gpuwright.verdict.check import DEEP


@pytest.mark.parametrize(("check_id", "changes", "words", "there"), ROWS)
def test_the_action_fits_what_was_found(check_id: str, changes: dict, words: str, there: bool) -> None:
    record = healthy_node.readings()
    for path, value in changes.items():
        healthy_node.put(record, path, value)
    judged = run_checks(record, healthy_node.expectations(), healthy_node.smoke(), level=DEEP)
    found = next(one for one in judged if one["id"] == check_id)
    assert found["action"] and (words in found["action"]) is there, found
