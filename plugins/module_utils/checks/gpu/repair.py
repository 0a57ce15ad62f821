# SPDX-License-Identifier: Apache-2.0
"""Checks of how the card handles its own defects: pending repairs, spare rows, errors over its life."""

from typing import List

from ...verdict.by_hand import REPLACED
from ...verdict.check import FAIL, PASS, REPLACE, RESET, SKIP, WARN
from ...verdict.evidence import Evidence
from .each_card import DIAGNOSE, Judged, Limit, Rule, addresses, card

LIMITS = {
    "dram_uncorrected": Limit(512, "errors", "own: as many as rows that can be remapped, DCGM's limit of them"),
}


def limit(name: str) -> float:
    return LIMITS[name].value


def pending(part: str, name: str) -> Rule:
    """The rule for one kind of repair."""

    def rule(gpu: Evidence) -> Judged:
        if gpu.absent("health", name):
            return SKIP, "not-repaired", None, f"this driver or card does not repair its {part}"
        waits = gpu.flag("health", name)
        return (
            FAIL if waits else PASS,
            "pending",
            "yes" if waits else "no",
            f"a repair of the {part} waits for a reset",
        )

    rule.__doc__ = f"No repair of the card's {part} is waiting for a reset; drivers from 570 on report this."
    return rule


def unrepairable(gpu: Evidence) -> Judged:
    """The driver does not call the card's memory beyond repair, which is final; drivers from 590 on report this."""
    if gpu.absent("health", "unrepairable_memory"):
        return SKIP, "not-reported", None, "this driver or card does not report whether memory is beyond repair"
    flag = gpu.flag("health", "unrepairable_memory")
    return (
        FAIL if flag else PASS,
        "beyond-repair",
        "yes" if flag else "no",
        "the driver calls the memory beyond repair",
    )


def dram(gpu: Evidence) -> Judged:
    """No uncorrected error in the card's memory over its lifetime; each one is repaired, so a few are history."""
    if gpu.absent("health", "dram_uncorrected_aggregate"):
        return SKIP, "not-counted", None, "this card does not count errors of its memory, or not in this mode"
    number = gpu.number("health", "dram_uncorrected_aggregate")
    words = f"{number} uncorrected errors over the card's life"
    if number >= limit("dram_uncorrected"):
        return FAIL, "uncorrected", number, words
    return (WARN if number else PASS, "uncorrected", number, words)


def spare_rows(gpu: Evidence) -> Judged:
    """Every bank of memory has spare rows left: without one, the next uncorrectable error there is a failed remap."""
    if gpu.absent("health", "spare_rows_none"):
        return SKIP, "not-reported", None, "this card does not report how many spare rows its banks have"
    empty, low = gpu.number("health", "spare_rows_none"), gpu.number("health", "spare_rows_low")
    words = f"{empty} banks have no spare row, {low} have few"
    if empty:
        return FAIL, "none-left", empty, words
    return (WARN if low else PASS, "few-left", empty, words)


def slices(gpu: Evidence) -> Judged:
    """No MIG slice had an uncorrected error since the driver was loaded."""
    if gpu.absent("health", "mig_uncorrected_volatile"):
        return SKIP, "no-mig", None, "not cut into MIG slices"
    number = gpu.number("health", "mig_uncorrected_volatile")
    return (FAIL if number else PASS, "uncorrected", number, f"{number} uncorrected errors in MIG slices")


RESET_IT = "Stop what uses the card (fuser -v /dev/nvidia*), then run: nvidia-smi --gpu-reset -i {} ; or reboot."


def reset(gpus: List[Evidence]) -> str:
    """The command that resets these cards."""
    return RESET_IT.format(addresses(gpus))


CHECKS = (
    card(
        name="channel_repair",
        severity=FAIL,
        remedy=RESET,
        question="Is a repair of a memory channel pending?",
        rule=pending("memory channels", "channel_repair_pending"),
        expected_value="no",
        fine="no repair is pending",
        action=RESET_IT.format("ADDRESS"),
        repair=reset,
        source="nvml.h nvmlDeviceGetRepairStatus: pending until the next reset",
    ),
    card(
        name="tpc_repair",
        severity=FAIL,
        remedy=RESET,
        question="Is a repair of a processing cluster pending?",
        rule=pending("processing clusters", "tpc_repair_pending"),
        expected_value="no",
        fine="no repair is pending",
        action=RESET_IT.format("ADDRESS"),
        repair=reset,
        source="nvml.h nvmlDeviceGetRepairStatus: pending until the next reset",
    ),
    card(
        name="unrepairable_memory",
        severity=FAIL,
        remedy=REPLACE,
        question="Can the card's memory still be repaired?",
        rule=unrepairable,
        expected_value="no",
        fine="no memory beyond repair",
        action=DIAGNOSE,
        source="DCGM checkUnrepairableMemory: the flag alone fails",
    ),
    card(
        name="dram_uncorrected",
        severity=FAIL,
        remedy=REPLACE,
        question="Has the card's memory ever had uncorrected errors?",
        rule=dram,
        expected_value=0,
        fine="none over the card's life",
        unit="errors",
        action="Watch it: nvidia-smi -q -d ECC,ROW_REMAPPER ; run NVIDIA's field diagnostic when the count grows.",
        source=LIMITS["dram_uncorrected"].source,
    ),
    card(
        name="spare_rows",
        severity=FAIL,
        remedy=REPLACE,
        question="Does every bank of the card's memory have spare rows?",
        rule=spare_rows,
        expected_value=0,
        fine="every bank has spare rows",
        unit="banks",
        action=DIAGNOSE,
        source="docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt: a remap fails where a bank has no spare row",
    ),
    card(
        name="mig_errors",
        severity=FAIL,
        remedy=RESET,
        question="Are the MIG slices free of memory errors?",
        rule=slices,
        expected_value=0,
        fine="no uncorrected error in a slice",
        unit="errors",
        action=RESET_IT.format("ADDRESS"),
        repair=reset,
        source="nvidia-smi(1): ECC errors of a MIG device",
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "gpu.unrepairable_memory": REPLACED,
    "gpu.dram_uncorrected": REPLACED,
    "gpu.spare_rows": REPLACED,
}
