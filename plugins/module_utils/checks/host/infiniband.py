# SPDX-License-Identifier: Apache-2.0
"""Check of the adapters for InfiniBand and RoCE."""

from ...readings.links import read_infiniband
from ...verdict.by_hand import NETWORK, Hand
from ...verdict.check import (
    DRAIN,
    FAIL,
    STANDARD,
    Check,
    Outcome,
    failed,
    passed,
    skipped,
    unknown,
    warned,
)
from ...verdict.evidence import Evidence
from ...verdict.reader import Reader
from ...verdict.reading_sources import by_hand

FLAPS = 5
NODES = "Load the modules that make the nodes: modprobe -a ib_uverbs ; udevadm trigger ; then ls -l /dev/infiniband"


def infiniband(readings: Evidence, expected: Evidence) -> Outcome:
    """Every port of an RDMA adapter is active, and went down or was recovered fewer than five times since its setup.

    FAIL if programs cannot open an adapter: its node below /dev/infiniband is missing, though its ports may be active.
    How many and how fast they must be is in verify_expected_host (host.size).
    """
    if readings.absent("infiniband"):
        return skipped("no-adapter", "this node has no InfiniBand or RoCE adapter")
    ports = readings.each("infiniband")
    bad, rates, closed = [], [], []
    for port in ports:
        name, state, downs = port.text("name"), port.text("state"), port.number("link_downed")
        recovered = port.number("recovered")
        rates.append(port.text("rate"))
        if not port.flag("usable"):
            closed.append(name)
        if state != "ACTIVE":
            bad.append(f"{name} is {state} ({port.text('physical')})")
        elif downs >= FLAPS:
            bad.append(f"{name} went down {downs} times")
        elif recovered >= FLAPS:
            bad.append(f"{name} recovered from errors {recovered} times")
    if not ports:
        return unknown("no-port", "the adapters show no port")
    value = ", ".join(sorted(set(rates)))
    if closed:
        words = f"programs cannot open {', '.join(closed)}: a node below /dev/infiniband is missing"
        return failed("no-node", value, "usable", words, NODES)
    if bad:
        return warned("not-active", value, "active", "; ".join(bad))
    return passed(value, "active", f"{len(ports)} ports are active: {value}")


READ_INFINIBAND = Reader(
    name="infiniband",
    level=STANDARD,
    read=lambda seen: read_infiniband(seen.root),
    source=by_hand("/sys/class/infiniband", "ls -l /sys/class/infiniband ; ibstat"),
)

CHECKS = (
    Check(
        id="host.infiniband",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Are the ports to other nodes up?",
        judge=infiniband,
        needs_gpu=False,
        action="Look at ibstat and at the cables; for INIT ask the administrator of the subnet manager.",
        source="azurehpc-health-checks: 5 or more flaps",
        readers=(READ_INFINIBAND,),
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "host.infiniband": Hand(NETWORK, "ibstat shows Active and LinkUp for every port"),
}
