# SPDX-License-Identifier: Apache-2.0
"""Checks of the host below the driver: its environment, its clock, its processors."""

from ...verdict.by_hand import MACHINE, Hand
from ...verdict.check import (
    QUICK,
    WARN,
    Check,
    Outcome,
    passed,
    skipped,
    warned,
)
from ...verdict.evidence import Evidence
from .tuning import TUNE, tuned_to

# Variables that slow down, change or stop every CUDA program; DCGM's list (checkForBadEnvVaribles).
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
    # Not in DCGM's list: they hide or renumber GPUs for everybody who logs in.
    "CUDA_VISIBLE_DEVICES",
    "CUDA_LAUNCH_BLOCKING",
    "LD_PRELOAD",
)
SET_GOVERNOR = TUNE + " ; by hand: cpupower frequency-set -g {}"
# Fast clocks: the processor's own, and those provided to virtual machines.
GOOD_CLOCKS = ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter")


def environment(readings: Evidence, expected: Evidence) -> Outcome:
    """No variable that interferes with CUDA programs is set for everybody in /etc/environment."""
    names = {name.text() for name in readings.each("host", "environment")}
    bad = sorted(names.intersection(BAD_VARIABLES))
    if bad:
        action = "Run: sed -i -E '/^ *({}) *=/d' /etc/environment ; then log in again."
        return warned(
            "set-for-all",
            ", ".join(bad),
            "none",
            f"set for all users: {', '.join(bad)}",
            action.format("|".join(bad)),
            items=bad,
        )
    return passed("none", "none", "nothing that interferes with CUDA programs")


def in_container(readings: Evidence) -> str:
    """A reason to skip what belongs to a container's host, or "" if this is not a container."""
    if readings.absent("host", "container"):
        return ""
    return f"this node is a container ({readings.text('host', 'container')}): look at its host"


def clock_source(readings: Evidence, expected: Evidence) -> Outcome:
    """The kernel reads time from a fast clock; a slow one (hpet, acpi_pm) slows down programs that read it often."""
    if in_container(readings):
        return skipped("in-container", in_container(readings))
    value = readings.text("host", "clock_source")
    if value not in GOOD_CLOCKS:
        return warned("other-source", value, "tsc", f"the clock source is {value}")
    return passed(value, "tsc", f"the clock source is {value}")


def governor(readings: Evidence, expected: Evidence) -> Outcome:
    """Every processor has the governor `performance`, or the one set in system_tuning.

    Others slow down the thread that feeds the GPU between steps.
    """
    if in_container(readings):
        return skipped("in-container", in_container(readings))
    if readings.absent("host", "governors"):
        return skipped("not-scaled", "the kernel does not scale frequencies here, as in most virtual machines")
    names = [name.text() for name in readings.each("host", "governors")]
    chosen = tuned_to(readings, "cpu_governor")
    wanted = chosen or "performance"
    why = ", as set in system_tuning" if chosen else ""
    if names != [wanted]:
        action = SET_GOVERNOR.format(wanted) if not chosen else TUNE
        return warned(
            "other-governor", ", ".join(names), wanted, f"governor: {', '.join(names)} instead of {wanted}{why}", action
        )
    return passed(wanted, wanted, f"all processors run with {wanted}{why}")


def blocked_tasks(readings: Evidence, expected: Evidence) -> Outcome:
    """No task of the driver is in uninterruptible sleep at this moment: only a power cycle ends such a task."""
    names = [name.text() for name in readings.each("host", "blocked_tasks", "nvidia")]
    others = readings.each("host", "blocked_tasks", "others")
    if names:
        return warned("hanging", ", ".join(names), "none", f"in uninterruptible sleep: {', '.join(names)}", items=names)
    # Other tasks wait for disks, which is normal.
    return passed("none", "none", f"no task of the driver hangs ({len(others)} others wait for disks)")


CHECKS = (
    Check(
        id="host.environment",
        layer="system",
        level=QUICK,
        severity=WARN,
        question="Is the environment free of settings that interfere with CUDA?",
        judge=environment,
        action="Remove the lines from /etc/environment, and log in again.",
        source="DCGM checkForBadEnvVaribles",
    ),
    Check(
        id="host.clock_source",
        layer="system",
        level=QUICK,
        severity=WARN,
        question="Is reading the clock cheap?",
        judge=clock_source,
        needs_gpu=False,
        action="See why the kernel stopped using tsc: journalctl -k -b | grep -i clocksource ; update the firmware.",
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

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "host.clock_source": Hand(MACHINE, "/sys/devices/system/clocksource/clocksource0/current_clocksource holds tsc"),
    "host.blocked_tasks": Hand(MACHINE, "ps -eo stat,comm | grep '^D' names no task of nvidia"),
}
