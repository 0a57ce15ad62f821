# SPDX-License-Identifier: Apache-2.0
"""Checks of each card's clocks: what programs may use, and whether the card is ready to use it."""

from typing import Tuple

from ...gpu.nvidia_smi.health import DEPRECATED
from ...host.patterns import lazily
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
from .cards import card_row
from .each_card import Judged, card, over_gpus

CLOCKS = lazily(r"([0-9]{1,6}),([0-9]{1,6})")
STATE = lazily(r"P[0-9]{1,2}")
HIGHEST = "P0"


def clocks(readings: Evidence, expected: Evidence) -> Outcome:
    """Application clocks of memory and graphics are not below the card's default, or those that system_tuning set.

    Lower ones are left over from measurements, and cost speed, and nobody looks for the cause here.
    """
    chosen = tuned_to(readings, "gpu_clocks")
    if not chosen:
        return over_gpus(own_clocks, "its default", "not below the card's default")(readings, expected)
    if not CLOCKS.fullmatch(chosen):
        raise Unreadable(f"gpu_clocks in tuning.json is not MEMORY,GRAPHICS in MHz: {chosen!r}", "readings.tuning")
    fine = f"{chosen} MHz, as set in system_tuning"
    return over_gpus(lambda gpu: chosen_clocks(gpu, chosen), chosen, fine, lambda _gpus: TUNE)(readings, expected)


def pair(gpu: Evidence, name: str) -> Tuple[int, int]:
    """(memory, graphics) in MHz."""
    text = gpu.matching(CLOCKS, "MEMORY,GRAPHICS in MHz", "health", name)
    memory, graphics = (int(part) for part in text.split(","))
    return memory, graphics


def without(gpu: Evidence) -> str:
    """Why there are no application clocks, or ""."""
    if gpu.absent("health", "clocks_applied"):
        return "this card has no application clocks"
    gone = gpu.text("health", "clocks_applied") == DEPRECATED
    return "this driver no longer has application clocks" if gone else ""


def own_clocks(gpu: Evidence) -> Judged:
    if without(gpu):
        return SKIP, "not-offered", None, without(gpu)
    now, default = pair(gpu, "clocks_applied"), pair(gpu, "clocks_default")
    low = now[0] < default[0] or now[1] < default[1]
    words = "memory {} MHz, graphics {} MHz; the card's default is {} and {}".format(*(now + default))
    return (WARN if low else PASS, "below-default", "{},{}".format(*now), words)


def chosen_clocks(gpu: Evidence, chosen: str) -> Judged:
    if without(gpu):
        return SKIP, "not-offered", None, without(gpu)
    now = "{},{}".format(*pair(gpu, "clocks_applied"))
    return (PASS if now == chosen else WARN, "not-as-tuned", now, f"{now} MHz, system_tuning is set to {chosen} MHz")


def performance_state(gpu: Evidence) -> Judged:
    """A card whose memory has one clock is in performance state P0 at all times; others go down when idle."""
    state = gpu.matching(STATE, "a performance state", "health", "performance_state")
    if not card_row(gpu).fixed_memory_clock:
        return SKIP, "changes-with-load", None, f"{state}: this card changes its state with its load"
    return (PASS if state == HIGHEST else WARN, "not-ready", state, f"performance state {state}")


CHECKS = (
    Check(
        id="gpu.clocks",
        layer="system",
        level=QUICK,
        severity=WARN,
        question="Can programs use the card's default clocks?",
        judge=clocks,
        unit="MHz",
        action="Run: nvidia-smi -rac ; set the clocks that you want in system_tuning_values: gpu_clocks",
        source="sichek check_app_clocks, gcm; the limit is the card's own default",
    ),
    card(
        name="performance_state",
        severity=WARN,
        question="Is the card ready to run at full speed?",
        rule=performance_state,
        expected_value=HIGHEST,
        fine="performance state P0",
        action=(
            "Run: nvidia-smi -rgc ; it unlocks locked clocks; if the state stays, nvidia-smi -q -d PERFORMANCE,CLOCK "
            "says why."
        ),
        source=(
            "sichek components/nvidia/config: pstate 0 for V100 and A100, 8 for L40; captures of idle H100 and H200 "
            "in P0"
        ),
    ),
)
