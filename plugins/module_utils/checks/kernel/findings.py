# SPDX-License-Identifier: Apache-2.0
"""How findings of the kernel's log become the outcome of a check: the worst decides, a cause before effects."""

from typing import List, Tuple

from ...readings.kernel_log.rows import UNCORRECTED, WATCH
from ...readings.kernel_log.table import about, cause_of
from ...verdict.check import Judge, Outcome, failed, skipped, warned
from ...verdict.evidence import Evidence, Unreadable
from .event_names import Event, address_of, event_id
from .evidence import ACKNOWLEDGED, NO_LOG, closed_words, cut, events_of, places, quiet, worst

IOMMU = "kernel.iommu"
# A finding, its kind and its remedy.
Found = Tuple[Event, str, str]


def finding(check_id: str, doc: str, silence: str, action: str) -> Judge:
    """A check function over the findings of one check: an uncorrected one fails, every other is a warning."""

    def look(readings: Evidence, expected: Evidence) -> Outcome:
        if readings.absent("kernel_log"):
            return skipped("no-log", NO_LOG)
        events = []
        for event in events_of(readings, "findings"):
            row = about(event.kind)
            if row is None:
                raise Unreadable(
                    f"the kernel's log has a finding {event.kind!r} that no row describes",
                    "readings.kernel_log",
                )
            check, kind, remedy = row
            if check == check_id:
                events.append((event, _of_gpu(readings, event) if check == IOMMU else kind, remedy))
        standing = [triple for triple in events if not triple[0].closed_by]
        bad = [triple for triple in standing if triple[1] == UNCORRECTED]
        if bad:
            shown = _causes(bad)
            event, _kind, remedy = shown[worst([triple[2] for triple in shown])]
            return failed(
                "happened",
                event.times,
                0,
                _sentence(check_id, event, _others(bad, shown)),
                _filled(action, event),
                remedy,
                items=places([triple[0] for triple in bad]),
            )
        if not readings.flag("kernel_log", "whole"):
            return cut()
        if standing:
            shown = _causes(standing)
            event = shown[0][0]
            return warned(
                "happened",
                event.times,
                0,
                _sentence(check_id, event, _others(standing, shown)),
                _filled(action, event),
                items=places([triple[0] for triple in standing]),
            )
        closed = [(event_id(check_id, event), event.closed_by) for event, _kind, _remedy in events]
        acknowledged = [event for event, _kind, _remedy in events if event.closed_by.startswith(ACKNOWLEDGED)]
        return quiet(readings, silence + closed_words(closed), acknowledged)

    look.__doc__ = doc
    return look


def _causes(found: List[Found]) -> List[Found]:
    """Those whose message names the cause of a fault; all if none does."""
    return [triple for triple in found if cause_of(triple[0].text)[0]] or found


def _others(found: List[Found], shown: List[Found]) -> int:
    """How many findings there are besides the one shown, without what follows from a cause that is among them."""
    if shown is found:
        return len(found) - 1
    explained = {triple[0].pci_id for triple in shown} | {"host"}
    return len(shown) - 1 + sum(triple not in shown and triple[0].pci_id not in explained for triple in found)


def _sentence(check_id: str, event: Event, others: int) -> str:
    more = f"; {others} more" if others else ""
    return f"{event.times} times: {event.text} (event {event_id(check_id, event)}){more}"


def _filled(action: str, event: Event) -> str:
    """The action against the cause that the message names, else the check's own, with what it is about in it."""
    own, words = cause_of(event.text)
    action = (own or action).replace("{place}", event.pci_id)
    for name, word in words.items():
        action = action.replace("{" + name + "}", word or "")
    if address_of(event.pci_id):
        return action.replace("ADDRESS", event.pci_id + ".0")
    return action.replace(" -i ADDRESS", "").replace("ADDRESS", "the card's address")


def _of_gpu(readings: Evidence, event: Event) -> str:
    """An IOMMU fault is the GPU's if its driver reports it, or if the address is one of this node's GPUs."""
    row = about(event.kind)
    if row is None:
        raise ValueError(f"no row has the kind {event.kind!r}")
    if event.kind != "iommu" or event.text.startswith("nvidia "):
        return row[1]
    if "probe" not in readings.names():
        return WATCH
    cards = {gpu.pci_id("pci_id").rpartition(".")[0] for gpu in readings.each("probe", "gpus")}
    return UNCORRECTED if event.pci_id in cards else WATCH
