# SPDX-License-Identifier: Apache-2.0
"""The table that ends playbooks/drift.yml on a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from ..summary.words import wrapped
from .differences import Difference
from .found import DRIFT, NONE, Found, counts, status_of, worst_first

WORDS = {DRIFT: "DRIFT", NONE: "no drift"}
END = {
    DRIFT: "Drift: a plain site.yml would change what is listed; nothing was changed [drift.found]",
    NONE: "No drift: a plain site.yml would change nothing.",
}
UNSEEN = "Unknown: no difference was seen, but not everything was looked at; nothing was changed [drift.unknown]"


def lines(hosts: Mapping[str, Found], overall: str, columns: int) -> list[str]:
    """One line for each host, worst first, and below it what differs and what is unknown."""
    found = ["Drift, worst first: layer, what differs, now -> planned"]
    for name in worst_first(hosts):
        host = hosts[name]
        verdict = f"; verdict {host.verdict}" if host.verdict else ""
        word = WORDS.get(status_of(host), "UNKNOWN")
        found += wrapped(f"{counts(host)}{verdict}", columns, f"{name}  {word}  ", "    ")
        layers = [row.layer for row in host.differences] + [row.layer for row in host.unknown]
        width = max(map(len, layers), default=0)
        for row in host.differences:
            found += wrapped(in_a_line(row), columns, f"  {row.layer:<{width}}  ", "      ")
        for unknown in host.unknown:
            text = f"UNKNOWN {unknown.task}: {unknown.why}"
            found += wrapped(text, columns, f"  {unknown.layer:<{width}}  ", "      ")
        for remark in host.remarks:
            found += wrapped(f"remark: {remark}", columns, "  ", "      ")
    return found + wrapped(END.get(overall, UNSEEN), columns)


def in_a_line(row: Difference) -> str:
    """For example "/etc/x: mode 0600 -> 0644"."""
    pair = f"{row.now} -> {row.planned}" if row.now else row.planned
    text = f"{row.what}: {row.attribute} {pair}" if row.attribute else f"{row.what}: {pair}"
    text = f"{text} ({row.task})" if row.planned == "would change" and row.what != row.task else text
    return f"{text} ({row.who})" if row.who else text
