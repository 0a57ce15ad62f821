# SPDX-License-Identifier: Apache-2.0
"""Checks of how warm each card and its memory is, and of what cools it."""

from ...verdict.by_hand import COOL, MACHINE, Hand
from ...verdict.check import DRAIN, FAIL, PASS, SKIP, WARN
from ...verdict.evidence import Evidence
from .each_card import Judged, Limit, card

LIMITS = {
    "temperature_band": Limit(5, "C", "own: warn this close to the card's slowdown temperature"),
    "memory_temperature": Limit(95, "C", "own limit of data-centre cards with HBM; used where a card reports none"),
    "fan_needed": Limit(70, "C", "own: cards that stop their fans when cool start them well below"),
}


def limit(name: str) -> float:
    return LIMITS[name].value


def temperature(gpu: Evidence) -> Judged:
    """The card is colder than the temperature at which it slows down; within 5 degrees of it is a warning.

    From Hopper on, a card itself reports the margin (T.Limit), below zero if it is hotter than its limit.
    """
    if gpu.absent("temperature_c"):
        return SKIP, "not-reported", None, "a virtual machine that has a part of the card cannot see its temperature"
    now = gpu.number("temperature_c")
    if not now:
        return WARN, "dead-sensor", now, "0 C: the sensor does not measure"
    if not gpu.absent("health", "temperature_slowdown_c"):
        margin = gpu.number("health", "temperature_slowdown_c") - now
    elif not gpu.absent("health", "temperature_margin_c"):
        margin = gpu.signed("health", "temperature_margin_c")
    else:
        return SKIP, "no-limit", now, f"{now} C; the card reports no limit"
    words = f"{now} C, {margin} C below its limit"
    if margin < 0:
        words = f"{now} C, {-margin} C above its limit"
    if margin <= 0:
        return FAIL, "too-hot", now, words
    return (PASS if margin > limit("temperature_band") else WARN, "nearly-too-hot", now, words)


def memory_temperature(gpu: Evidence) -> Judged:
    """The memory is colder than the limit that the card names for it, 95 C where it names none."""
    if gpu.absent("health", "temperature_memory_c"):
        return SKIP, "not-reported", None, "the card does not report the temperature of its memory"
    now, most = gpu.number("health", "temperature_memory_c"), limit("memory_temperature")
    if not gpu.absent("health", "temperature_memory_max_c"):
        most = gpu.number("health", "temperature_memory_max_c")
    words = f"memory at {now} C, its limit is {most} C"
    if now >= most:
        return FAIL, "too-hot", now, words
    return (PASS if most - now > limit("temperature_band") else WARN, "nearly-too-hot", now, words)


def fan(gpu: Evidence) -> Judged:
    """The fan turns when the card is warm; passively cooled cards have none."""
    if gpu.absent("health", "fan_speed"):
        return SKIP, "no-fan", None, "the card has no fan of its own"
    speed, now = gpu.number("health", "fan_speed"), gpu.number("temperature_c")
    stopped = not speed and now >= limit("fan_needed")
    return (WARN if stopped else PASS, "stopped", speed, f"the fan is not turning at {now} C")


COOLING = "Check fans, air flow and the room; nvidia-smi -q -d TEMPERATURE"

CHECKS = (
    card(
        name="temperature",
        severity=FAIL,
        remedy=DRAIN,
        question="Is the card cool enough?",
        rule=temperature,
        expected_value="below its limit",
        fine="below the temperature at which it slows down",
        unit="C",
        action=COOLING,
        source=LIMITS["temperature_band"].source,
    ),
    card(
        name="memory_temperature",
        severity=FAIL,
        remedy=DRAIN,
        question="Is the card's memory cool enough?",
        rule=memory_temperature,
        expected_value="below its limit",
        fine="below the memory's limit",
        unit="C",
        action=COOLING,
        source="DCGM VerifyHBMTemperature, gpud: above the card's own limit fails",
    ),
    card(
        name="fan",
        severity=WARN,
        question="Does the card's fan turn when it is needed?",
        rule=fan,
        expected_value="turning",
        fine="turning, or the card is cool",
        unit="%",
        action="Look at the fan and its cable; have the card repaired if it does not start under load.",
        source=LIMITS["fan_needed"].source,
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "gpu.temperature": COOL,
    "gpu.memory_temperature": COOL,
    "gpu.fan": Hand(MACHINE, "nvidia-smi --query-gpu=fan.speed --format=csv shows more than 0 % under load"),
}
