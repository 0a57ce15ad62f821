# SPDX-License-Identifier: Apache-2.0
"""Shared by the checks of the kernel's log: events with each value checked, and what an incomplete log allows."""

from typing import Iterable, List, Sequence, Tuple

from ...readings.disk_names import disk_name
from ...verdict.check import REMEDIES, Outcome, passed, unknown, warned
from ...verdict.evidence import Evidence
from .event_names import Event, address_of

NO_LOG = "this node is a container and its host shows it no kernel log; look on the host: journalctl -k -b"
LOOK = "Read it: journalctl -k -b"
KEEP = "Keep the log: Storage=persistent in /etc/systemd/journald.conf; the log of the next boot is then complete."
ACKNOWLEDGED = "acknowledged"


def events_of(readings: Evidence, name: str) -> List[Event]:
    """The events of `kernel_log.xids`, `.sxids` or `.findings`; one without closed_by counts as open."""
    return [
        Event(
            code=0 if name == "findings" else event.number("code"),
            kind=event.text("kind") if name == "findings" else "",
            pci_id=event.text("pci_id"),
            times=event.number("count"),
            text=event.text("text"),
            closed_by=event.wish("closed_by") if "closed_by" in event.names() else "",
        )
        for event in readings.each("kernel_log", name)
    ]


def places(events: Iterable[Event]) -> List[str]:
    """The items of a finding about these events: cards by their address, disks by their name, else as the log says."""
    where = sorted({event.pci_id for event in events} - {"host"})
    return [address_of(place) or disk_name(place) for place in where]


def worst(remedies: List[str]) -> int:
    """The position of the strongest remedy; the others are then covered, too."""
    return max(range(len(remedies)), key=lambda index: REMEDIES.index(remedies[index]) if remedies[index] else -1)


def closed_words(closed: List[Tuple[str, str]]) -> str:
    """A remark about closed events: their names and what closed the first."""
    if not closed:
        return ""
    more = f" and {len(closed) - 1} more" if len(closed) > 1 else ""
    return f"; {closed[0][0]}{more} is over: {closed[0][1]}"


def quiet(readings: Evidence, words: str, acknowledged: Sequence[Event] = ()) -> Outcome:
    """Nothing is open: PASS if the log is complete and reaches back to the boot; only root closed `acknowledged`."""
    if not readings.flag("kernel_log", "whole"):
        return cut()
    if not readings.number("kernel_log", "lines"):
        return unknown("log-empty", "the kernel's log is empty", expected="none", action=LOOK)
    if not readings.flag("kernel_log", "from_boot"):
        return warned("log-late", "late", "none", f"{words}, but the log does not reach back to the boot", KEEP)
    if acknowledged:
        return warned("acknowledged", "acknowledged", "none", words, items=places(acknowledged))
    return passed("none", "none", words)


def cut() -> Outcome:
    return unknown("log-cut", "the kernel's log is longer than what is read of it", expected="none", action=LOOK)
