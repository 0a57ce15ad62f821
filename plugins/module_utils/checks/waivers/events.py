# SPDX-License-Identifier: Apache-2.0
"""Single events of the kernel's log: which of them fail, and the log without some of them."""

from typing import Callable, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from ...verdict.check import FAIL, Check, judge
from ...verdict.report import Record
from ..kernel.event_names import KERNEL, listed_id

LISTS = ("xids", "sxids", "findings")


class Failing(NamedTuple):
    """An event that by itself makes checks FAIL: its list, its name, and the records of those checks."""

    listed_in: str
    event: Record
    id: str
    records: Sequence[Record]


def events(readings: Record) -> List[Tuple[str, Record, str]]:
    """`[(list, event, id)]` of `readings.kernel_log`; none if it is missing or not readable."""
    log = readings.get("kernel_log")
    found = []
    for name in LISTS:
        members = log.get(name) if isinstance(log, dict) else None
        for event in members if isinstance(members, list) else []:
            event_id = listed_id(name, event) if isinstance(event, dict) else ""
            if event_id:
                found.append((name, event, event_id))
    return found


def last_second(event: Record) -> Optional[float]:
    """When it last occurred, in seconds since boot; None if not known."""
    second = event.get("last_s")
    return second if isinstance(second, (int, float)) and not isinstance(second, bool) else None


def is_open(event: Record) -> bool:
    """Whether nothing has closed the event yet."""
    return not event.get("closed_by")


def closing(readings: Record, words_of: Callable[[Record, str], str]) -> Record:
    """The readings with `closed_by` set on each open event for which `words_of(event, id)` says something."""
    words = {id(event): words_of(event, event_id) for _name, event, event_id in events(readings) if is_open(event)}
    if not any(words.values()):
        return readings
    log = dict(readings["kernel_log"])
    for name in LISTS:
        if isinstance(log.get(name), list):
            log[name] = [
                dict(event, closed_by=words[id(event)]) if words.get(id(event)) else event for event in log[name]
            ]
    return dict(readings, kernel_log=log)


def alone(readings: Record, name: str, event: Record) -> Record:
    """The readings as if that event, still open, were all that is in the log."""
    log = dict(readings["kernel_log"], **{other: [] for other in LISTS})
    log[name] = [dict(event, closed_by="")]
    return dict(readings, kernel_log=log)


def failing(readings: Record, expectations: Record, checks: Iterable[Check]) -> List[Failing]:
    """The events that would each FAIL checks of `checks` by itself.

    A closed event is among them: whether it was a fault does not depend on what came after.
    """
    found: List[Failing] = []
    seen = events(readings)
    if not seen:
        return found
    # A check that fails for a log without any event does not fail because of one of them.
    silent = dict(readings, kernel_log=dict(readings["kernel_log"], **{name: [] for name in LISTS}))
    asked = [check for check in checks if check.id.startswith(KERNEL)]
    asked = [check for check in asked if judge(check, silent, expectations)["status"] != FAIL]
    for name, event, event_id in seen:
        only = alone(readings, name, event)
        records = [judge(check, only, expectations) for check in asked]
        bad = [record for record in records if record["status"] == FAIL]
        if bad:
            found.append(Failing(name, event, event_id, bad))
    return found
