# SPDX-License-Identifier: Apache-2.0
"""Which nodes a sweep takes now: idle for long enough, not swept lately, within the limits. Nothing here acts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from ansible_collections.gpuwright.node.plugins.plugin_utils.history.kept import History, epoch
from ansible_collections.gpuwright.node.plugins.plugin_utils.summary.words import fold_names, name_some

# How others read that a node is with a sweep, and that one has found it bad. gpuwright-drains returns neither.
TAKEN = "gpuwright: planned work: sweep (gpuwright)"
BAD = "gpuwright: sweep: "
# Flags of Slurm that an idle node may have; any other means that it is kept for something, or not there.
IDLE_FLAGS = {"cloud", "dynamic_norm"}
# Of the columns that the role asks sinfo for.
COLUMNS = (64, 128, 512)
HOURS = re.compile(r"([0-9]{1,2})-([0-9]{1,2})")
# After a sweep that came to no end, a node is not tried again for a day, or for the interval if that is shorter.
AGAIN_S = 86400.0
# What was chosen and not tested, for whatever reason, is not chosen again in every run.
NOT_BEGUN_S = 3600.0
# Of a Slurm that has no LastBusyTime.
NOT_TOLD = math.inf


class Settings(NamedTuple):
    """share: percent of `fleet` nodes; hours: (first, end) of the day, of the controller's clock."""

    share: int
    fleet: int
    idle_s: float
    interval_s: float
    hours: tuple[int, int]


class Look(NamedTuple):
    """A node at this moment. `why`: what speaks against taking it, "" if it is idle; since: when it became so.

    taken  an earlier sweep has left it out of service        answers  its scheduler hears of it
    bad    a sweep keeps it out of service
    """

    why: str
    since: float | None = None
    taken: bool = False
    answers: bool = True
    bad: bool = False


class Turn(NamedTuple):
    """at_once: how many nodes may be taken together with this one, 0 if it is not its turn; `left`: return it first."""

    at_once: int
    why: str
    left: bool = False


def table(turns: Mapping[str, Turn]) -> list[str]:
    """Whose turn it is, and why not, each reason once with its nodes."""
    found: dict[str, list[str]] = {}
    for name, turn in turns.items():
        found.setdefault("swept now" if turn.at_once else f"not taken, {turn.why}", []).append(name)
    return [f"{name_some(fold_names(names), 60)}: {why}" for why, names in found.items()]


def hours_of(text: str) -> tuple[int, int]:
    """For example (22, 6) of "22-6". ValueError with what was expected."""
    found = HOURS.fullmatch(text)
    begin, end = (int(found[1]), int(found[2])) if found else (0, 0)
    if not found or begin > 23 or end > 24 or begin == end:
        raise ValueError(
            "expected two different hours, the first 0 to 23 and the second 0 to 24, such as 22-6; 0-24 is always"
        )
    return begin, end


def within(hours: tuple[int, int], hour: int) -> bool:
    begin, end = hours
    return begin <= hour < end if begin < end else hour >= begin or hour < end


def slurm_looks(rows: str, details: str) -> dict[str, Look]:
    """The looks of Slurm's nodes.

    rows     sinfo's columns of fixed width, so that no text in one is taken for another
    details  `scontrol show node`, for the time since when a node is idle
    """
    busy = dict(re.findall(r"(?ms)^NodeName=(\S+).*?^ +LastBusyTime=(\S+)", details))
    return {
        name: _slurm_look(state.lower(), reason, busy.get(name))
        for name, state, reason in map(_cells, rows.splitlines())
        if name
    }


def _cells(line: str) -> list[str]:
    cells, start = [], 0
    for width in COLUMNS:
        cells.append(line[start : start + width].strip())
        start += width
    return cells


def _slurm_look(state: str, reason: str, busy: str | None) -> Look:
    answers = "*" not in state and "not_responding" not in state
    drained = "drain" in state
    if drained and reason.startswith(TAKEN):
        why = "an earlier sweep has left it drained" + ("" if answers else ", and it does not answer")
        return Look(why, taken=True, answers=answers)
    if drained and reason.startswith(BAD):
        return Look(f"a sweep has found it bad ({reason.removeprefix(BAD)})", bad=True)
    if drained:
        return Look(f"it is drained by somebody else ({reason})")
    word, _plus, flags = state.partition("+")
    if word != "idle" or set(filter(None, flags.split("+"))) - IDLE_FLAGS:
        return Look(f"it is {state}")
    return Look("", NOT_TOLD if busy is None else _seconds(busy))


def _seconds(stamp: str) -> float | None:
    """Of Slurm's time, which was asked for in UTC; None for "Unknown" and the like: it was never busy."""
    return epoch(f"{stamp}Z") or None


def turns(
    looks: Mapping[str, Look],
    histories: Mapping[str, History],
    rules: Settings,
    now: float,
    elsewhere: Sequence[str] = (),
) -> dict[str, Turn]:
    """What becomes of each node now. The share counts what is out of service for a sweep already, also `elsewhere`."""
    out = [*(name for name, look in looks.items() if look.bad or look.taken), *elsewhere]
    room = max(1, rules.fleet * rules.share // 100) - len(out)
    found: dict[str, Turn] = {}
    due: list[str] = []
    for name, look in looks.items():
        if look.taken:
            found[name] = Turn(0, look.why, left=look.answers)
            continue
        why = _why_not(look, histories.get(name), rules, now)
        found[name] = Turn(0, why)
        due += [] if why else [name]
    text = _outside(rules, now)
    if text:
        return {**found, **dict.fromkeys(due, Turn(0, text))}
    if due and room < 1:
        text = f"as many nodes as sweep_share_percent allows are out of service for a sweep: {', '.join(out[:3])}"
        return {**found, **dict.fromkeys(due, Turn(0, text))}
    return {**found, **{name: Turn(room, "") for name in due}}


def still(look: Look, rules: Settings, now: float) -> str:
    """Why a node that was chosen is not taken after all, "" if it is."""
    return _not_idle(look, rules, now) or _outside(rules, now)


def _outside(rules: Settings, now: float) -> str:
    inside = within(rules.hours, datetime.fromtimestamp(now).astimezone().hour)
    return "" if inside else "it is outside the hours {}-{} of sweep_hours".format(*rules.hours)


def _why_not(look: Look, history: History | None, rules: Settings, now: float) -> str:
    why = _not_idle(look, rules, now)
    if why or history is None:
        return why
    waits = (
        (rules.interval_s, history["swept"], "it was swept at {}"),
        (min(rules.interval_s, AGAIN_S), history["tried"], "a sweep of {} came to no end"),
        (min(rules.interval_s, NOT_BEGUN_S), history["chosen"], "it was chosen at {} and not tested"),
    )
    return next((text.format(stamp) for wait, stamp, text in waits if stamp and now - epoch(stamp) < wait), "")


def _not_idle(look: Look, rules: Settings, now: float) -> str:
    if look.why:
        return look.why
    if rules.idle_s and look.since == NOT_TOLD:
        return "this Slurm does not tell since when a node is idle: set sweep_idle_minutes: 0"
    if rules.idle_s and look.since is not None and now - look.since < rules.idle_s:
        return f"it is idle for {_minutes(now - look.since)} of {_minutes(rules.idle_s)} minutes"
    return ""


def _minutes(seconds: float) -> int:
    return int(max(0.0, seconds) // 60)


def host_look(who: str, history: History | None, now: str, known: bool = True) -> Look:
    """A node without a scheduler: idle since the first look of several that found nobody.

    known  whether the node has answered
    """
    if not known:
        return Look("it has not answered", answers=False)
    if who:
        return Look(f"in use: {who}")
    return Look("", epoch((history or {"idle_since": ""})["idle_since"] or now))


def idle_since(look: Look, history: Mapping[str, Any], now: str) -> str:
    """What the history of a node without a scheduler keeps of a look."""
    return "" if look.why else history["idle_since"] or now
