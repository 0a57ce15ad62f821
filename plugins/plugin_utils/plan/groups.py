# SPDX-License-Identifier: Apache-2.0
"""Sets of candidates as whole numbers, a bit for each: those that are alike in one way are put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .candidates import Candidate


def by_friends(friends_of: dict[Any, int]) -> list[tuple[int, ...]]:
    """`[(friends, group)]`, each set of friends once."""
    groups: dict[int, int] = {}
    for group, friends in friends_of.items():
        groups[friends] = groups.get(friends, 0) | group
    return list(groups.items())


def by_needs(members: list[tuple[int, Candidate]]) -> list[tuple[Sequence[str], int]]:
    """`[(needs, group)]`: the members that need the same pins."""
    groups: dict[Sequence[str], int] = {}
    for bit, candidate in members:
        groups[candidate.needs] = groups.get(candidate.needs, 0) | bit
    return list(groups.items())
