# SPDX-License-Identifier: Apache-2.0
"""What a name means on this node now: the findings that `gpu-doctor --acknowledge` would record."""

from typing import Dict, Iterable, List, Optional

from ...verdict.check import FAIL, UNKNOWN, Check, judge
from ...verdict.report import Record, printable
from ..all import CHECKS
from ..kernel.event_names import KERNEL
from ..site.rows import site_rows
from . import events as waivable_events
from .acknowledgements import Entry, cards_in
from .events import Failing
from .rules import close_events, in_force
from .scope import kept_message

NOTHING: Record = {}


class Refused(Exception):
    """Nothing was changed; the message says why and what to do."""


def findings_to_acknowledge(name: str, check: Optional[Check], readings: Record, expectations: Record) -> List[Entry]:
    """What `name` means on this node now, as entries without who, when and why; `Refused` if it means nothing.

    check   the `Check` of that name, None for the name of an event
    """
    readings = close_events(readings, in_force(readings))
    events = waivable_events.failing(readings, expectations, CHECKS)
    events = [found for found in events if _is_countable(found.event)]
    opened = [found for found in events if waivable_events.is_open(found.event)]
    if check is None:
        chosen = [found for found in events if found.id == name]
        if not chosen:
            raise Refused(_no_such_event(name, readings, opened))
    else:
        if not check.waivable:
            raise Refused(f"{name} cannot be acknowledged: {check.firm_because}")
        record = judge(check, readings, expectations)
        if record["status"] != FAIL:
            more = "; make it readable first" if record["status"] == UNKNOWN else ""
            words = "{} is {} now ({}): only a FAIL can be acknowledged{}"
            raise Refused(words.format(name, record["status"], printable(record["message"]), more))
        # A check of the kernel's log means all events that make it fail now, each by its own name.
        chosen = [found for found in opened if name in [bad["id"] for bad in found.records]]
        if not chosen:
            return [_entry(name, record, None, None)]
    firm = {row.id: row.firm_because for row in CHECKS if not row.waivable}
    for found in chosen:
        for bad in found.records:
            if bad["id"] in firm:
                raise Refused(f"{found.id} cannot be acknowledged: {firm[bad['id']]}")
    return _one_for_each(chosen)


def _is_countable(event: Record) -> bool:
    """Whether it says how often and when it last occurred; otherwise a recurrence could not be recognised."""
    count = event.get("count")
    return waivable_events.last_second(event) is not None and isinstance(count, int) and not isinstance(count, bool)


def _one_for_each(chosen: Iterable[Failing]) -> List[Entry]:
    """An entry for each name: an event that was closed and occurred again is in the log twice."""
    entries: Dict[str, Entry] = {}
    for _list, event, name, bad in chosen:
        last_s, count = waivable_events.last_second(event), event.get("count")
        entry = entries.setdefault(name, _entry(name, bad[0], last_s, count))
        entry["last_s"], entry["count"] = max(entry["last_s"], last_s), max(entry["count"], count)
    return list(entries.values())


def _entry(name: str, record: Record, last_s: Optional[float], count: Optional[int]) -> Entry:
    message = kept_message(record["message"])
    return {
        "id": name,
        "message": message,
        "remedy": record["remedy"],
        "value": record["value"],
        "expected": record["expected"],
        "unit": record["unit"],
        "cards": cards_in(message),
        "last_s": last_s,
        "count": count,
    }


def check_named(name: str, readings: Record = NOTHING) -> Optional[Check]:
    """The check of that name, None if it may be an event; `Refused` if it is neither.

    readings   in which the site's own checks are, if there are any
    """
    known = [*CHECKS, *site_rows(readings)]
    check = next((check for check in known if check.id == name), None)
    if check is None and not name.startswith(KERNEL):
        near = _near(name, [check.id for check in known])
        words = f"did you mean {near[0]}?" if near else "gpu-doctor lists the checks that FAIL"
        raise Refused(f"there is no check {name!r}: {words}")
    return check


def _near(name: str, names: List[str]) -> List[str]:
    # Only a wrong name needs it, and it takes as long to load as a check.
    import difflib

    return difflib.get_close_matches(name, names, 1)


def _no_such_event(name: str, readings: Record, opened: Iterable[Failing]) -> str:
    """Why an event cannot be acknowledged, and which ones could be."""
    if any(event_id == name for _list, _event, event_id in waivable_events.events(readings)):
        return f"{name} is in the kernel's log but is not a FAIL: there is nothing to acknowledge"
    there = sorted({found.id for found in opened})
    what = f"events that FAIL: {', '.join(there)}" if there else "it shows no event that FAILs"
    near = _near(name, there + [check.id for check in CHECKS])
    meant = f"; did you mean {near[0]}?" if near else ""
    return f"the kernel's log of this boot does not show {name!r}: {what}{meant}"
