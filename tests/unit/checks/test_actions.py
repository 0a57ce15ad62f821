"""A next step is for what was found: its command, its package manager, only the units that need it, and its remedy."""

from __future__ import annotations

import pytest
from action_rows import ROWS, given, next_step
from test_checks_sad_paths import judged_row


@pytest.mark.parametrize(("check_id", "changes", "words", "there"), ROWS)
def test_the_action_fits_what_was_found(check_id: str, changes: dict, words: str, there: bool) -> None:
    found = judged_row(check_id, *given(changes))
    assert found["action"] and (words in next_step(found)) is there, found
