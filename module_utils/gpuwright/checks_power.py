# SPDX-License-Identifier: Apache-2.0
"""Checks of what holds each card's clocks down: heat and power."""

from .checks_card import Limit, card, over_gpus
from .checks_tuning import tuned_to
from .verdict import DRAIN, FAIL, PASS, QUICK, SKIP, WARN, Check, Unreadable

LIMITS = {
    "temperature_band": Limit(5, "C", "own: warn this near to the card's slowdown temperature"),
    "power_tolerance": Limit(1, "W", "own: readings are rounded"),
}
BAD_CLOCKS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")


def limit(name):
    return LIMITS[name].value


def throttle(gpu):
    """Neither heat nor power supply holds the clocks down; idle and the ordinary power limit are no fault."""
    reasons = [reason.text() for reason in gpu.each("throttle_reasons")]
    bad = sorted(set(reasons).intersection(BAD_CLOCKS))
    return (FAIL if bad else PASS, ", ".join(bad) or "none", "clocks are held down by {}".format(", ".join(bad)))


def temperature(gpu):
    """The card is colder than the temperature at which it slows down; within 5 degrees of it is a warning."""
    now = gpu.number("temperature_c")
    if not gpu.absent("health", "temperature_slowdown_c"):
        margin = gpu.number("health", "temperature_slowdown_c") - now
    elif not gpu.absent("health", "temperature_margin_c"):
        margin = gpu.number("health", "temperature_margin_c")
    else:
        return SKIP, now, "{} C; the card names no limit".format(now)
    words = "{} C, {} C below its limit".format(now, margin)
    if margin <= 0:
        return FAIL, now, words
    return (PASS if margin > limit("temperature_band") else WARN, now, words)


def power_limit(readings, expected):
    """The power limit is the card's own, or the one that system_tuning was told to set.

    A lowered one costs speed that nobody looks for here.
    """
    chosen = tuned_to(readings, "gpu_power_limit")
    if not chosen:
        return over_gpus(own_limit, "its default", "the card's own limit")(readings, expected)
    if not chosen.isdigit():
        raise Unreadable("gpu_power_limit in tuning.json is no number of watts: {!r}".format(chosen))
    fine = "{} W, as system_tuning was told to set".format(chosen)
    return over_gpus(lambda gpu: chosen_limit(gpu, int(chosen)), int(chosen), fine)(readings, expected)


def own_limit(gpu):
    if gpu.absent("health", "power_default_w"):
        return SKIP, None, "this card has no power limit"
    now, default = gpu.amount("power_limit_w"), gpu.amount("health", "power_default_w")
    fits = abs(now - default) <= limit("power_tolerance")
    return (PASS if fits else WARN, now, "limited to {:g} W, delivered with {:g} W".format(now, default))


def chosen_limit(gpu, chosen):
    now = gpu.amount("power_limit_w")
    fits = abs(now - chosen) <= limit("power_tolerance")
    return (PASS if fits else WARN, now, "limited to {:g} W, system_tuning was told to set {} W".format(now, chosen))


def source(name):
    return LIMITS[name].source


CHECKS = (
    card(
        name="throttle",
        severity=FAIL,
        remedy=DRAIN,
        question="Do heat or power hold the clocks down?",
        rule=throttle,
        expected_value="none",
        fine="neither heat nor power holds the clocks down",
        action="Look at nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER ; check fans, air flow and power cables.",
        source="gpud, sichek; idle and SW power cap excluded as by Azure's checks",
    ),
    card(
        name="temperature",
        severity=FAIL,
        remedy=DRAIN,
        question="Is the card cool enough?",
        rule=temperature,
        expected_value="below its limit",
        fine="below the temperature at which it slows down",
        unit="C",
        action="Check fans, air flow and the room; nvidia-smi -q -d TEMPERATURE",
        source=source("temperature_band"),
    ),
    Check(
        id="gpu.power_limit",
        layer="system",
        level=QUICK,
        severity=WARN,
        question="May the card draw the power that it should?",
        judge=power_limit,
        unit="W",
        action=(
            "Set it back: nvidia-smi -pl WATTS with the default limit of nvidia-smi -q -d POWER ; a limit that is "
            "wanted belongs into system_tuning_values: gpu_power_limit"
        ),
        source=source("power_tolerance"),
    ),
)
