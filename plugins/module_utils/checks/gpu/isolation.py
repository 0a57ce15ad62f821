# SPDX-License-Identifier: Apache-2.0
"""Checks of what diverts the path between two GPUs on bare metal: the IOMMU and access control (ACS) in bridges.

A virtual machine needs both, and its host is responsible for them; the same is true for a container.
"""

from typing import Any, Optional

from ...readings.attempt import attempt, for_root
from ...verdict.by_hand import MACHINE, Hand
from ...verdict.check import STANDARD, WARN, Check, Outcome, passed, skipped, slots, unknown, unnamed, warned
from ...verdict.evidence import Evidence
from ...verdict.reader import Reader, Seen
from ...verdict.reading_sources import by_hand
from ..host.system import in_container

BARE_METAL = "none"
STRAIGHT = ("off", "identity")
TRANSLATED = ("DMA", "DMA-FQ")
OTHERS = ("blocked", "unmanaged")
ACS_STATES = ("on", "off", "absent")
# The firmware decides what stays after the next boot.
ACS_OFF = "switch ACS off in the firmware. Leave it on if this host runs virtual machines."
SOURCE = "NCCL user guide, troubleshooting: PCI Access Control Services (ACS)"


def no_way_to_judge(readings: Evidence, expected: Evidence) -> Optional[Outcome]:
    """Why this cannot be judged, or None."""
    if expected.number("gpu_count") < 2:
        return skipped("one-gpu", "there is one GPU")
    if in_container(readings):
        return skipped("in-container", in_container(readings))
    machine = readings.text("machine")
    if machine != BARE_METAL:
        return skipped("virtual-machine", f"a virtual machine ({machine}): its host decides")
    return None


def iommu(readings: Evidence, expected: Evidence) -> Outcome:
    """The IOMMU is off or passes the GPUs' transfers through: translated transfers take a detour."""
    skip = no_way_to_judge(readings, expected)
    if skip:
        return skip
    found = [
        (gpu.pci_id("pci_id"), gpu.one_of(STRAIGHT + TRANSLATED + OTHERS, "iommu"))
        for gpu in readings.each("isolation")
    ]
    if len(found) != expected.number("gpu_count"):
        lost = unnamed(expected.number("gpu_count") - len(found))
        return unknown("too-few", f"{len(found)} GPUs were looked at", items=lost)
    value = ", ".join(sorted({word for _pci_id, word in found}))
    bent = [f"{pci_id}: {word}" for pci_id, word in found if word not in STRAIGHT]
    own = [pci_id for pci_id, word in found if word not in STRAIGHT]
    if bent:
        return warned(
            "translates", value, "off or identity", f"the IOMMU translates: {', '.join(bent)}", items=slots(own)
        )
    return passed(value, "off or identity", f"IOMMU: {value}")


def acs(readings: Evidence, expected: Evidence) -> Outcome:
    """No bridge between processor and GPU has access control on: it sends transfers between GPUs up to the processor.

    The register is in a part of the configuration space that only root may read.
    """
    skip = no_way_to_judge(readings, expected)
    if skip:
        return skip
    gpus = readings.each("isolation")
    if len(gpus) != expected.number("gpu_count"):
        lost = unnamed(expected.number("gpu_count") - len(gpus))
        return unknown("too-few", f"{len(gpus)} GPUs were looked at", items=lost)
    on, number = set(), 0
    for gpu in gpus:
        for bridge in gpu.each("bridges"):
            name = bridge.pci_id("pci_id")
            number += 1
            if bridge.one_of(ACS_STATES, "acs") == "on":
                on.add(name)
    if on:
        action = " ; ".join(f"setpci -s {name} ECAP_ACS+0x6.w=0000" for name in sorted(on))
        words = f"ACS is on in {', '.join(sorted(on))}"
        return warned("on", len(on), 0, words, f"Run: {action} ; for every boot {ACS_OFF}", items=slots(sorted(on)))
    return passed(0, 0, f"ACS is on in none of {number} bridges")


def read_own_machine(seen: Seen) -> Any:
    """What the machine is, for cards whose links depend on it."""
    from .isolation_reading import read_machine

    seen.cards()
    return read_machine()


READ_MACHINE = Reader(
    name="machine",
    level=STANDARD,
    read=read_own_machine,
    source=by_hand("systemd-detect-virt"),
)


def _read_isolation(seen: Seen) -> Any:
    from .isolation_reading import read_isolation

    return for_root(attempt(read_isolation, seen.root, seen.cards()))


READ_ISOLATION = Reader(
    name="isolation",
    level=STANDARD,
    read=_read_isolation,
    source=by_hand("lspci -vvv", "lspci -vvv -d 10de: | head ; ls /sys/kernel/iommu_groups"),
)

CHECKS = (
    Check(
        id="gpu.iommu",
        layer="system",
        level=STANDARD,
        severity=WARN,
        question="Do the GPUs reach each other directly, without an IOMMU that translates?",
        judge=iommu,
        action=(
            "Switch VT-d or AMD-Vi off in the firmware, or boot with iommu=pt: grubby --update-kernel=ALL "
            "--args=iommu=pt (Debian: /etc/default/grub, then update-grub) ; leave it on if this host runs virtual "
            "machines."
        ),
        source=SOURCE,
        readers=(READ_MACHINE, READ_ISOLATION),
    ),
    Check(
        id="gpu.acs",
        layer="system",
        level=STANDARD,
        severity=WARN,
        question="Do the GPUs reach each other directly, without access control in bridges?",
        judge=acs,
        unit="bridges",
        action="S" + ACS_OFF[1:],
        source=SOURCE,
        readers=(READ_MACHINE, READ_ISOLATION),
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "gpu.iommu": Hand(MACHINE, "cat /sys/kernel/iommu_groups/*/type shows identity, or nothing, after the boot"),
    "gpu.acs": Hand(MACHINE, "lspci -vvv | grep ACSCtl shows a minus after every word, once the node has booted"),
}
