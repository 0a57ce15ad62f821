# SPDX-License-Identifier: Apache-2.0
"""Check of the adapters for InfiniBand and RoCE."""

from ...readings.link_errors import HOUR_S, LIMITS, read_link_errors
from ...readings.links import read_infiniband
from ...verdict.by_hand import NETWORK, Hand
from ...verdict.check import (
    DRAIN,
    FAIL,
    QUICK,
    STANDARD,
    WARN,
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
MOST_SHOWN = 3
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


def errors(readings: Evidence, expected: Evidence) -> Outcome:
    """No error counter of an InfiniBand or RoCE port rises fast: each has its limit in an hour.

    The rise is told over one to two hours, or since the node was looked at before, and never over less than an hour, so
    that a single error is none. A counter that was reset, and a boot, begin anew.
    """
    if readings.absent("link_errors"):
        return skipped("no-adapter", "this node has no InfiniBand or RoCE adapter")
    ports = readings.each("link_errors")
    bad = []
    for port in ports:
        hours = port.amount("since_s") / HOUR_S
        for row in port.each("rises"):
            name, rise = row.text("counter"), row.number("rise")
            limit = LIMITS.get(name, 0)
            rate = rise / max(hours, 1.0)
            if rate > limit:
                words = f"{port.text('name')}: {name} rose by {rise} in {hours:.1f} h"
                bad.append((rate / max(limit, 1), rate, limit, f"{words} ({rate:.0f} per hour; limit {limit})"))
    if bad:
        bad.sort(key=lambda row: -row[0])
        words = "; ".join(row[3] for row in bad[:MOST_SHOWN])
        more = f" and {len(bad) - MOST_SHOWN} more" if bad[MOST_SHOWN:] else ""
        return warned("rising", round(bad[0][1]), bad[0][2], words + more)
    if not ports:
        return unknown("no-port", "the adapters show no port")
    return passed("slow", "slow", f"the error counters of {len(ports)} ports do not rise, or slowly")


READ_ERRORS = Reader(
    name="link_errors",
    level=QUICK,
    read=lambda seen: read_link_errors(seen.root),
    source=by_hand("/sys/class/infiniband", "grep . /sys/class/infiniband/*/ports/*/counters/*"),
)
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
    Check(
        id="host.infiniband_errors",
        layer="system",
        level=QUICK,
        severity=WARN,
        question="Do errors of the ports to other nodes rise?",
        judge=errors,
        needs_gpu=False,
        unit="errors/h",
        action=(
            "Clean or replace the cable or its modules, at the switch, too: mlxlink, ibdiagnet or the switch say which "
            "end; port_xmit_discards and timeouts point to congestion or to a peer instead"
        ),
        source="infiniband-diags: thresholds of errors, as ibqueryerrors(8) shows them",
        readers=(READ_ERRORS,),
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "host.infiniband": Hand(NETWORK, "ibstat shows Active and LinkUp for every port"),
    "host.infiniband_errors": Hand(NETWORK, "the counters below /sys/class/infiniband stand still for an hour"),
}
