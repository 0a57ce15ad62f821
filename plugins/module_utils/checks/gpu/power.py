# SPDX-License-Identifier: Apache-2.0
"""Checks of each card's power: what it draws, and what it may draw."""

from typing import List

from ...verdict.by_hand import VENDOR, Hand
from ...verdict.check import (
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
from ..host.tuning import TUNE, tuned_to
from .each_card import Judged, Limit, Repair, card, over_gpus

LIMITS = {
    "power_tolerance": Limit(1, "W", "own: readings are rounded"),
    "draw_share": Limit(150, "%", "own: an average that is half as high again as its limit comes from a faulty sensor"),
}
WANTED_LIMIT = "set the limit that you want in system_tuning_values: gpu_power_limit"


def limit(name: str) -> float:
    return LIMITS[name].value


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
    "gpu.power_draw": Hand(VENDOR, "nvidia-smi -q -d POWER shows a draw below the limit"),
}
