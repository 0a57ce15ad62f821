"""Parts of what programs print, found by what stands around them."""

from __future__ import annotations

import re


def part_of(pattern: str, text: str, flags: int = 0) -> str:
    """What the pattern's first group matches in the text; a text without it is told."""
    match = re.search(pattern, text, flags)
    assert match is not None, f"{pattern!r} is not in {text[:2000]!r}"
    return match[1]
