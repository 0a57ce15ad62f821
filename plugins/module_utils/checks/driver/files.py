# SPDX-License-Identifier: Apache-2.0
"""Checks of the driver's files other than its module: nvidia-smi and the libraries."""

from typing import Optional

from ...readings.host import DRIVER_LIBRARIES, read_driver_files
from ...verdict.check import (
    DRAIN,
    FAIL,
    QUICK,
    Check,
    Outcome,
    failed,
    passed,
)
from ...verdict.evidence import Evidence
from ...verdict.reader import Reader
from ...verdict.reading_sources import by_hand
from ..gpu.cards import ASK_FIRST
from ..reinstall import LIBRARIES, PROGRAM, reinstall
from .loaded import REBOOT_NOW

# Paths in dnf's packages; for Debian's, only the name counts.
FOLDER = "/usr/lib64/"


def bad_program(file: Evidence, name: str, expected: str) -> Optional[Outcome]:
    """The outcome for a program that not everybody may run or that not only root may change; None for a good one."""
    if not (file.flag("is_file") and file.flag("executable")):
        return failed("not-executable", file.text("mode"), expected, f"{name} is not a program that every user may run")
    reason = file.wish("unsafe")
    return failed("unsafe", file.text("mode"), expected, f"{name} is {reason}") if reason else None


def nvidia_smi_file(readings: Evidence, expected: Evidence) -> Outcome:
    """nvidia-smi is a program that only root may change: it is run as root, so nobody else may replace it."""
    if readings.absent("driver_files", "nvidia_smi"):
        bad: Optional[Outcome] = failed("missing", "missing", "a program", "there is no nvidia-smi")
    else:
        bad = bad_program(readings.at("driver_files", "nvidia_smi"), "nvidia-smi", "a program")
    if bad:
        return bad._replace(action=reinstall(readings, "/usr/bin/nvidia-smi", "system", PROGRAM))
    return passed("a program", "a program", "nvidia-smi is a program that only root may change")


def libraries(readings: Evidence, expected: Evidence) -> Outcome:
    """The libraries that CUDA programs load, libcuda and libnvidia-ml, exist and have the loaded module's version."""
    if readings.absent("probe", "nvidia", "loaded"):
        return failed("not-loaded", "none", None, "no nvidia module is loaded", ASK_FIRST)
    wanted = readings.version("probe", "nvidia", "loaded", "version")
    for name in DRIVER_LIBRARIES:
        if readings.absent("driver_files", "libraries", name):
            action = reinstall(readings, FOLDER + name, "system", LIBRARIES)
            return failed("missing", "missing", wanted, f"{name} is not there", action, items=(name,))
        found = readings.version("driver_files", "libraries", name)
        if found != wanted:
            return failed(
                "other-version", found, wanted, f"{name} is {found}, but the module is {wanted}", items=(name,)
            )
    return passed(wanted, wanted, f"all are {wanted}")


READ_DRIVER_FILES = Reader(
    name="driver_files",
    level=QUICK,
    read=lambda seen: read_driver_files(seen.root),
    source=by_hand("the driver's libraries", "ldconfig -p | grep nvidia ; ls -lL /usr/bin/nvidia-smi"),
)

CHECKS = (
    Check(
        id="driver.nvidia_smi_file",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Is nvidia-smi the program that came with the driver?",
        judge=nvidia_smi_file,
        action="Run: dnf reinstall -y nvidia-driver-cuda (Debian: apt-get install --reinstall nvidia-smi)",
        source="gpu-operator resolveHostNvidiaSMI",
        readers=(READ_DRIVER_FILES,),
    ),
    Check(
        id="driver.libraries",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Do CUDA programs find the driver's libraries?",
        judge=libraries,
        firm_because="without them no program finds a driver",
        action=REBOOT_NOW + " ; if they still differ: ansible-playbook site.yml --tags system",
        source="DCGM checkLibraries",
        readers=(READ_DRIVER_FILES,),
    ),
)
