# SPDX-License-Identifier: Apache-2.0
"""Whether the host has the processors, memory, disks and network links that it was bought with."""

from typing import Dict, List, Tuple

from ...verdict.by_hand import MACHINE, Hand
from ...verdict.check import (
    FAIL,
    POWER_CYCLE,
    QUICK,
    Check,
    Outcome,
    failed,
    passed,
    skipped,
)
from ...verdict.evidence import (
    Evidence,
    Unreadable,
)
from ...verdict.reader import Reader
from ...verdict.reading_sources import by_hand
from ..gpu.each_card import Limit
from .infiniband import ports_of
from .parts_reading import read_parts
from .system import in_container

LIMITS = {
    "memory_percent": Limit(5, "%", "aznhc check_hw_physmem 3 %, here 5 %: the kernel and a crash kernel keep a part"),
}
MIB = 1024
COUNTED = {"sockets": ("probe", "cpu", "sockets"), "cpus": ("probe", "cpu", "logical_cpus")}
# Kinds of parts in `read_parts`: how many at least, how much of each counted part at least.
LEAST = {
    "disk_count": ("disks", ""),
    "disk_gb": ("disks", "gb"),
    "ethernet_gbits": ("ethernet", "gbits"),
    "rdma_ports": ("rdma", ""),
    "rdma_gbits": ("rdma", "gbits"),
}
WEIGHED = {"memory_gib": ("probe", "memory_mib"), "swap_gib": ("host", "swap_mib")}


def near(found_mib: float, wanted_gib: float) -> bool:
    """Whether the MiB agree with the GiB, within the limit; if none are expected, there must be none."""
    return abs(found_mib - wanted_gib * MIB) * 100 <= LIMITS["memory_percent"].value * wanted_gib * MIB


def least(readings: Evidence, wishes: Dict[str, int], name: str) -> Tuple[float, bool]:
    """(what there is, whether that is enough) of disks in number and total size, and of links by speed.

    Of the ports for RDMA, as many as are expected must have the expected speed; of Ethernet, one link. `Unreadable` if
    it is not enough without a port or link that does not answer.
    """
    parts, silent = ports_of(readings, "parts", LEAST[name][0])
    found, enough = _least(parts, wishes, name)
    if silent and not enough:
        raise Unreadable("; ".join(silent), f"readings.parts.{LEAST[name][0]}")
    return found, enough


def _least(parts: List[Evidence], wishes: Dict[str, int], name: str) -> Tuple[float, bool]:
    """The same of the parts that answered."""
    unit, wanted = LEAST[name][1], wishes[name]
    amounts = sorted((part.amount(unit) if unit else 1 for part in parts), reverse=True)
    if not unit:
        return len(amounts), len(amounts) >= wanted
    if name == "disk_gb":
        found = round(sum(amounts), 1)
        return found, found * 100 >= wanted * (100 - LIMITS["memory_percent"].value)
    number = wishes.get("rdma_ports", 1) if name == "rdma_gbits" else 1
    slowest = amounts[number - 1] if 0 < number <= len(amounts) else 0
    return slowest, slowest >= wanted


def size(readings: Evidence, expected: Evidence) -> Outcome:
    """Sockets and logical processors are exactly, memory and swap within 5 %, what the inventory expects.

    Disks are at least as many, and together at least as large (within 5 %); the fastest Ethernet link and as many ports
    for RDMA (InfiniBand, RoCE) as expected are up and at least as fast.
    """
    wishes = {name: expected.number("host", name) for name in expected.names("host")}
    if not wishes:
        return skipped("not-asked", "the inventory does not say how large this node is (verify_expected_host)")
    if in_container(readings):
        return skipped("in-container", in_container(readings))
    wrong = []
    for name, wanted in sorted(wishes.items()):
        if name in COUNTED:
            found: float = readings.number(*COUNTED[name])
            fits = found == wanted
        elif name in WEIGHED:
            found = readings.number(*WEIGHED[name])
            fits, found = near(found, wanted), round(found / float(MIB), 1)
        elif name in LEAST:
            found, fits = least(readings, wishes, name)
        else:
            raise Unreadable(f"expectations.host.{name} is not something that can be counted", "expectations")
        if not fits:
            wrong.append(f"{name}: {found:g} instead of {wanted}")
    if wrong:
        return failed("too-small", len(wishes) - len(wrong), len(wishes), "; ".join(wrong))
    words = ", ".join(f"{name} {wanted}" for name, wanted in sorted(wishes.items()))
    return passed(len(wishes), len(wishes), words)


READ_PARTS = Reader(
    name="parts",
    level=QUICK,
    read=lambda seen: read_parts(seen.root),
    source=by_hand("/sys/block, /sys/class/net and /sys/class/infiniband", "lsblk -d ; ip -br link ; ibstat"),
)

CHECKS = (
    Check(
        id="host.size",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=POWER_CYCLE,
        question="Does the host have the parts that it was bought with?",
        judge=size,
        unit="sizes",
        needs_gpu=False,
        action=(
            "Look at lscpu, swapon, dmidecode -t memory, lsblk -d, ip -br link and ibstat for a part that is missing, "
            "switched off or slow, or correct verify_expected_host."
        ),
        source=LIMITS["memory_percent"].source,
        readers=(READ_PARTS,),
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "host.size": Hand(MACHINE, "lscpu, free -m, lsblk -d and ibstat show what the inventory expects of the host"),
}
