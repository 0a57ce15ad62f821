# SPDX-License-Identifier: Apache-2.0
"""Checks of each card's connection to the host over PCIe."""

from typing import List, Optional

from ...gpu.nvidia_smi.absent import VGPU
from ...verdict.by_hand import MACHINE, RESEATED, Hand
from ...verdict.check import FAIL, PASS, POWER_CYCLE, QUICK, SKIP, WARN, Check, Outcome
from ...verdict.evidence import Evidence
from ...verdict.expectations import wanted_lanes
from .cards import answering_gpus
from .each_card import Judged, Limit, card, over_gpus

LIMITS = {
    "replays_per_minute": Limit(8, "replays", "DCGM DCGM_LIMIT_MAX_PCIREPLAY_RATE: more in a minute is too many"),
    "replay_minutes": Limit(
        60, "minutes", "own: replays that links count while they are set up are spread over an hour at least"
    ),
    "busy": Limit(50, "%", "own: one that computes; a desktop was seen with 2 to 10 % in P8 on a slow link"),
    "guest_part": Limit(2, "parts", "captures of clouds: 8 of 16 lanes, one of two parts, by design"),
}
# nvidia-smi's words for a card that was given to a virtual machine.
GUEST = ("pass-through",) + VGPU
NO_LINK = "a virtual machine that has a part of the card cannot see its link"
BUSY_STATES = ("P0", "P1", "P2")


def limit(name: str) -> float:
    return LIMITS[name].value


def link_width(readings: Evidence, expected: Evidence) -> Outcome:
    """The card has all the PCIe lanes that both card and slot support, or as many as the inventory states.

    nvidia-smi's maximum is the card's. The slot's is the maximum of the bridge above it; where the bridge allows no
    more, fewer lanes are a warning, since reseating the card would not help. A virtual machine does not see the slot,
    and some clouds give their cards half of the lanes by design: there half of the lanes is SKIP with a remark until
    the inventory states how many are expected, since a warning that never goes away teaches people to overlook
    warnings. Fewer than half, or fewer than on other cards of the model in the node, is a warning there.
    """
    stated = wanted_lanes(expected)
    fine = f"{stated} lanes, as the inventory says" if stated else "all lanes are in use"
    wanted = stated or "all"
    return over_gpus(lambda gpu: lanes(gpu, stated, readings), wanted, fine)(readings, expected)


def lanes(gpu: Evidence, stated: int, readings: Evidence) -> Judged:
    if gpu.absent("health", "link_width_now"):
        return SKIP, "no-link", None, NO_LINK
    now, most = gpu.number("health", "link_width_now"), gpu.number("health", "link_width_max")
    words = f"{now} lanes; the inventory says {stated}" if stated else f"{now} of {most} lanes"
    twins = [] if stated else twins_of(gpu, readings)
    widest = max([most] + [twin.number("health", "link_width_max") for twin in twins])
    if now >= (stated or most) and now:
        if most < widest and not stated:
            return WARN, "narrower", now, f"at most {most} lanes, others of its model {widest}"
        return PASS, "ok", now, words
    if not now or stated:
        return FAIL, "too-few-lanes", now, words
    slot = slot_of(readings, gpu.pci_id("pci_id"))
    if slot is not None and now >= slot:
        return WARN, "narrow-slot", now, f"{words}; the slot has {slot}"
    if in_guest(gpu, readings) or "probe" not in readings.names():
        more = max([now] + [twin.number("health", "link_width_now") for twin in twins])
        words += (
            "; a virtual machine or a saved answer does not show how many the slot has: state them "
            "(verify_expected_link_width)"
        )
        if more > now:
            return WARN, "narrower", now, f"{words}; others of its model have {more}"
        return (SKIP if now * limit("guest_part") >= most else WARN, "narrower", now, words)
    return FAIL, "too-few-lanes", now, words


def twins_of(gpu: Evidence, readings: Evidence) -> List[Evidence]:
    """The node's cards of the same model that see their link, this one among them."""
    same = [other for other in answering_gpus(readings) if other.text("name") == gpu.text("name")]
    return [other for other in same if not other.absent("health", "link_width_now")]


def slot_of(readings: Evidence, pci_id: str) -> Optional[int]:
    """Lanes that the bridge above this card can have; None if sysfs does not show it."""
    for gpu in readings.each("probe", "gpus") if "probe" in readings.names() else []:
        there = gpu.pci_id("pci_id") == pci_id and "slot_width_max" in gpu.names("link")
        if there and not gpu.absent("link", "slot_width_max"):
            return gpu.number("link", "slot_width_max")
    return None


def in_guest(gpu: Evidence, readings: Evidence) -> bool:
    """Whether the card, or systemd-detect-virt if it was run, says that this is a virtual machine."""
    told = "virtualization" in gpu.names("health") and not gpu.absent("health", "virtualization")
    if told and gpu.text("health", "virtualization").lower() in GUEST:
        return True
    machine = readings.at("machine").value if "machine" in readings.names() else None
    return isinstance(machine, str) and machine != "none"


def link_generation(gpu: Evidence) -> Judged:
    """The PCIe link runs at the highest generation that it can.

    An idle card lowers its generation to save power, so only one in P0 to P2, or one that is computing, is judged; a
    desktop that takes a few percent leaves a card in P8 and its link slow.
    """
    if gpu.absent("health", "link_gen_now"):
        return SKIP, "no-link", None, NO_LINK
    now, most = gpu.number("health", "link_gen_now"), gpu.number("health", "link_gen_max")
    if now and now >= most > 0:
        return PASS, "ok", now, ""
    state = gpu.text("health", "performance_state")
    words = f"generation {now} of {most} in state {state}"
    told = not gpu.absent("health", "utilization_percent")
    busy = told and gpu.number("health", "utilization_percent") >= limit("busy")
    if now and not busy and state not in BUSY_STATES:
        return SKIP, "idle", now, words + ": idle cards slow their link down"
    return FAIL, "too-slow", now, words


def link_limit(readings: Evidence, expected: Evidence) -> Outcome:
    """The PCIe link may run as fast as the slower of card and host; a host older than the card is no fault.

    If a virtual machine does not see what the host can do, a card slower than others of its model is a warning.
    """
    fine = "as fast as card and host allow"
    return over_gpus(lambda gpu: fastest(gpu, readings), "the lower of card and host", fine)(readings, expected)


def fastest(gpu: Evidence, readings: Evidence) -> Judged:
    names = ("link_gen_card", "link_gen_host")
    known = [gpu.number("health", name) for name in names if not gpu.absent("health", name)]
    if gpu.absent("health", "link_gen_max"):
        return SKIP, "no-link", None, NO_LINK
    if len(known) < len(names) or 0 in known:
        now = gpu.number("health", "link_gen_max")
        top = max([now] + [twin.number("health", "link_gen_max") for twin in twins_of(gpu, readings)])
        if now < top:
            return WARN, "slower", now, f"at most generation {now}, others of its model {top}"
        return SKIP, "not-reported", None, "this driver or virtual machine does not report what card and host support"
    most = gpu.number("health", "link_gen_max")
    words = "at most generation {}; the card has {}, the host {}".format(most, *known)
    return (PASS if most >= min(known) else FAIL, "too-slow", most, words)


def pcie_replays(readings: Evidence, expected: Evidence) -> Outcome:
    """At most 8 packets a minute were retransmitted over the PCIe link, on average since boot, at least over an hour.

    The counter begins when the driver is loaded, and links count while they are set up: eight healthy H100s had 106 to
    174. The average since boot can only understate the rate. A counter that has rolled over is a WARN.
    """
    fine = "few packets were retransmitted"
    return over_gpus(lambda gpu: replays(gpu, readings), limit("replays_per_minute"), fine)(readings, expected)


def replays(gpu: Evidence, readings: Evidence) -> Judged:
    if gpu.absent("health", "pcie_replays"):
        return SKIP, "no-link", None, NO_LINK
    number = gpu.number("health", "pcie_replays")
    unreported = gpu.absent("health", "pcie_replay_rollovers")
    if not unreported and gpu.number("health", "pcie_replay_rollovers"):
        return WARN, "rolled-over", number, "the replay counter has rolled over"
    if number <= limit("replays_per_minute") * limit("replay_minutes"):
        words = f"{number} replays; this driver does not report whether the counter has rolled over"
        return (SKIP if unreported else PASS, "not-reported", number, words if unreported else "")
    minutes = max(readings.amount("host", "uptime_s") / 60.0, limit("replay_minutes"))
    rate = number / minutes
    words = f"{number} replays, {rate:.1f} a minute since boot"
    if rate > limit("replays_per_minute"):
        return WARN, "many-replays", number, words
    return (SKIP if unreported else PASS, "not-reported", number, words)


def source(name: str) -> str:
    return LIMITS[name].source


CHECKS = (
    Check(
        id="gpu.link_width",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=POWER_CYCLE,
        question="Does the card have all its PCIe lanes?",
        judge=link_width,
        unit="lanes",
        action=(
            "Power off and reseat the card and its riser. If the slot or the virtual machine has fewer by design, say "
            "so in the inventory: verify_expected_link_width"
        ),
        source="DCGM, sichek: width below the maximum fails; cloud T4, A10G and L40S have 8 of 16",
    ),
    card(
        name="link_generation",
        severity=FAIL,
        remedy=POWER_CYCLE,
        question="Does the PCIe link run at its full speed?",
        rule=link_generation,
        expected_value="the highest",
        fine="as fast as it can",
        action="Power off and reseat the card and its riser; look for a limit on the slot's speed in the firmware.",
        source="sichek, DCGM: generation below the maximum under load",
    ),
    Check(
        id="gpu.link_limit",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=POWER_CYCLE,
        question="Can the PCIe link run as fast as card and host allow?",
        judge=link_limit,
        action="Look for a limit on the slot's speed in the firmware; power off and reseat the card and its riser.",
        source="nvidia-smi(1): PCIe Generation, device and host maximum",
    ),
    Check(
        id="gpu.pcie_replays",
        layer="system",
        level=QUICK,
        severity=WARN,
        question="Is the PCIe link free of errors?",
        judge=pcie_replays,
        unit="replays",
        action="Reseat the card and its riser; journalctl -k -b | grep -i aer",
        source=source("replays_per_minute"),
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "gpu.link_width": RESEATED,
    "gpu.link_generation": RESEATED,
    "gpu.link_limit": RESEATED,
    "gpu.pcie_replays": Hand(MACHINE, "nvidia-smi -q | grep -i replay stays as it is under load"),
}
