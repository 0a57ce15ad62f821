# SPDX-License-Identifier: Apache-2.0
"""What a rollout says of itself: its batches before anything starts, and at its end what became of every host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpuwright.node.plugins.plugin_utils.summary.words import (
    fold_names,
    name_some,
    natural,
    printable,
    wrapped,
)

from . import judge

# Groups of the last table, in its order, with the states that each has.
GROUPS = (
    ("done", (judge.DONE,)),
    ("returned", (judge.RETURNED,)),
    ("failed", (judge.FAILED,)),
    ("lost", (judge.LOST,)),
    ("unfinished", (judge.BEGUN,)),
    ("skipped", (judge.SKIPPED, judge.WAITING)),
    ("not reached", (judge.PENDING,)),
)
WORD = max(len(word) for word, _states in GROUPS)


def announcement(
    name: str, batches: Sequence[Sequence[str]], kept: Sequence[str], rules: Mapping[str, Any], width: int
) -> list[str]:
    """The batches, before the first host is contacted; `kept` are done already, with the same plan."""
    count = sum(map(len, batches))
    if not count:
        text = f'Rollout "{name}": every selected host is done already with the same plan: {names(kept, width)}.'
        return wrapped(text, width, rest="  ")
    most = rules["down_at_once"]
    lines = wrapped(
        f'Rollout "{name}": {hosts_word(count)} in {len(batches)} batch{"" if len(batches) == 1 else "es"}; a batch '
        "begins once the one before is verified"
        + (
            ". It ends at a host of the first batch that does not come through, and where more than "
            f"{rules['breaker_percent']} % do not"
            if rules.get("canaries", True)
            else ""
        )
        + (f"; at most {hosts_word(most)} {'is' if most == 1 else 'are'} down at once." if most else "."),
        width,
        rest="  ",
    )
    for number, batch in enumerate(batches, 1):
        start = f"  batch {number:<3} {hosts_word(len(batch)):<10} "
        lines += wrapped(names(batch, width - len(start)), width, start, " " * len(start))
    if kept:
        lines += wrapped(f"Done already with the same plan: {names(kept, width)}.", width, "  ", "  ")
    return lines


def end(record: Mapping[str, Any], width: int) -> list[str]:
    """One line for each group that has hosts, and one for each host that needs somebody to look at it."""
    hosts = record["hosts"]
    lines = [f'Rollout "{printable(record["rollout"])}"']
    for word, states in GROUPS:
        found = sorted((host for host, row in hosts.items() if row["state"] in states), key=natural)
        if not found:
            continue
        start = f"  {word:<{WORD}} {len(found):>4}  "
        lines += wrapped(names(found, width - len(start)), width, start, " " * len(start))
        if word != "done":
            lines += reasons(hosts, found, width)
    if record["stopped"]:
        lines += wrapped(f"Stopped: {printable(record['stopped'])}", width, "", "  ")
    return lines


def reasons(hosts: Mapping[str, Mapping[str, Any]], names_: Sequence[str], width: int) -> list[str]:
    """Why, each reason once."""
    found: dict[str, list[str]] = {}
    for host in names_:
        # The same sentence about several hosts begins with their names.
        found.setdefault(printable(hosts[host]["why"]).replace(host, "HOST"), []).append(host)
    lines = []
    for why, those in found.items():
        if why:
            told = why.replace("HOST", those[0] if len(those) == 1 else "the host")
            lines += wrapped(f"{names(those, width)}: {told}", width, "    ", "      ")
    return lines


def names(hosts: Sequence[str], columns: int) -> str:
    return name_some(fold_names(hosts), max(columns, 20))


def hosts_word(count: int) -> str:
    return f"{count} host" + ("" if count == 1 else "s")
