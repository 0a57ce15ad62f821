# SPDX-License-Identifier: Apache-2.0
"""A row of the tables of causes: what a tool prints, what that means, and what to do next.

The next step is chosen by the cause, never by the place where the tool was called. What no row recognises is shown in
the tool's own last words, without a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class Cause(NamedTuple):
    """One cause.

    id       of the fault, as in docs/faults.md
    pattern  of what the tool prints; each group that is named `what...` is what it is about
    problem  what is wrong; the speaker's own table says which words in braces it may use
    next     what to do, with the same words
    source   the tools and releases whose messages the pattern is from; "not run": only sources and reports show them
    kind     refused, or unreachable for a host that was not reached
    """

    id: str
    pattern: str
    problem: str
    next: str
    source: str = ""
    kind: str = "refused"


def first_cause(causes: Iterable[Cause], text: str) -> tuple[Cause, re.Match[str]] | None:
    """The first row whose pattern is in the text, and where; None if nothing is recognised."""
    for cause in causes:
        match = re.search(cause.pattern, text)
        if match:
            return cause, match
    return None


def what(match: re.Match[str]) -> str:
    """The first thing that the pattern has named, "" if none."""
    return next((value for name, value in match.groupdict().items() if name.startswith("what") and value), "")
