# SPDX-License-Identifier: Apache-2.0
"""Lines for the screen: wrapped at words, never cut, in ASCII except for the words of hosts and tasks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from ..summary.words import fold_names, name_some, printable, wrapped

MARK_WIDTH = 9
# Share of the width for the names of hosts before the text.
HOSTS_PART = 0.5


def event(mark: str, hosts: Iterable[str], text: str, columns: int) -> str:
    """For example "changed  a5-01, a5-02  Install the driver"."""
    names = list(hosts)
    label = name_some(fold_names(map(printable, names)), int(columns * HOSTS_PART))
    first = f"{mark:<{MARK_WIDTH}}{label}  "
    return "\n".join(wrapped(printable(text), columns, first, " " * MARK_WIDTH))


def fitted(text: str, columns: int) -> str:
    """The same text with lines of at most `columns`, their indentation kept; words and JSON stay whole."""
    if text.lstrip().startswith(("{", "[")):
        return text
    lines: list[str] = []
    for line in text.splitlines() or [""]:
        if len(line) <= columns:
            lines.append(line)
            continue
        indent = line[: len(line) - len(line.lstrip())]
        lines += textwrap.wrap(
            line,
            columns,
            subsequent_indent=indent + "  ",
            break_long_words=False,
            break_on_hyphens=False,
            replace_whitespace=False,
            drop_whitespace=True,
        ) or [line]
    return "\n".join(lines)


def attributes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """A difference of attributes, such as "/etc/x: mode 0644 -> 0600"; all but single values go only to the log."""
    names = [name for name in after if before.get(name) != after[name]]
    place = f"{after['path']}: " if isinstance(after.get("path"), str) else ""
    single = (str, int, float, bool, type(None))
    return [
        f"{place}{name} {before.get(name)} -> {after[name]}"
        for name in names
        if isinstance(after[name], single) and isinstance(before.get(name), single)
    ]


def recap(host: str, counts: Mapping[str, int]) -> str:
    """As Ansible's own line, without the padding that makes it wider than a terminal."""
    names = {"ok": "ok", "changed": "changed", "unreachable": "unreachable", "failures": "failed"}
    names |= {"skipped": "skipped", "rescued": "rescued", "ignored": "ignored"}
    return f"{host} : " + " ".join(f"{shown}={counts[name]}" for name, shown in names.items())
