# SPDX-License-Identifier: Apache-2.0
"""Order versions as rpm does, for choosing the newest installed kernel."""

import functools
from typing import List, Tuple

from ..host.patterns import lazily

SEGMENT = lazily(r"[0-9]+|[a-zA-Z]+|~|\^")


def compare_versions(left: str, right: str) -> int:
    """-1, 0 or 1 by rpm's rules: number against number, a number above a word, `~` below the end, `^` just above it."""
    if left == right:
        return 0
    left_parts, right_parts = SEGMENT.findall(left), SEGMENT.findall(right)
    for index in range(max(len(left_parts), len(right_parts))):
        ours = _rank(left_parts, index)
        theirs = _rank(right_parts, index)
        if ours != theirs:
            return -1 if ours < theirs else 1
    return 0


def _rank(parts: List[str], index: int) -> Tuple[int, int, str]:
    """A sortable value for one segment; the end of the text counts as a segment, too."""
    if index >= len(parts):
        return (1, 0, "")
    part = parts[index]
    if part == "~":
        return (0, 0, "")
    if part == "^":
        return (2, 0, "")
    if part.isdecimal():
        return (4, int(part), "")
    return (3, 0, part)


def compare_kernels(left: str, right: str) -> int:
    """Order kernel releases such as 4.18.0-477.10.1.el8_8.x86_64: first the part before the dash, then the rest."""
    left_version, _dash, left_release = left.partition("-")
    right_version, _dash, right_release = right.partition("-")
    return compare_versions(left_version, right_version) or compare_versions(left_release, right_release)


kernel_sort_key = functools.cmp_to_key(compare_kernels)
