# SPDX-License-Identifier: Apache-2.0
"""Checks of what holds each card's clocks down: heat, and the power supply."""

from typing import Collection

from ...verdict.by_hand import COOL, MACHINE, Hand
from ...verdict.check import (
    DRAIN,
    FAIL,
    PASS,
    QUICK,
    SKIP,
    WARN,
    Check,
    Outcome,
)
from ...verdict.evidence import Evidence
from ...verdict.expectations import wanted_slowdowns
from .each_card import Judged, Limit, over_gpus

HELD_SECONDS = Limit(60, "s", "own: one cold start of a fan, one test of the power supply")
HELD_SHARE = Limit(1, "%", "own: of the time since boot")
BRAKE, THERMAL, SLOWDOWN = "hw_power_brake_slowdown", "hw_thermal_slowdown", "hw_slowdown"
BAD_CLOCKS = (SLOWDOWN, THERMAL, BRAKE, "sw_thermal_slowdown")
COUNTERS = (("throttled_by_heat_us", THERMAL), ("throttled_by_brake_us", BRAKE))


def throttle(readings: Evidence, expected: Evidence) -> Outcome:
    """Neither heat nor power supply holds the clocks down; idle and the ordinary power limit are no fault.

    What the inventory says is by design on this host (verify_expected_slowdowns) is no fault there.
    """
    by_design = wanted_slowdowns(expected)
    fine = "neither heat nor power holds the clocks down"
    if by_design:
        fine = f"nothing but {', '.join(by_design)} may hold the clocks down, as the inventory says"
    return over_gpus(lambda gpu: held_down(gpu, by_design), "none", fine)(readings, expected)


def held_down(gpu: Evidence, by_design: Collection[str]) -> Judged:
    if gpu.absent("throttle_reasons"):
        return (
            SKIP,
            "not-reported",
            None,
            "this card does not report it, or not to a virtual machine that has a part of the card",
        )
    reasons = {reason.text() for reason in gpu.each("throttle_reasons")}
    bad = reasons.intersection(BAD_CLOCKS).difference(by_design)
    # hw_slowdown is true whenever one of its two causes is.
    if BRAKE in reasons and BRAKE in by_design and THERMAL not in bad:
        bad.discard(SLOWDOWN)
    words = ", ".join(sorted(bad))
    return (FAIL if bad else PASS, "held-down", words or "none", f"clocks are held down by {words}")


def throttle_history(readings: Evidence, expected: Evidence) -> Outcome:
    """The hardware held the clocks down for heat or power for at most a minute, or 1 % of the time since boot.

    The ordinary power limit (SW power cap) and the driver's own thermal control (SW thermal) also count on healthy
    cards.
    """
    by_design = wanted_slowdowns(expected)
    return over_gpus(lambda gpu: held_for(gpu, by_design, readings), "little", "hardly ever held down")(
        readings, expected
    )


def held_for(gpu: Evidence, by_design: Collection[str], readings: Evidence) -> Judged:
    names = [(name, reason) for name, reason in COUNTERS if reason not in by_design]
    if not names:
        return SKIP, "by-design", None, "the inventory says that it is by design"
    if [name for name, _reason in names if gpu.absent("health", name)]:
        return SKIP, "not-counted", None, "this driver or card does not count it"
    reason, most = max(((reason, gpu.number("health", name)) for name, reason in names), key=lambda row: row[1])
    seconds = most // 1000000
    if seconds <= HELD_SECONDS.value:
        return PASS, "ok", seconds, ""
    share = 100.0 * seconds / max(1.0, readings.amount("host", "uptime_s"))
    words = f"{reason} for {seconds} s since the driver was loaded"
    return (WARN if share > HELD_SHARE.value else PASS, "held-down", seconds, words)


CHECKS = (
    Check(
        id="gpu.throttle",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Do heat or power hold the clocks down?",
        judge=throttle,
        action=(
            "Look at nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER ; check fans, air flow and power cables. What is "
            "by design in this rack goes into verify_expected_slowdowns"
        ),
        source="gpud, sichek; idle and SW power cap excluded as in Azure's checks",
    ),
    Check(
        id="gpu.throttle_history",
        layer="system",
        level=QUICK,
        severity=WARN,
        question="Did heat or the power supply hold the clocks down for long?",
        judge=throttle_history,
        unit="s",
        action="Look at nvidia-smi -q -d PERFORMANCE under load; check air flow, power cables and the rack's power.",
        source=HELD_SECONDS.source,
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "gpu.throttle": COOL,
    "gpu.throttle_history": Hand(MACHINE, "the counters of nvidia-smi -q -d PERFORMANCE do not grow under load"),
}
