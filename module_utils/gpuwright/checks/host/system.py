# SPDX-License-Identifier: Apache-2.0
"""Checks of the host below the driver: its files, its clock, its processors."""

from ...readings.host import DRIVER_LIBRARIES
from ...verdict.check import DRAIN, FAIL, QUICK, WARN, Check, failed, passed, skipped, warned
from ..driver.loaded import INSTALL, REBOOT_NOW
from ..gpu.cards import ASK_FIRST
from ..reinstall import LIBRARIES, PROGRAM, reinstall
from .tuning import TUNE, tuned_to

# Variables that make every CUDA program slower, different or stop; DCGM's list (checkForBadEnvVaribles).
BAD_VARIABLES = (
    "NSIGHT_CUDA_DEBUGGER",
    "CUDA_INJECTION32_PATH",
    "CUDA_INJECTION64_PATH",
    "CUDA_AUTO_BOOST",
    "CUDA_ENABLE_COREDUMP_ON_EXCEPTION",
    "CUDA_COREDUMP_FILE",
    "CUDA_DEVICE_WAITS_ON_EXCEPTION",
    "CUDA_PROFILE",
    "COMPUTE_PROFILE",
    "OPENCL_PROFILE",
    # Not DCGM's: they hide GPUs from, or move them for, everybody who logs in.
    "CUDA_VISIBLE_DEVICES",
    "CUDA_LAUNCH_BLOCKING",
    "LD_PRELOAD",
)
SET_GOVERNOR = TUNE + " ; by hand: cpupower frequency-set -g {}"
# Where dnf's packages have them; of Debian's only the name counts.
FOLDER = "/usr/lib64/"
# Fast clocks: the processor's own, and those that virtual machines are given.
GOOD_CLOCKS = ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter")


def bad_program(file, name, expected):
    """The outcome for a program that not everybody may run or that others than root may change; None for a good one."""
    if not (file.flag("is_file") and file.flag("executable")):
        return failed(file.text("mode"), expected, "{} is no program that everybody may run".format(name))
    reason = file.wish("unsafe")
    return failed(file.text("mode"), expected, "{} is {}".format(name, reason)) if reason else None


def nvidia_smi_file(readings, expected):
    """nvidia-smi is a program that only root may change: it is run as root, so nothing else may lie in its place."""
    if readings.absent("driver_files", "nvidia_smi"):
        bad = failed("missing", "a program", "there is no nvidia-smi")
    else:
        bad = bad_program(readings.at("driver_files", "nvidia_smi"), "nvidia-smi", "a program")
    if bad:
        return bad._replace(action=reinstall(readings, "/usr/bin/nvidia-smi", "system", PROGRAM))
    return passed("a program", "a program", "nvidia-smi is a program that only root may change")


def libraries(readings, expected):
    """The libraries that CUDA programs load, libcuda and libnvidia-ml, are there and of the loaded module's version."""
    if readings.absent("probe", "nvidia", "loaded"):
        return failed("none", None, "no nvidia module is loaded", ASK_FIRST)
    wanted = readings.version("probe", "nvidia", "loaded", "version")
    for name in DRIVER_LIBRARIES:
        if readings.absent("driver_files", "libraries", name):
            action = reinstall(readings, FOLDER + name, "system", LIBRARIES)
            return failed("missing", wanted, "{} is not there".format(name), action)
        found = readings.version("driver_files", "libraries", name)
        if found != wanted:
            return failed(found, wanted, "{} is {}, the module {}".format(name, found, wanted))
    return passed(wanted, wanted, "all are {}".format(wanted))


def fabric_manager(readings, expected):
    """On a node with NVSwitches nvidia-fabricmanager is active and of the driver's version; others do not need it."""
    if not readings.number("switches"):
        return skipped("this node has no NVSwitch")
    state = readings.text("fabric_manager")
    if state != "active":
        return failed(state, "active", "nvidia-fabricmanager is {}".format(state))
    wanted = readings.version("probe", "nvidia", "loaded", "version")
    version = readings.version("fabric_manager_version")
    if version != wanted:
        return failed(version, wanted, "nvidia-fabricmanager is {}, the driver {}".format(version, wanted), INSTALL)
    return passed(version, wanted, "nvidia-fabricmanager is active, {}".format(version))


def environment(readings, expected):
    """No variable that disturbs CUDA programs is set for everybody in /etc/environment."""
    names = {name.text() for name in readings.each("host", "environment")}
    bad = sorted(names.intersection(BAD_VARIABLES))
    if bad:
        action = "Run: sed -i -E '/^ *({}) *=/d' /etc/environment ; then log in again."
        return warned(
            ", ".join(bad), "none", "set for everybody: {}".format(", ".join(bad)), action.format("|".join(bad))
        )
    return passed("none", "none", "nothing that disturbs CUDA programs")


def in_container(readings):
    """A reason to skip what belongs to the host of a container, or "" on a machine of its own."""
    if readings.absent("host", "container"):
        return ""
    return "this node is a container ({}): look on its host".format(readings.text("host", "container"))


def clock_source(readings, expected):
    """The kernel reads time from a fast clock; a slow one (hpet, acpi_pm) costs every program that asks often."""
    if in_container(readings):
        return skipped(in_container(readings))
    value = readings.text("host", "clock_source")
    if value not in GOOD_CLOCKS:
        return warned(value, "tsc", "the clock source is {}".format(value))
    return passed(value, "tsc", "the clock source is {}".format(value))


def governor(readings, expected):
    """Every processor has the governor `performance`, or the one that system_tuning was told to set.

    Others slow down the thread that feeds the GPU between steps.
    """
    if in_container(readings):
        return skipped(in_container(readings))
    if readings.absent("host", "governors"):
        return skipped("the kernel does not scale frequencies here, as in most virtual machines")
    names = [name.text() for name in readings.each("host", "governors")]
    chosen = tuned_to(readings, "cpu_governor")
    wanted = chosen or "performance"
    why = ", as system_tuning was told to set" if chosen else ""
    if names != [wanted]:
        action = SET_GOVERNOR.format(wanted) if not chosen else TUNE
        return warned(
            ", ".join(names), wanted, "governor: {} instead of {}{}".format(", ".join(names), wanted, why), action
        )
    return passed(wanted, wanted, "all processors run with {}{}".format(wanted, why))


def blocked_tasks(readings, expected):
    """No task of the driver is in uninterruptible sleep at this moment: such a one goes only with a power cycle."""
    names = [name.text() for name in readings.each("host", "blocked_tasks", "nvidia")]
    others = readings.each("host", "blocked_tasks", "others")
    if names:
        return warned(", ".join(names), "none", "in uninterruptible sleep: {}".format(", ".join(names)))
    # Others wait for disks, as is usual.
    return passed("none", "none", "no task of the driver hangs ({} others wait for disks)".format(len(others)))


CHECKS = (
    Check(
        id="driver.nvidia_smi_file",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Is nvidia-smi the program that the driver brought?",
        judge=nvidia_smi_file,
        action="Run: dnf reinstall -y nvidia-driver-cuda (Debian: apt-get install --reinstall nvidia-smi)",
        source="gpu-operator resolveHostNvidiaSMI",
    ),
    Check(
        id="driver.libraries",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Do CUDA programs find the driver's libraries?",
        judge=libraries,
        firm_because="without them there is no driver for a program",
        action=REBOOT_NOW + " ; if they differ then: ansible-playbook site.yml --tags system",
        source="DCGM checkLibraries",
    ),
    Check(
        id="driver.fabric_manager",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Are the switches between the GPUs managed?",
        judge=fabric_manager,
        action="Run: systemctl unmask nvidia-fabricmanager ; systemctl enable --now nvidia-fabricmanager",
        source="DCGM checkFabricManager, AWS, gpud",
    ),
    Check(
        id="host.environment",
        layer="system",
        level=QUICK,
        severity=WARN,
        question="Is the environment free of what disturbs CUDA?",
        judge=environment,
        action="Remove the lines from /etc/environment, and log in again.",
        source="DCGM checkForBadEnvVaribles",
    ),
    Check(
        id="host.clock_source",
        layer="system",
        level=QUICK,
        severity=WARN,
        question="Is asking for the time cheap?",
        judge=clock_source,
        needs_gpu=False,
        action="See why the kernel left tsc: journalctl -k -b | grep -i clocksource ; update the firmware.",
        source="gcm check_processor.py",
    ),
    Check(
        id="host.cpu_governor",
        layer="system",
        level=QUICK,
        severity=WARN,
        question="Do the processors run at full speed?",
        judge=governor,
        needs_gpu=False,
        action=SET_GOVERNOR.format("performance"),
        source="gcm check_processor.py",
    ),
    Check(
        id="host.blocked_tasks",
        layer="system",
        level=QUICK,
        severity=WARN,
        question="Does a task of the driver hang?",
        judge=blocked_tasks,
        action="Look at it: ps -eo pid,stat,wchan:30,comm | grep ' D' ; if it stays, power the node off and on.",
        source="gpud components/os: tasks of nvidia in state D escalate",
    ),
)
