"""An action is for what was found: its command, its package manager, and only the units and packages that need it."""

from __future__ import annotations

import pytest
from action_rows import ROWS
from test_checks_sad_paths import judged_row


@pytest.mark.parametrize(("check_id", "changes", "words", "there"), ROWS)
def test_the_action_fits_what_was_found(check_id: str, changes: dict, words: str, there: bool) -> None:
    found = judged_row(check_id, changes, {})
    assert found["action"] and (words in found["action"]) is there, found
