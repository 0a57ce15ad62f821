# SPDX-License-Identifier: Apache-2.0
"""The name of an event in the kernel's log, the same in messages, acknowledgements and strikes."""

from typing import Any, Dict, NamedTuple

from ...readings.kernel_log.table import about
from ..waivers.acknowledgements import cards_in

KERNEL = "kernel."
# The lists of `readings.kernel_log` whose events have a code, with the checks that judge them.
CHECK_OF = {"xids": "kernel.xid", "sxids": "kernel.sxid"}
NO_PLACE = ("", "host")
UNNAMED = "unnamed"


class Event(NamedTuple):
    """An event of the log, with each value checked: `code` is 0 for a finding, `kind` "" for an Xid or SXid."""

    code: int
    kind: str
    pci_id: str
    times: int
    text: str
    closed_by: str


def event_id(check_id: str, event: Event) -> str:
    """The name by which an administrator acknowledges an event: "kernel.xid:48@0000:3b:00", "kernel.lockups:lockup".

    `check_id` is the check that judges it; the place is a card, a disk or "unnamed", and is left out for the host.
    """
    return _name(check_id, event.code if check_id in CHECK_OF.values() else event.kind, event.pci_id)


def _name(check_id: str, what: object, pci_id: object) -> str:
    place = place_of(pci_id)
    return f"{check_id}:{what}{'@' + place if place else ''}"


def filled(action: str, check_id: str, event: Event) -> str:
    """The action ready to be typed: nvidia-smi -i needs an address with its function, which the kernel leaves out."""
    if event.pci_id == UNNAMED:
        action = action.replace(" -i {gpu}", "").replace("{gpu}", "the GPU")
    return action.replace("{gpu}", event.pci_id + ".0").replace("{event}", event_id(check_id, event))


def listed_id(name: str, event: Dict[str, Any]) -> str:
    """The name of a plain event of the list `name` of `readings.kernel_log`; "" for an event that no check judges."""
    if name in CHECK_OF:
        return _name(CHECK_OF[name], event.get("code"), event.get("pci_id"))
    kind = event.get("kind")
    row = about(kind) if isinstance(kind, str) else None
    return _name(row[0], kind, event.get("pci_id")) if row else ""


def place_of(place: Any) -> str:
    """A PCI address without the function, in sysfs spelling, or anything else that `pci_id` names; "" for the host."""
    if not isinstance(place, str) or place in NO_PLACE:
        return ""
    return address_of(place) or place


def address_of(place: Any) -> str:
    """The PCI address in `pci_id` of an event, without the function; "" if it names none."""
    found = cards_in(place) if isinstance(place, str) else []
    return found[0] if found else ""


def in_one_spelling(name: str) -> str:
    """The name of a check or event given by a person, with its address in the domain, case and format of `event_id`."""
    head, _at, place = name.strip().partition("@")
    place = place_of(place)
    return head + ("@" + place if place else "")
