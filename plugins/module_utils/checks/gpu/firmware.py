# SPDX-License-Identifier: Apache-2.0
"""Checks of the programs and settings that a card carries itself: VBIOS, InfoROM and the firmware of its processor."""

import re
from typing import Any, Dict, Tuple

from ...gpu.cards import architecture_named
from ...host.patterns import lazily
from ...verdict.by_hand import NODE, VENDOR, Hand
from ...verdict.check import (
    FAIL,
    QUICK,
    REBOOT,
    REPLACE,
    WARN,
    Check,
    Outcome,
    failed,
    passed,
    skipped,
    slots,
    unknown,
    warned,
)
from ...verdict.evidence import Evidence
from ..waivers.acknowledgements import cards_in
from .cards import ASK_FIRST, answering_gpus
from .identity import is_vgpu

INFOROM = lazily(r"[0-9A-Z][0-9A-Z.]{3,30}")
VERSION = lazily(r"[0-9A-F]{2}(\.[0-9A-F]{2})+", re.IGNORECASE)
# "88.00.48.00.02": four of the five parts name the build.
PARTS, BUILD_PARTS = 5, 4


def vbios(readings: Evidence, expected: Evidence) -> Outcome:
    """Cards of one model have the same firmware: with different ones they behave differently under the same load.

    The last of the five parts names the board of a maker and the place of a GPU on a board with several (K80, M10), and
    differs by design.
    """
    versions: Dict[str, Any] = {}
    builds: Dict[str, Any] = {}
    for gpu in answering_gpus(readings):
        version = gpu.matching(VERSION, "a version of firmware", "health", "vbios")
        versions.setdefault(gpu.text("name"), set()).add(version)
        builds.setdefault(gpu.text("name"), set()).add(build_of(version))
    if not versions:
        return unknown("silent", "the driver cannot be queried", action=ASK_FIRST)
    value = ", ".join(sorted(set().union(*versions.values())))
    mixed = sorted(name for name, found in builds.items() if len(found) > 1)
    if mixed:
        return warned(
            "mixed-versions", value, "one for each model", f"different firmware on cards of {', '.join(mixed)}"
        )
    return passed(value, "one for each model", value)


def build_of(version: str) -> Tuple[int, Tuple[str, ...]]:
    """The part that must be equal: the number of parts, and all of them except the last of five."""
    parts = version.upper().split(".")
    return len(parts), tuple(parts[:BUILD_PARTS] if len(parts) == PARTS else parts)


def inforom(readings: Evidence, expected: Evidence) -> Outcome:
    """nvidia-smi prints no warning, such as of a corrupted InfoROM, and can read each InfoROM's version."""
    if not readings.flag("nvidia_smi", "reachable"):
        return unknown("silent", "the driver cannot be queried", action=ASK_FIRST)
    warnings = [warning.text() for warning in readings.each("nvidia_smi", "warnings")]
    if warnings:
        return failed("damaged", len(warnings), 0, f"nvidia-smi warns: {warnings[0]}", items=cards_in(warnings[0]))
    gpus = readings.each("nvidia_smi", "gpus")
    without = [gpu.pci_id("pci_id") for gpu in gpus if gpu.absent("health", "inforom_image")]
    versions = {
        gpu.matching(INFOROM, "a version of an InfoROM", "health", "inforom_image")
        for gpu in gpus
        if not gpu.absent("health", "inforom_image")
    }
    if without:
        return skipped(
            "not-reported", f"nvidia-smi prints no warning, but {', '.join(without)} reports no version of its InfoROM"
        )
    return passed(0, 0, f"nvidia-smi prints no warning; InfoROM {', '.join(sorted(versions))}")


def gsp_firmware(readings: Evidence, expected: Evidence) -> Outcome:
    """The firmware of the card's own processor (GSP) is of the driver's branch; cards that run without it are left out.

    From Blackwell on no card runs without it.
    """
    gpus = answering_gpus(readings)
    if not gpus:
        return unknown("silent", "the driver cannot be queried", action=ASK_FIRST)
    driver = readings.version("nvidia_smi", "driver_version")
    others, bad, without = [], [], []
    for gpu in gpus:
        if gpu.absent("health", "gsp_firmware"):
            if architecture_named(gpu.text("architecture")).needs_gsp and not is_vgpu(gpu):
                return unknown("not-reported", f"{gpu.pci_id('pci_id')} reports no GSP firmware", expected=driver)
            without.append(gpu.pci_id("pci_id"))
            continue
        version = gpu.version("health", "gsp_firmware")
        if version.split(".")[0] != driver.split(".")[0]:
            others.append(f"{gpu.pci_id('pci_id')} has {version}")
            bad.append(gpu.pci_id("pci_id"))
    if others:
        return failed(
            "other-branch",
            "; ".join(others),
            driver,
            "GSP firmware of another branch than the driver: " + "; ".join(others),
            items=slots(bad),
        )
    if without:
        return skipped("not-used", f"no GSP firmware in use: {', '.join(without)}")
    return passed(driver, driver, "GSP firmware of the driver's branch")


CHECKS = (
    Check(
        id="gpu.vbios",
        layer="system",
        level=QUICK,
        severity=WARN,
        question="Do cards of one model have the same firmware?",
        judge=vbios,
        action="Ask the vendor for an update of the older firmware; nvidia-smi -q | grep -i vbios",
    ),
    Check(
        id="gpu.inforom",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=REPLACE,
        question="Is the card's configuration memory intact?",
        judge=inforom,
        unit="warnings",
        action="Run nvidia-smi; a card with a corrupted InfoROM has to be examined by the vendor.",
        source="DCGM, Azure NHC2008",
    ),
    Check(
        id="gpu.gsp_firmware",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=REBOOT,
        question="Does the card run the firmware of its driver?",
        judge=gsp_firmware,
        action="Reinstall the driver with its firmware (/lib/firmware/nvidia), then reboot.",
        source="open-gpu-kernel-modules: the driver loads the GSP firmware of its own version",
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "gpu.vbios": Hand(VENDOR, "nvidia-smi -q | grep -i vbios shows one version for all cards of a model"),
    "gpu.inforom": Hand(VENDOR, "nvidia-smi prints no warning about an InfoROM"),
    "gpu.gsp_firmware": Hand(NODE, "nvidia-smi -q | grep -i gsp shows the driver's own version"),
}
