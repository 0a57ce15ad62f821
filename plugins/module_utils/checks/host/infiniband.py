# SPDX-License-Identifier: Apache-2.0
"""Check of the adapters for InfiniBand and RoCE."""

import shlex
from typing import List, Tuple

from ...readings.link_errors import COUNTERS, HOUR_S, read_link_errors
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
# The word of the kernel for the link layer of RoCE.
ETHERNET = "Ethernet"
NO_ANSWER = "Look for the adapter: sudo dmesg | grep -iE 'mlx|infiniband' ; a reset of it or a reboot brings it back"
NODES = "Load the modules that make the nodes: modprobe -a ib_uverbs ; udevadm trigger ; then ls -l /dev/infiniband"


def ports_of(readings: Evidence, *path: str) -> Tuple[List[Evidence], List[str]]:
    """The ports that answered, and why the others did not, each with its name."""
    found = readings.each(*path)
    silent = [port for port in found if isinstance(port.value, dict) and "unreadable" in port.value]
    return [port for port in found if port not in silent], [str(port.value["unreadable"]) for port in silent]


def infiniband(readings: Evidence, expected: Evidence) -> Outcome:
    """Every port of an RDMA adapter is active, and went down or was recovered fewer than five times since its setup.

    FAIL if programs cannot open an adapter: its node below /dev/infiniband is missing, though its ports may be active.
    How many and how fast they must be is in verify_expected_host (host.size).
    """
    if readings.absent("infiniband"):
        return skipped("no-adapter", "this node has no InfiniBand or RoCE adapter")
    ports, silent = ports_of(readings, "infiniband")
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
    if not ports + silent:
        return unknown("no-port", "the adapters show no port")
    value = ", ".join(sorted(set(rates)))
    if closed:
        words = f"programs cannot open {', '.join(closed)}: a node below /dev/infiniband is missing"
        return failed("no-node", value, "usable", words, NODES)
    if silent:
        return unknown("no-answer", "; ".join(silent + bad), value or None, "active", NO_ANSWER)
    if bad:
        return warned("not-active", value, "active", "; ".join(bad))
    return passed(value, "active", f"{len(ports)} ports are active: {value}")


def errors(readings: Evidence, expected: Evidence) -> Outcome:
    """No error counter of an InfiniBand or RoCE port rises fast, each by its limit in an hour, or has stopped.

    The rise is told over one to two hours, or since a recorded check looked before, and never over less than an hour,
    so that a single error is none. A counter that was reset, and a boot, begin anew. Most counters of InfiniBand have
    4, 8 or 16 bits and stop at their maximum: such a one shows no rise any more until somebody resets it.
    """
    if readings.absent("link_errors"):
        return skipped("no-adapter", "this node has no InfiniBand or RoCE adapter")
    ports, silent = ports_of(readings, "link_errors")
    rising = sorted((row for port in ports for row in rises_of(port)), key=lambda row: -row[0])
    full_of = [(port, [name.text() for name in port.each("full")]) for port in ports]
    full = [f"{port.text('name')}: {at_most(counter)}" for port, counters in full_of for counter in counters]
    stopped = [(port.text("name"), str(port.value.get("layer"))) for port, counters in full_of if counters]
    told = [_some(words) for words in ([row[3] for row in rising], full) if words]
    if silent:
        return unknown("no-answer", "; ".join(silent + told), action=NO_ANSWER)
    if rising:
        return warned("rising", round(rising[0][1]), rising[0][2], "; ".join(told))
    if stopped:
        return warned("full", None, "below the maximum", "; ".join(told), reset(stopped))
    if not ports:
        return unknown("no-port", "the adapters show no port")
    uncounted = sum(1 for port in ports if port.value.get("counters") == {})
    if uncounted == len(ports):
        return skipped("no-counters", f"the drivers of {uncounted} ports have no error counters")
    words = f"the error counters of {len(ports) - uncounted} ports do not rise, or slowly"
    return passed("slow", "slow", words + (f"; the drivers of {uncounted} ports have none" if uncounted else ""))


def rises_of(port: Evidence) -> List[Tuple[float, float, int, str]]:
    """(how many times its limit, rise per hour, limit per hour, words) of each counter that rises too fast."""
    hours, found = port.amount("since_s") / HOUR_S, []
    for row in port.each("rises"):
        name, rise = row.text("counter"), row.number("rise")
        limit = COUNTERS[name].hourly if name in COUNTERS else 0
        rate = rise / max(hours, 1.0)
        if rate > limit:
            words = f"{port.text('name')}: {name} rose by {rise} in {hours:.1f} h"
            found.append((rate / max(limit, 1), rate, limit, f"{words} ({rate:.0f} per hour; limit {limit})"))
    return found


def at_most(counter: str) -> str:
    top = COUNTERS[counter].most if counter in COUNTERS else None
    return f"{counter} has stopped at its maximum{'' if top is None else f', {top}'}"


def reset(ports: List[Tuple[str, str]]) -> str:
    """What lets the counters of these ports (name, link layer) count again: commands, where there are some.

    perfquery asks by packets of InfiniBand's management, which a port on Ethernet (RoCE) does not answer.
    """
    places = [name.rpartition(" port ") for name, layer in ports if layer != ETHERNET]
    commands = [f"perfquery -R -C {shlex.quote(adapter)} -P {shlex.quote(number)}" for adapter, _word, number in places]
    others = sorted({name.rpartition(" port ")[0] for name, layer in ports if layer == ETHERNET})
    parts = [f"Run: {' ; '.join(commands)}"] if commands else []
    if others:
        words = f"a reload of the driver of {', '.join(others)} or a reboot begins {'their' if others[1:] else 'its'}"
        parts.append((words if commands else words[0].upper() + words[1:]) + " counters anew")
    parts.insert(1, "from then on they count again, and the next checks tell whether they rise")
    return " ; ".join(parts)


def _some(words: List[str]) -> str:
    """At most MOST_SHOWN of them, and how many more there are."""
    return "; ".join(words[:MOST_SHOWN]) + (f" and {len(words) - MOST_SHOWN} more" if words[MOST_SHOWN:] else "")


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
