# SPDX-License-Identifier: Apache-2.0
"""The rows as lines: in groups, a problem of many hosts only once, wrapped to the terminal, short for many hosts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from .rows import BAD_VERDICTS, DONE, FAILED, LEFT_OUT, ORDER, Host, Row, with_status
from .words import fold_names, name_some, natural, printable, wrapped

HOST_WIDTH = 24
WORD_WIDTH = 7
# Text that would get fewer columns than this is put below its host.
LEAST_TEXT = 28
# Above this number of hosts, those that are done are counted, not listed, and the lines below are limited.
MANY_HOSTS = 30
PROBLEM_LINES = 12
WARNING_LINES = 3
ACTIONS_PER_HOST = 3
HOSTS_WITH_ACTIONS = 10
FEW_ACTION_LINES = 3

# (text before the word, the word that gets a colour, text after it); without a word, the first part is everything.
Line = tuple[str, str, str]
GROUPS = (("Failed", FAILED), ("Left out", LEFT_OUT), ("Done", DONE))


def table(rows: list[Row], columns: int, bounded: bool = True, untouched: bool = False) -> list[Line]:
    """Lines of all groups, worst first; each has a heading if there is more than one, or one was left out.

    bounded    whether the problems of more than 30 hosts may be cut short with a count
    untouched  whether nothing was changed on any host that was left out
    """
    hosts = {row.host for row in rows}
    groups = [(title, [row for row in rows if row.word in words]) for title, words in GROUPS]
    groups = [(title, members) for title, members in groups if members]
    many = len(hosts) > MANY_HOSTS
    bad = sum(title != "Done" for title, _ in groups)
    budget = PROBLEM_LINES // max(1, bad) if many and bounded else 0
    label_width = min(HOST_WIDTH, max(len(printable(name)) for name in hosts))
    word_width = max(WORD_WIDTH, *(len(row.word) for row in rows))
    lines: list[Line] = []
    for title, members in groups:
        named = {row.host for row in members}
        if len(groups) > 1 or title == "Left out":
            same = " Nothing was changed on " + ("it." if len(named) == 1 else "them.")
            note = same if title == "Left out" and untouched else ""
            lines.append((f"{title}: {len(named)} of {len(hosts)} hosts.{note}", "", ""))
        if title == "Done":
            lines += _done(members, many, bounded, label_width, word_width, columns)
        else:
            lines += _problems(members, budget, label_width, word_width, columns)
    return lines


def _done(rows: list[Row], many: bool, bounded: bool, label_width: int, word_width: int, columns: int) -> list[Line]:
    listed = [row for row in rows if not many or row.word == "WARN" or row.listed]
    lines: list[Line] = []
    # Warnings of many hosts are treated like problems, shown once each.
    if many:
        lines += _problems(listed, WARNING_LINES if bounded else 0, label_width, word_width, columns)
    else:
        for row in _sorted(listed):
            lines += _block([row], label_width, word_width, columns)
    for word in DONE:
        number = sum(row.word == word and row not in listed for row in rows)
        if number:
            lines.append(("and".ljust(label_width), word.ljust(word_width), f"{number} hosts"))
    return lines


def _problems(rows: list[Row], budget: int, label_width: int, word_width: int, columns: int) -> list[Line]:
    """Problems that several hosts share, once each; at most `budget` lines (0: all), then how many more there are."""
    alike: dict[tuple[str, ...], list[Row]] = {}
    for row in _sorted(rows):
        said = row.common if row.common[0] else (row.text, row.next)
        alike.setdefault((row.word, row.tail, *said), []).append(row)
    order = (
        sorted(alike.values(), key=lambda same: (ORDER.index(same[0].word), -len(same))) if budget else alike.values()
    )
    lines: list[Line] = []
    rest: list[Row] = []
    for same in order:
        block = _block(same, label_width, word_width, columns)
        # The first is shown whatever its length, so that no group is just a number.
        if budget and lines and len(lines) + len(block) > budget - 1:
            rest += same
        else:
            lines += block
    return lines + [(line, "", "") for line in _counts(rest, columns)]


def _counts(rest: list[Row], columns: int) -> list[str]:
    """The problems that are not listed, as numbers."""
    if not rest:
        return []
    by_word = {word: len({row.host for row in rest if row.word == word}) for word in ORDER}
    kinds = ", ".join(f"{word} {number}" for word, number in by_word.items() if number)
    problems = len({(row.word, row.common[0] or row.text) for row in rest})
    text = f"and {len({row.host for row in rest})} hosts with {problems} other problems: {kinds}"
    return wrapped(text, columns, "", "    ")


def _block(same: list[Row], label_width: int, word_width: int, columns: int) -> list[Line]:
    """The lines of one row, or of rows that differ only in their host."""
    names = [printable(row.host) for row in same]
    label = names[0] if len(names) == 1 else name_some(fold_names(names), 2 * columns)
    if len(names) > 3:
        label += f" ({len(names)} hosts)"
    row = same[0]
    if len({(one.text, one.next) for one in same}) > 1:
        # A sentence that can be followed as it stands, for one of them.
        row = dataclasses.replace(row, next=f"{row.next} That is for {row.host}; for the others likewise.".lstrip())
    text = printable(row.text) + row.tail
    lines: list[Line] = []
    indent = label_width + word_width + 4
    below = columns - indent < LEAST_TEXT
    if len(label) > label_width:
        lines += [(line, "", "") for line in wrapped(label, columns)]
        label = ""
    if below:
        indent = 4
        if len(label) + 2 + len(row.word) > columns:
            lines.append((label, "", ""))
            label = ""
        lines.append((label or "  ", row.word, ""))
        texts = wrapped(text, columns - indent)
    else:
        texts = wrapped(text, columns - indent)
        lines.append((label.ljust(label_width), row.word.ljust(word_width), texts.pop(0)))
    texts += wrapped(printable(row.next), columns - indent, "next: ", "      ") if row.next else []
    return lines + [(" " * indent + line, "", "") for line in texts]


def _sorted(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (ORDER.index(row.word), natural(row.host)))


def advice(rows: list[Row], hosts: Mapping[str, Host], columns: int) -> list[str]:
    """What to do: up to three actions for each host with a bad verdict."""
    bad = [row.host for row in _sorted(rows) if row.word in BAD_VERDICTS and hosts[row.host].checks]
    many = len({row.host for row in rows}) > MANY_HOSTS
    lines: list[str] = []
    told = 0
    for name in bad[:HOSTS_WITH_ACTIONS]:
        checks = [*with_status(hosts[name].checks, "FAIL"), *with_status(hosts[name].checks, "UNKNOWN")]
        own: list[str] = []
        for check in checks[: 1 if many else ACTIONS_PER_HOST]:
            own += wrapped(printable(f"{name} {check.get('id')}: {check.get('action')}"), columns, "  ", "    ")
        if many and told and len(lines) + len(own) > FEW_ACTION_LINES:
            break
        lines += own
        told += 1
    if len(bad) > told:
        lines.append(f"  The reports say what to do for {len(bad) - told} more hosts.")
    return lines
