# SPDX-License-Identifier: Apache-2.0
"""Which hosts go together: the sizes of the batches, never more than may be down at once."""

from __future__ import annotations

from collections.abc import Sequence


def sizes(count: int, entries: Sequence[int | str], most: int = 0) -> list[int]:
    """The sizes of all batches of `count` hosts; their sum is `count`.

    entries  whole numbers, or percentages of `count` (rounded down, 1 at least); the last one is used until all hosts
             have a batch, as Ansible's serial does
    most     hosts of one batch, 0 for no limit; a larger batch is divided
    """
    found: list[int] = []
    left, place = count, 0
    while left > 0:
        size = min(left, in_hosts(entries[min(place, len(entries) - 1)], count))
        place += 1
        left -= size
        found += divided(size, most)
    return found


def in_hosts(entry: int | str, count: int) -> int:
    """One entry as a number of hosts, 1 at least."""
    return max(1, int(entry[:-1]) * count // 100) if isinstance(entry, str) else entry


def divided(size: int, most: int) -> list[int]:
    """A batch in parts of at most `most` hosts."""
    if most <= 0 or size <= most:
        return [size]
    return [most] * (size // most) + ([size % most] if size % most else [])


def split(hosts: Sequence[str], parts: Sequence[int]) -> list[list[str]]:
    """The hosts, in their order, in batches of these sizes."""
    found, start = [], 0
    for part in parts:
        found.append(list(hosts[start : start + part]))
        start += part
    return found
