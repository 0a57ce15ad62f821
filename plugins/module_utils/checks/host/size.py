# SPDX-License-Identifier: Apache-2.0
"""Whether the host has the processors and the memory that it was bought with."""

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
from ..gpu.each_card import Limit
from .system import in_container

LIMITS = {
    "memory_percent": Limit(5, "%", "aznhc check_hw_physmem 3 %, here 5 %: the kernel and a crash kernel keep a part"),
}
MIB = 1024
COUNTED = {"sockets": ("probe", "cpu", "sockets"), "cpus": ("probe", "cpu", "logical_cpus")}
WEIGHED = {"memory_gib": ("probe", "memory_mib"), "swap_gib": ("host", "swap_mib")}


def near(found_mib: float, wanted_gib: float) -> bool:
    """Whether the MiB agree with the GiB, within the limit; if none are expected, there must be none."""
    return abs(found_mib - wanted_gib * MIB) * 100 <= LIMITS["memory_percent"].value * wanted_gib * MIB


def size(readings: Evidence, expected: Evidence) -> Outcome:
    """Sockets and logical processors are exactly, memory and swap within 5 %, what the inventory expects."""
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
        else:
            raise Unreadable(f"expectations.host.{name} is not something that can be counted", "expectations")
        if not fits:
            wrong.append(f"{name}: {found:g} instead of {wanted}")
    if wrong:
        return failed("too-small", len(wishes) - len(wrong), len(wishes), "; ".join(wrong))
    words = ", ".join(f"{name} {wanted}" for name, wanted in sorted(wishes.items()))
    return passed(len(wishes), len(wishes), words)


CHECKS = (
    Check(
        id="host.size",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=POWER_CYCLE,
        question="Does the host have the processors and the memory that it was bought with?",
        judge=size,
        unit="sizes",
        needs_gpu=False,
        action=(
            "Look at lscpu, swapon and dmidecode -t memory for a socket or module that is missing or switched off, "
            "or correct verify_expected_host."
        ),
        source=LIMITS["memory_percent"].source,
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "host.size": Hand(MACHINE, "lscpu and free -m show what the inventory expects of the host"),
}
