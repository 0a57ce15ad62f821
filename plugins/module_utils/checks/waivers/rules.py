# SPDX-License-Identifier: Apache-2.0
"""What people have decided about findings: acknowledged by root for a time, or switched off by the inventory.

A waiver is visible in its record (`waived`) and never makes a PASS. An acknowledged FAIL is a WARN, UNKNOWN stays
UNKNOWN, and a check with `firm_because` (a lost GPU, a missing driver) is judged as if there were no waiver.
"""

from typing import Any, Dict, Iterable, List, Tuple

from ...verdict.check import FAIL, PASS, SKIP, SWITCHED_OFF, WARN, Check, judge
from ...verdict.report import BY_INVENTORY, BY_ROOT, Record
from . import events as waivable_events
from .acknowledgements import Entry, in_words, is_event, parse_entries, why_not_now
from .scope import why_not_covered

LONGEST_OUGHT = 200


def entries_of(readings: Record) -> List[Entry]:
    """The acknowledgements in `readings`, [] if they are missing or damaged: then none counts."""
    try:
        return parse_entries(readings.get("acknowledgements"))
    except ValueError:
        return []


def in_force(readings: Record) -> List[Entry]:
    """Those that count at the moment of the readings."""
    return [entry for entry in entries_of(readings) if not why_not_now(entry, readings.get("moment"))]


def covers_event(entry: Entry, event: Record, event_id: str) -> bool:
    """Whether an acknowledgement covers an event: what had happened by then, but not what happened again later."""
    last, count = waivable_events.last_second(event), event.get("count")
    if not is_event(entry) or entry["id"] != event_id or last is None or last > entry["last_s"]:
        return False
    return entry["count"] is None or (isinstance(count, int) and count <= entry["count"])


def close_events(readings: Record, entries: List[Entry]) -> Record:
    """The readings with `closed_by` set on the open events that one of `entries` covers; pure."""

    def words(event: Record, event_id: str) -> str:
        return next((in_words(entry) for entry in entries if covers_event(entry, event, event_id)), "")

    return waivable_events.closing(readings, words)


def problems_of_skips(expectations: Record, checks: Iterable[Check]) -> Dict[str, str]:
    """`{id: what is wrong with it}` of `skip_checks`; such a check is judged as usual."""
    firm = {check.id: check.firm_because for check in checks}
    found = {}
    for name, reason in asked_skips(expectations).items():
        if name not in firm:
            found[name] = "there is no such check"
        elif firm[name]:
            found[name] = f"it cannot be switched off: {firm[name]}"
        elif not isinstance(reason, str) or not reason.strip():
            found[name] = "it has no reason"
        elif len(reason) > LONGEST_OUGHT or not reason.strip().isprintable():
            found[name] = f"its reason is longer than {LONGEST_OUGHT} characters or not one line"
    return found


def asked_skips(expectations: Record) -> Dict[str, Any]:
    """What the inventory asks to switch off, `{id: reason}`."""
    asked = expectations.get("skip_checks")
    return {str(name): reason for name, reason in asked.items()} if isinstance(asked, dict) else {}


def run_with_waivers(
    checks: Iterable[Check], every_check: Iterable[Check], readings: Record, expectations: Record
) -> List[Dict[str, Any]]:
    """The records of `checks` on plain readings; ids are looked up in `every_check`. Never raises."""
    refused = problems_of_skips(expectations, every_check)
    skips = {name: why for name, why in asked_skips(expectations).items() if name not in refused}
    entries = in_force(readings)
    on_events = [entry for entry in entries if is_event(entry)]
    on_checks = {entry["id"]: entry for entry in entries_of(readings) if not is_event(entry)}
    closed = close_events(readings, on_events)
    records = []
    for check in checks:
        if check.id in skips:
            records.append(_switched_off(check, skips[check.id].strip()))
            continue
        if not check.waivable or closed is readings:
            record = judge(check, readings, expectations)
        else:
            record = _with_closed_events(check, readings, closed, expectations, on_events)
        if record["status"] == FAIL and check.waivable and check.id in on_checks:
            record = _acknowledged(record, on_checks[check.id], readings.get("moment"))
        records.append(record)
    return records


def _switched_off(check: Check, reason: str) -> Dict[str, Any]:
    return {
        "id": check.id,
        "layer": check.layer,
        "status": SKIP,
        "code": SWITCHED_OFF,
        "items": [],
        "value": None,
        "expected": None,
        "unit": check.unit,
        "message": f"switched off by the inventory: {reason}",
        "action": "",
        "remedy": "",
        "waived": {"by": BY_INVENTORY, "reason": reason},
    }


def _with_closed_events(
    check: Check, readings: Record, closed: Record, expectations: Record, entries: List[Entry]
) -> Dict[str, Any]:
    """The record with acknowledged events closed; if only that keeps it from FAIL, it is a WARN that says so."""
    record, before = judge(check, closed, expectations), judge(check, readings, expectations)
    if before["status"] != FAIL or record["status"] not in (PASS, WARN):
        return record
    needed = []
    for entry in entries:
        rest = close_events(readings, [other for other in entries if other is not entry])
        if judge(check, rest, expectations)["message"] != record["message"]:
            needed.append(entry)
    return _softened(before, needed or entries)


def _acknowledged(record: Record, entry: Entry, moment: Any) -> Dict[str, Any]:
    """A FAIL of a check that root has acknowledged: a WARN if that covers it, else the FAIL with the reason why."""
    why = why_not_now(entry, moment) or why_not_covered(entry, record)
    if not why:
        return _softened(record, [entry])
    note = f"{record['message']} (acknowledged by {entry['user']}, which does not count: {why})"
    return dict(record, message=note)


def _softened(record: Record, entries: List[Entry]) -> Dict[str, Any]:
    words = "; ".join(f"{entry['id']} {in_words(entry)}" for entry in entries)
    if len(entries) == 1 and entries[0]["id"] == record["id"]:
        words = in_words(entries[0])
    return dict(
        record,
        status=WARN,
        message=f"{words}; the finding: {record['message']}",
        action=f"Before it expires: {record['action']}",
        remedy="",
        waived={
            "by": BY_ROOT,
            "status": FAIL,
            "message": record["message"],
            "remedy": record["remedy"],
            "acknowledgements": [
                {name: entry[name] for name in ("id", "user", "when", "until", "reason")} for entry in entries
            ],
        },
    )


def state_of(entry: Entry, readings: Record, records: Iterable[Record]) -> Tuple[bool, str]:
    """`(counts, why)` of an acknowledgement for the report: whether it covers something now, else why not."""
    why = why_not_now(entry, readings.get("moment"))
    if why:
        return False, why
    if is_event(entry):
        same = [event for _name, event, event_id in waivable_events.events(readings) if event_id == entry["id"]]
        if any(covers_event(entry, event, entry["id"]) for event in same):
            return True, ""
        return False, "it happened again after that" if same else "the kernel's log does not show it any more"
    record = next((record for record in records if record["id"] == entry["id"]), None)
    if record is None:
        return False, "the check is not of this level"
    if (record.get("waived") or {}).get("by") == BY_ROOT:
        return True, ""
    why = why_not_covered(entry, record) if record["status"] == FAIL else ""
    return False, why or f"the check is {record['status']}"


def reported(readings: Record, records: Iterable[Record]) -> List[Entry]:
    """The report's `acknowledgements`: every entry with `counts` and `because`."""
    found = []
    for entry in entries_of(readings):
        counts, why = state_of(entry, readings, records)
        found.append(dict(entry, counts=counts, because=why))
    return found
