# SPDX-License-Identifier: Apache-2.0
"""A problem of the smoke test: a sentence for people, and a code for whoever decides."""

from __future__ import annotations

import errno

# Training ended, and what it computed is not right.
WRONG = "wrong-result"
# An exception that says nothing more.
RAISED = "raised"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class Problem(str):
    """A sentence with its code: wrong-result, raised, no-room, no-gpu or cannot-import."""

    code: str

    def __new__(cls, words: str, code: str = WRONG) -> Problem:
        problem = super().__new__(cls, words)
        problem.code = code
        return problem


def from_error(error: BaseException, words: str, code: str = RAISED) -> Problem:
    """The problem that an exception is, in these words; whatever it says, a full or read-only disk is "no-room"."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in NO_ROOM:
            return Problem(words, "no-room")
        cause = cause.__cause__ or cause.__context__
    return Problem(words, code)


def prefixed(begin: str, fault: str) -> Problem:
    """The fault after these words, with its code; a plain sentence is about a wrong result."""
    return Problem(f"{begin}{fault}", fault.code if isinstance(fault, Problem) else WRONG)
