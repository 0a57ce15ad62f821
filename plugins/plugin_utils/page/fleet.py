# SPDX-License-Identifier: Apache-2.0
"""The index of the fleet: one row for each host, worst first, what to do, what changed, and what is simulated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ansible_collections.gpuwright.node.plugins.module_utils.doctor.by_hand import done_by
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.check import SEVERITY
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.report import age_seconds

from ..layers import INSTALLED
from ..summary.words import natural
from .cards import CardLine
from .cells import Badge, badge
from .drawing import shares
from .facts import changes, from_plan
from .findings import RANK, Entry, Finding, Report, entry, to_do, verdict_of
from .people import usable
from .render import render
from .values import as_list, in_words, look, shorten, simulated

STALE_S = 7 * 86400
AGES = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
# Above the table: hosts that a sentence names, findings, and hosts that changed. The page of a large fleet stays small.
NAMED_HOSTS = 6
MOST_FINDINGS = 40
# Lines shown before the rest is folded, so that the table stays near; this few findings are not folded.
FIRST_FINDINGS, FEW_FINDINGS = 8, 2
MOST_CHANGED = 60
MOST_REMARKS = 5
# Of the fleet's cards, the worst; all of them are on the pages of their hosts.
MOST_CARDS = 20
# Characters of a version, a model and a sentence, whose columns must fit side by side.
VERSION, MODEL, SENTENCE = 18, 60, 300
UNKNOWN_NUMBER = "?"


class HostRow(NamedTuple):
    """What the index says about one host. `changed` and `drift` are None if there is nothing to compare with."""

    name: str
    page: str
    badge: Badge
    found: list[Finding]
    to_do: str
    layers: list[str]
    usable: str
    gpus: str
    driver: str
    cuda: str
    pytorch: str
    drift: int | None
    changed: int | None
    time: str
    problem: str
    simulated: str


class Group(NamedTuple):
    """A finding with its hosts; `message` is "" if each host of `messages` has its own."""

    key: tuple[str, tuple[str, ...], str]
    entry: Entry
    hosts: list[HostRow]
    message: str
    messages: list[tuple[str, str]]


class Age(NamedTuple):
    """How old a report is; `text` is "" for a time that cannot be read."""

    text: str
    stale: bool


def host_row(name: str, page: str, report: Report | None, before: Report | None, problem: str) -> HostRow:
    found = to_do(report)
    layers = _layers(report, found)
    changed = changes(before, report) if report else None
    drift = from_plan(report) if report else None
    return HostRow(
        name=name,
        page=page,
        badge=badge(verdict_of(report)),
        found=found,
        to_do=str(len(found)) if report else UNKNOWN_NUMBER,
        layers=layers,
        usable=usable(report),
        gpus=models(report),
        driver=_version(report, "probe", "nvidia", "loaded", "version"),
        cuda=_version(report, "cuda", "version_file"),
        pytorch=_version(report, "venv", "versions", "torch"),
        drift=None if drift is None else len(drift),
        changed=None if changed is None else len(changed),
        time=report["time"] if report else "",
        problem=shorten(problem, SENTENCE),
        simulated=simulated(report),
    )


def _version(report: Report | None, *path: str) -> str:
    return shorten(in_words(look(report, "readings", *path)), VERSION)


def _layers(report: Report | None, found: Sequence[Finding]) -> list[str]:
    """The layers in which something has to be done, lowest first."""
    names = {name for finding in found for name in finding.names}
    known = {check.get("layer") for check in (report or {}).get("checks", []) if check["id"] in names}
    return [layer for layer in INSTALLED if layer in known]


def models(report: Report | None) -> str:
    """For example "2 × Tesla V100-PCIE-16GB": the cards on the bus, whether or not a driver runs them."""
    cards = as_list(look(report, "readings", "probe", "gpus"))
    counted = Counter(shorten(in_words(look(card, "name")), MODEL) for card in cards)
    if not counted:
        return "none" if report and isinstance(look(report, "readings", "probe", "gpus"), list) else UNKNOWN_NUMBER
    most = [f"{number} × {name}" for name, number in sorted(counted.items())[:4]]
    return ", ".join([*most, f"and {len(counted) - 4} more"] if len(counted) > 4 else most)


def index_page(rows: Sequence[HostRow], now: str, cards: Sequence[CardLine] = (), problems: Sequence[str] = ()) -> str:
    """The page as text; `now` is the time in the report's format; cards, worst first, and which histories are lost."""
    ordered = sorted(rows, key=lambda row: (RANK[row.badge.text], -len(row.found), natural(row.name)))
    numbers = [(status, sum(row.badge.text == status for row in ordered)) for status in SEVERITY]
    numbers = [(status, number) for status, number in numbers if number]
    groups, more = groups_of(ordered)
    places = {group.key: place for place, group in enumerate(groups)}
    compared = [row for row in ordered if row.changed is not None]
    changed = [row for row in compared if row.changed]
    return render(
        "index.html.j2",
        now=now,
        headline=", ".join(f"{number} {status}" for status, number in numbers) or "none",
        numbers=numbers,
        shares=shares(numbers),
        groups=groups,
        more_findings=more,
        compared=len(compared),
        changed=changed[:MOST_CHANGED],
        more_changed=len(changed[MOST_CHANGED:]),
        remarks=remarks(ordered),
        rows=[(row, age(row.time, now), [places[_key(f)] for f in row.found if _key(f) in places]) for row in ordered],
        named=NAMED_HOSTS,
        first=FIRST_FINDINGS,
        few=FEW_FINDINGS,
        cards=cards[:MOST_CARDS],
        more_cards=len(cards[MOST_CARDS:]),
        lost_histories=problems,
    )


def groups_of(rows: Sequence[HostRow]) -> tuple[list[Group], int]:
    """Each finding once, with the hosts that have it, and how many findings are omitted.

    In a fleet, the same thing is wrong on many hosts. One host's detail is never shown for another.
    """
    groups: dict[tuple[str, tuple[str, ...], str], list[tuple[HostRow, Finding]]] = {}
    for row in rows:
        for finding in row.found:
            groups.setdefault(_key(finding), []).append((row, finding))
    ordered = sorted(groups.items(), key=lambda item: (RANK[item[0][0]], -len(item[1]), item[0]))
    return [_group(members) for _key, members in ordered[:MOST_FINDINGS]], len(ordered[MOST_FINDINGS:])


def _key(finding: Finding) -> tuple[str, tuple[str, ...], str]:
    return finding.status, finding.names, finding.action


def _group(members: Sequence[tuple[HostRow, Finding]]) -> Group:
    finding = members[0][1]
    words = entry(finding, done_by(finding.names[0], finding.action))
    messages = [(row.name, shorten(found.message, SENTENCE)) for row, found in members]
    alike = len({found.message for _row, found in members}) == 1
    named = [] if alike else messages[:NAMED_HOSTS]
    return Group(_key(finding), words, [row for row, _found in members], messages[0][1] if alike else "", named)


def remarks(rows: Sequence[HostRow]) -> list[tuple[str, str]]:
    """`[(what is simulated, on which hosts)]`, the most hosts first."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        if row.simulated:
            groups.setdefault(row.simulated, []).append(row.name)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    found = [(text, name_some(names, len(rows))) for text, names in ordered[:MOST_REMARKS]]
    rest = sum(len(names) for _text, names in ordered[MOST_REMARKS:])
    return [*found, ("other remarks, shown on their pages", how_many(rest))] if rest else found


def name_some(names: Sequence[str], of: int) -> str:
    """For example "a5-01, a5-02 and 3 more", or "all 40 hosts"."""
    if len(names) == of and of > 1:
        return f"all {of} hosts"
    more = len(names) - NAMED_HOSTS
    return ", ".join(names[:NAMED_HOSTS]) + (f" and {more} more" if more > 0 else "")


def how_many(number: int) -> str:
    return f"{number} host{'' if number == 1 else 's'}"


def age(time: str, now: str) -> Age:
    """The age of a report, marked when it is more than a week."""
    try:
        seconds = age_seconds(time, now)
    except ValueError:
        return Age("", False)
    size, word = next((size, word) for size, word in AGES if seconds >= size or size == 1)
    number = max(0, seconds) // size
    text = f"{number} {word}{'' if number == 1 else 's'} ago" if number else "just now"
    return Age(text, seconds > STALE_S)
