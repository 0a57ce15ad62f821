# SPDX-License-Identifier: Apache-2.0
"""Checks of what holds each card's clocks down, and of its power."""

from typing import Collection, List

from ...verdict.by_hand import COOL, MACHINE, VENDOR, Hand
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
from ...verdict.evidence import (
    Evidence,
    Unreadable,
)
from ...verdict.expectations import wanted_slowdowns
from ..host.tuning import TUNE, tuned_to
from .each_card import Judged, Limit, Repair, card, over_gpus

LIMITS = {
    "power_tolerance": Limit(1, "W", "own: readings are rounded"),
    "draw_share": Limit(150, "%", "own: an average that is half as high again as its limit comes from a faulty sensor"),
    "held_seconds": Limit(60, "s", "own: one cold start of a fan, one test of the power supply"),
    "held_share": Limit(1, "%", "own: of the time since boot"),
}
BRAKE, THERMAL, SLOWDOWN = "hw_power_brake_slowdown", "hw_thermal_slowdown", "hw_slowdown"
BAD_CLOCKS = (SLOWDOWN, THERMAL, BRAKE, "sw_thermal_slowdown")
WANTED_LIMIT = "set the limit that you want in system_tuning_values: gpu_power_limit"
COUNTERS = (("throttled_by_heat_us", THERMAL), ("throttled_by_brake_us", BRAKE))


def limit(name: str) -> float:
    return LIMITS[name].value


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
    if seconds <= limit("held_seconds"):
        return PASS, "ok", seconds, ""
    share = 100.0 * seconds / max(1.0, readings.amount("host", "uptime_s"))
    words = f"{reason} for {seconds} s since the driver was loaded"
    return (WARN if share > limit("held_share") else PASS, "held-down", seconds, words)


def power_draw(gpu: Evidence) -> Judged:
    """The card reports its power draw, which is above zero and at most one and a half times its limit."""
    if gpu.absent("power_draw_w"):
        return SKIP, "not-measured", None, "this card does not measure its power"
    now = gpu.amount("power_draw_w")
    if not now:
        return WARN, "draws-nothing", now, "it reports that it draws nothing"
    if gpu.absent("power_limit_w"):
        return SKIP, "no-limit", now, f"it draws {now:g} W and reports no limit"
    most = gpu.amount("power_limit_w")
    lies = now * 100 > most * limit("draw_share")
    return (WARN if lies else PASS, "over-limit", now, f"it draws {now:g} W and may draw {most:g} W")


def module_power(gpu: Evidence) -> Judged:
    """The module with GPU and Grace processor may draw as much power as when it was delivered."""
    if gpu.absent("health", "module_power_limit_w"):
        return SKIP, "no-module", None, "this card has no module with a power limit of its own"
    now, default = gpu.amount("health", "module_power_limit_w"), gpu.amount("health", "module_power_default_w")
    fits = abs(now - default) <= limit("power_tolerance")
    return (PASS if fits else WARN, "lowered", now, f"limited to {now:g} W; its default is {default:g} W")


def power_limit(readings: Evidence, expected: Evidence) -> Outcome:
    """The power limit is the card's own, or the one set in system_tuning.

    A lowered limit costs speed, and nobody looks for the cause here.
    """
    chosen = tuned_to(readings, "gpu_power_limit")
    if not chosen:
        return over_gpus(own_limit, "its default", "the card's own limit", restored_or_kept)(readings, expected)
    if not chosen.isdecimal():
        raise Unreadable(f"gpu_power_limit in tuning.json is not a number of watts: {chosen!r}", "readings.tuning")
    fine = f"{chosen} W, as set in system_tuning"
    return over_gpus(lambda gpu: chosen_limit(gpu, int(chosen)), int(chosen), fine, lambda _gpus: TUNE)(
        readings, expected
    )


def own_limit(gpu: Evidence) -> Judged:
    if gpu.absent("health", "power_default_w"):
        return SKIP, "no-limit", None, "this card has no power limit"
    now, default = gpu.amount("power_limit_w"), gpu.amount("health", "power_default_w")
    fits = abs(now - default) <= limit("power_tolerance")
    return (PASS if fits else WARN, "lowered", now, f"limited to {now:g} W; its default is {default:g} W")


def restored(place: str, scope: str = "") -> Repair:
    """The command that restores the power limit with which each card was delivered."""

    def repair(gpus: List[Evidence]) -> str:
        commands = [f"nvidia-smi -i {gpu.pci_id('pci_id')} -pl {gpu.amount('health', place):g}{scope}" for gpu in gpus]
        return "Run: " + " ; ".join(commands)

    return repair


def restored_or_kept(gpus: List[Evidence]) -> str:
    return restored("power_default_w")(gpus) + " ; " + WANTED_LIMIT


def chosen_limit(gpu: Evidence, chosen: float) -> Judged:
    now = gpu.amount("power_limit_w")
    fits = abs(now - chosen) <= limit("power_tolerance")
    return (PASS if fits else WARN, "not-as-tuned", now, f"limited to {now:g} W, system_tuning is set to {chosen} W")


def source(name: str) -> str:
    return LIMITS[name].source


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
        source=source("held_seconds"),
    ),
    card(
        name="power_draw",
        severity=WARN,
        question="Does the card report its power draw?",
        rule=power_draw,
        expected_value="above 0",
        fine="a plausible power draw",
        unit="W",
        action="Look at nvidia-smi -q -d POWER ; if the sensor stays silent after a power cycle, contact the vendor.",
        source=source("draw_share"),
    ),
    card(
        name="module_power",
        severity=WARN,
        question="Can the module draw the power that it should?",
        rule=module_power,
        expected_value="its default",
        fine="the module's own limit",
        unit="W",
        action="Run: nvidia-smi -i ADDRESS -pl WATTS -sc 1",
        repair=restored("module_power_default_w", " -sc 1"),
        source=source("power_tolerance"),
    ),
    Check(
        id="gpu.power_limit",
        layer="system",
        level=QUICK,
        severity=WARN,
        question="Can the card draw the power that it should?",
        judge=power_limit,
        unit="W",
        action="Run: nvidia-smi -i ADDRESS -pl WATTS ; " + WANTED_LIMIT,
        source=source("power_tolerance"),
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "gpu.throttle": COOL,
    "gpu.throttle_history": Hand(MACHINE, "the counters of nvidia-smi -q -d PERFORMANCE do not grow under load"),
    "gpu.power_draw": Hand(VENDOR, "nvidia-smi -q -d POWER shows a draw below the limit"),
}
