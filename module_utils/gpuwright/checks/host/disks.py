# SPDX-License-Identifier: Apache-2.0
"""Check of the disks' health, and of what a training's process may hold of the host."""

import re

from ...verdict.check import FAIL, REPLACE, STANDARD, WARN, Check, failed, passed, skipped, unknown, warned
from ...verdict.evidence import Unreadable
from ..smoke.training import why_not_run
from .system import in_container

WORN_PERCENT = 100
LIVE = ("live", "running")
NO_LIMIT = "infinity"
MEMLOCK_MIB = 16384
FILES = 1048576


def disks(readings, expected):
    """No disk calls itself failing, none has used up its planned life, and the kernel still talks to all of them.

    Virtual disks have no health of their own. smartctl is no part of the toolkit: without it the kernel's word alone is
    no proof of health, and its absence no proof of damage, so the check is skipped and says what would be needed.
    """
    if in_container(readings):
        return skipped(in_container(readings))
    if readings.absent("disks"):
        return skipped("this node has no disk of its own: virtual ones belong to their host")
    bad, worn, unasked, found = [], [], [], readings.each("disks")
    for disk in found:
        name = disk.text("name")
        state = disk.text("state")
        if state not in LIVE:
            bad.append("the kernel calls {} {}".format(name, state))
        elif disk.absent("health"):
            unasked.append(name)
        elif not disk.flag("health", "passed"):
            bad.append("{} calls itself failing".format(name))
        elif name.startswith("nvme"):
            # Its own log must say these; disks behind SATA or SAS have no such words.
            warning, used = disk.number("health", "critical_warning"), disk.number("health", "percentage_used")
            bad += ["{} warns: critical warning {}".format(name, warning)] if warning else []
            worn += ["{} has used {} % of its life".format(name, used)] if used >= WORN_PERCENT else []
    if bad:
        return failed(len(bad), 0, "; ".join(bad))
    if worn:
        return warned(len(worn), 0, "; ".join(worn))
    if unasked:
        return skipped("the kernel reaches {}; smartctl, which knows more, is not installed".format(", ".join(unasked)))
    if not found:
        return unknown("no disk was looked at")
    return passed(0, 0, "{} disks call themselves healthy".format(len(found)))


def limits(readings, expected):
    """A training may pin 16 GiB of memory or more, and open 1048576 files: data workers pass files on.

    What the smoke test had counts, since it runs as trainings do; a container cannot have more than its host gives it.
    """
    if in_container(readings):
        return skipped(in_container(readings))
    busy = why_not_run(readings)
    if busy and "limits" not in readings.at("smoke").value:
        return skipped(busy)
    memory, files = (readings.text("smoke", "limits", name) for name in ("memlock", "files"))
    low = []
    if memory != NO_LIMIT and count(memory) < MEMLOCK_MIB * 1048576:
        low.append("{} bytes of pinned memory".format(memory))
    if files != NO_LIMIT and count(files) < FILES:
        low.append("{} open files".format(files))
    if low:
        return warned(", ".join(low), "no limit", "trainings are held to {}".format(" and ".join(low)))
    return passed(memory, "no limit", "pinned memory: {}, open files: {}".format(memory, files))


def count(text):
    if not re.match("[0-9]{1,20}$", text):
        raise Unreadable("a limit is neither a number nor {}: {!r}".format(NO_LIMIT, text), "readings.smoke")
    return int(text)


CHECKS = (
    Check(
        id="host.disks",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=REPLACE,
        question="Are the disks sound?",
        judge=disks,
        unit="disks",
        needs_gpu=False,
        action="Look at smartctl -a on what is named, save what is on it, and have it replaced.",
        source="gcm check_blockdev, aznhc: SMART; NVMe base specification: percentage used, critical warning",
    ),
    Check(
        id="model.limits",
        layer="model",
        level=STANDARD,
        severity=WARN,
        question="May trainings pin memory and open files?",
        judge=limits,
        needs_gpu=False,
        action="Run: ansible-playbook site.yml --tags model ; look for a drop-in: systemctl cat train-gan@x",
        source="linux-system-roles hpc test-tuning; AWS warns below 16 GiB",
    ),
)
