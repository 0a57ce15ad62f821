# SPDX-License-Identifier: Apache-2.0
"""Check of the disks' health."""

from typing import Any

from ...readings.attempt import attempt, for_root
from ...readings.disk_names import disk_name
from ...verdict.by_hand import MACHINE, Hand
from ...verdict.check import (
    FAIL,
    REPLACE,
    STANDARD,
    Check,
    Outcome,
    failed,
    passed,
    skipped,
    unknown,
    warned,
)
from ...verdict.evidence import Evidence
from ...verdict.reader import Reader, Seen
from ...verdict.reading_sources import by_hand
from .system import in_container

WORN_PERCENT = 100
LIVE = ("live", "running")


def disks(readings: Evidence, expected: Evidence) -> Outcome:
    """No disk reports that it is failing, none has used up its rated life, and the kernel can still reach all of them.

    Virtual disks have no health of their own. smartctl is not part of the toolkit: without it, what the kernel reports
    does not prove that a disk is healthy, and a missing smartctl does not prove damage, so the check is skipped and
    says what would be needed.
    """
    if in_container(readings):
        return skipped("in-container", in_container(readings))
    if readings.absent("disks"):
        return skipped("no-disk", "this node has no disk of its own: virtual disks belong to their host")
    bad, worn, unasked, found = [], [], [], readings.each("disks")
    failing, old = [], []
    for disk in found:
        name = disk.text("name")
        state = disk.text("state")
        if state not in LIVE:
            bad.append(f"the kernel reports {name} as {state}")
            failing.append(name)
        elif disk.absent("health"):
            unasked.append(name)
        elif not disk.flag("health", "passed"):
            bad.append(f"{name} reports that it is failing")
            failing.append(name)
        elif name.startswith("nvme"):
            # An NVMe disk's own log must report these; SATA and SAS disks do not have them.
            warning, used = disk.number("health", "critical_warning"), disk.number("health", "percentage_used")
            bad += [f"{name} warns: critical warning {warning}"] if warning else []
            failing += [name] if warning else []
            old += [name] if used >= WORN_PERCENT else []
            worn += [f"{name} has used {used} % of its life"] if used >= WORN_PERCENT else []
    if bad:
        return failed("failing", len(bad), 0, "; ".join(bad), items=[disk_name(name) for name in failing])
    if worn:
        return warned("worn", len(worn), 0, "; ".join(worn), items=[disk_name(name) for name in old])
    if unasked:
        return skipped(
            "not-asked", f"the kernel can access {', '.join(unasked)}; smartctl, which reports more, is not installed"
        )
    if not found:
        return unknown("nothing-checked", "no disk was checked")
    return passed(0, 0, f"{len(found)} disks report that they are healthy")


def _read_disks(seen: Seen) -> Any:
    from .disks_reading import read_disks

    return for_root(attempt(read_disks, seen.root))


DISKS = Reader(
    name="disks",
    level=STANDARD,
    read=_read_disks,
    source=by_hand("/sys/block and smartctl", "smartctl --scan ; smartctl --health /dev/sda"),
)

CHECKS = (
    Check(
        id="host.disks",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=REPLACE,
        question="Are the disks healthy?",
        judge=disks,
        unit="disks",
        needs_gpu=False,
        action="Look at smartctl -a for the disk that is named, back up its data, and have it replaced.",
        source="gcm check_blockdev, aznhc: SMART; NVMe base specification: percentage used, critical warning",
        readers=(DISKS,),
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "host.disks": Hand(MACHINE, "smartctl --health says PASSED for the disk in its place"),
}
