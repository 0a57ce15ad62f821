# SPDX-License-Identifier: Apache-2.0
"""Checks of the kernel's modules: the parameters that nvidia was loaded with, and modules that a site requires."""

from typing import Optional

from ...host.patterns import lazily
from ...readings.attempt import attempt
from ...verdict.check import (
    DRAIN,
    FAIL,
    QUICK,
    REBOOT,
    Check,
    Outcome,
    failed,
    passed,
    skipped,
    warned,
)
from ...verdict.evidence import Evidence
from ...verdict.reader import Reader
from ...verdict.reading_sources import by_hand
from ..gpu.cards import ASK_FIRST
from ..host.system import in_container
from .modules_reading import read_asked, read_kernel_modules, read_parameters

NUMBER = lazily(r"(0[xX][0-9a-fA-F]+)|(0[0-7]*)|([1-9][0-9]*)")
LOADED = ("live", "built in")


def number(text: str) -> Optional[int]:
    """A number as the kernel reads it (0x1b0, 0660 and 432 are the same), None for other text."""
    match = NUMBER.fullmatch(text)
    return match and int(text, 16 if match.group(1) else 8 if match.group(2) else 10)


def agrees(asked: str, loaded: str) -> bool:
    """Whether the loaded module has what was asked for; it shows numbers in decimal, and texts in quotes."""
    if loaded.startswith('"'):
        return asked == loaded.strip('"')
    return number(asked) is not None and number(asked) == number(loaded)


def parameters(readings: Evidence, expected: Evidence) -> Outcome:
    """The module nvidia was loaded with every parameter that /etc/modprobe.d and the like set for it.

    A file changed since then has no effect until the module is reloaded.
    """
    if in_container(readings):
        return skipped("in-container", in_container(readings))
    asked = readings.each("parameters", "asked")
    if not asked:
        return passed("none", "none", "no parameter is requested")
    if readings.absent("parameters", "loaded"):
        return failed("not-loaded", "none", None, "no nvidia module is loaded", ASK_FIRST)
    shown = readings.names("parameters", "loaded")
    different = []
    for parameter in asked:
        name, value = parameter.text("name"), parameter.wish("value")
        found = readings.text("parameters", "loaded", name) if name in shown else "not a parameter of this driver"
        if name not in shown or not agrees(value, found):
            different.append(f"{parameter.text('source')} asks for {name}={value}, loaded: {found}")
    if different:
        return warned("different", len(different), 0, "; ".join(different))
    return passed(0, 0, f"{len(asked)} parameters have the requested values")


def modules(readings: Evidence, expected: Evidence) -> Outcome:
    """Every module that the inventory asks for is in the kernel, loaded or built in."""
    wanted = [name.text() for name in expected.each("modules")]
    if not wanted:
        return skipped("not-asked", "the inventory asks for no other module (verify_expected_modules)")
    states = [
        (name, "not loaded" if readings.absent("kernel_modules", name) else readings.text("kernel_modules", name))
        for name in wanted
    ]
    missing = [(name, state) for name, state in states if state not in LOADED]
    if missing:
        names = " ".join(name for name, _state in missing)
        action = (
            "Run: modprobe -a {0} ; modinfo {0} says whether it is installed ; for the next boot: /etc/modules-load.d"
        )
        words = ", ".join(f"{name} is {state}" for name, state in missing)
        return failed(
            "missing",
            len(wanted) - len(missing),
            len(wanted),
            words,
            action.format(names),
            items=[name for name, _state in missing],
        )
    return passed(len(wanted), len(wanted), f"in the kernel: {', '.join(wanted)}")


PARAMETERS = Reader(
    name="parameters",
    level=QUICK,
    read=lambda seen: {"asked": attempt(read_asked, seen.root), "loaded": attempt(read_parameters, seen.root)},
    source=by_hand("/proc/driver/nvidia/params", "cat /proc/driver/nvidia/params"),
)
KERNEL_MODULES = Reader(
    name="kernel_modules",
    level=QUICK,
    read=lambda seen: read_kernel_modules(seen.root, seen.expectations.get("modules", [])),
    source=by_hand("/proc/modules", "lsmod | head"),
)

CHECKS = (
    Check(
        id="driver.parameters",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=REBOOT,
        question="Was the module loaded with the requested parameters?",
        judge=parameters,
        unit="parameters",
        action=(
            "When nobody works on the node, run: systemctl reboot ; if they still have the old values, the initramfs "
            "loads the module: dracut -f (Debian: update-initramfs -u) and reboot once more."
        ),
        source="gpud components/kernel-module; names and values: nv-reg.h of NVIDIA's open kernel modules",
        readers=(PARAMETERS,),
    ),
    Check(
        id="driver.modules",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Are the other kernel modules that this site asks for loaded?",
        judge=modules,
        unit="modules",
        needs_gpu=False,
        action="Run: modprobe NAME",
        source="gpu-operator, sichek and gpud: nvidia_peermem, gdrdrv and nvidia_fs where they are enabled",
        readers=(KERNEL_MODULES,),
    ),
)
