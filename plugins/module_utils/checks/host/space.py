# SPDX-License-Identifier: Apache-2.0
"""Checks of the file systems that system, environment and training write to: space, inodes, and whether writable."""

from typing import Callable, List, NamedTuple, Tuple

from ...verdict.by_hand import NODE, Hand
from ...verdict.check import DRAIN, FAIL, QUICK, Check, Outcome, failed, passed, skipped, unknown, warned
from ...verdict.evidence import Evidence
from ...verdict.reader import Reader
from ...verdict.reading_sources import by_hand
from .file_systems import read_file_systems

FREE_INODES_GOOD = 10000
USES = ("system", "boot", "state", "environment", "data", "runs")


class Floor(NamedTuple):
    """Free MiB below which a folder is bad (0: never) or doubtful, and whether it must be writable."""

    fail: int
    warn: int
    must_write: bool


FLOORS = {
    "system": Floor(512, 4096, True),
    # Made small on many servers, and written only by kernel updates.
    "boot": Floor(0, 128, False),
    "state": Floor(512, 4096, True),
    # Only an installation writes there, and that checks for enough space before it begins.
    "environment": Floor(64, 512, False),
    # Training reads it; some runs keep decoded images there.
    "data": Floor(0, 512, False),
    # A checkpoint of 1 GiB and its temporary copy.
    "runs": Floor(2048, 4096, True),
}


def rows(readings: Evidence) -> Tuple[List[Evidence], List[Evidence]]:
    """The records of the folders that could be examined, and the others."""
    found = readings.each("file_systems")
    seen = [row for row in found if not (isinstance(row.value, dict) and "unreadable" in row.value)]
    for row in seen:
        row.one_of(USES, "use")
    return seen, [row for row in found if row not in seen]


def ask(others: List[Evidence]) -> None:
    """UNKNOWN, with folder and reason, if one could not be examined; a bad result elsewhere takes precedence."""
    for row in others:
        row.text("folder")


def place(row: Evidence) -> str:
    """The folder, and where its file system is mounted if that is elsewhere."""
    folder, mount = row.text("folder"), row.text("mount")
    return folder if folder == mount else f"{folder} (file system of {mount})"


def largest(row: Evidence) -> str:
    return f"Find what fills it: du -xh --max-depth=2 {row.text('mount')} | sort -h | tail -20"


def worst_of(found: List[Evidence], judge: Callable[[Evidence], Tuple[int, int]]) -> Tuple[int, int, Evidence]:
    """(rank, value, record) of the worst folder: rank 2 bad, 1 doubtful, 0 good; then the lowest value."""
    judged = [(judge(row), number) for number, row in enumerate(found)]
    (rank, value), number = min(judged, key=lambda entry: (-entry[0][0], entry[0][1], entry[1]))
    return rank, value, found[number]


def disk_space(readings: Evidence, expected: Evidence) -> Outcome:
    """/, /boot, /var, /opt/gpuwright and the folders of data and runs each have their own minimum of free space."""
    found, others = rows(readings)
    if not found + others:
        return unknown("nothing-checked", "no file system was checked")

    def judge(row: Evidence) -> Tuple[int, int]:
        floor, free = FLOORS[row.text("use")], row.number("free_mib")
        return (2 if free < floor.fail else 1 if free < floor.warn else 0), free

    if not found:
        ask(others)
    rank, free, row = worst_of(found, judge)
    words = f"{free} MiB free on {place(row)}"
    floor = FLOORS[row.text("use")]
    if rank == 2:
        return failed("full", free, floor.warn, words, largest(row), items=(row.text("mount"),))
    ask(others)
    if rank == 1:
        return warned("nearly-full", free, floor.warn, words, largest(row), items=(row.text("mount"),))
    return passed(free, floor.warn, words)


def inodes(readings: Evidence, expected: Evidence) -> Outcome:
    """File systems with a fixed number of files have more than 10,000 left: venvs and data sets are many files."""
    found, others = rows(readings)
    fixed = [row for row in found if not row.absent("free_inodes")]
    if not fixed:
        ask(others)
        return skipped("no-fixed-number", "no file system that was checked has a fixed number of files")

    def judge(row: Evidence) -> Tuple[int, int]:
        free = row.number("free_inodes")
        bad = free == 0 and FLOORS[row.text("use")].must_write
        return (2 if bad else 1 if free < FREE_INODES_GOOD else 0), free

    rank, free, row = worst_of(fixed, judge)
    words = f"{free} files can still be created on {place(row)}"
    action = "Find the folder with the most files: du --inodes -x --max-depth=2 {} | sort -n | tail -20".format(
        row.text("mount")
    )
    if rank == 2:
        return failed("full", 0, FREE_INODES_GOOD, words, action, items=(row.text("mount"),))
    ask(others)
    if rank == 1:
        return warned("nearly-full", free, FREE_INODES_GOOD, words, action, items=(row.text("mount"),))
    without = [row.text("folder") for row in found if row not in fixed]
    if without:
        return skipped("no-fixed-number", f"no fixed number of files on {', '.join(without)}")
    return passed(free, FREE_INODES_GOOD, words)


def writable(readings: Evidence, expected: Evidence) -> Outcome:
    """The file systems of /, /var and the runs are not mounted read-only, and the folder of the runs is there."""
    found, others = rows(readings)
    for row in found:
        if not FLOORS[row.text("use")].must_write:
            continue
        if row.flag("read_only"):
            action = (
                "See why: journalctl -k -b | grep -i remount ; then check the file system and: mount -o remount,rw {}"
            )
            return failed(
                "read-only",
                "read-only",
                "writable",
                place(row) + " is read-only",
                action.format(row.text("mount")),
                items=(row.text("mount"),),
            )
        if not row.flag("there"):
            return failed(
                "missing",
                "missing",
                "writable",
                f"there is no folder {row.text('folder')}",
                items=(row.text("folder"),),
            )
    ask(others)
    return passed("writable", "writable", "the system and training runs can write")


FILE_SYSTEMS = Reader(
    name="file_systems",
    level=QUICK,
    read=lambda seen: read_file_systems(seen.root, seen.expectations),
    source=by_hand("the file systems", "findmnt ; df -h ; df -i"),
)

CHECKS = (
    Check(
        id="host.disk_space",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Is there enough free space on the disks?",
        judge=disk_space,
        unit="MiB",
        needs_gpu=False,
        action="Find what fills them: du -xh --max-depth=2 / | sort -h | tail -20",
        source="own: a checkpoint of 1 GiB, its temporary copy, and a package transaction",
        readers=(FILE_SYSTEMS,),
    ),
    Check(
        id="host.inodes",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Can more files be created?",
        judge=inodes,
        unit="files",
        needs_gpu=False,
        action="Find the folder with the most files: du --inodes -x --max-depth=2 / | sort -n | tail -20",
        source="own: a venv with PyTorch has some 30,000 files",
        readers=(FILE_SYSTEMS,),
    ),
    Check(
        id="host.writable",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Can the node write where it has to?",
        judge=writable,
        needs_gpu=False,
        action="Mount what belongs there, or run: ansible-playbook site.yml --tags model ; it creates the folder.",
        source=(
            "own: the kernel remounts a broken file system read-only, and a training run ends at its first checkpoint"
        ),
        readers=(FILE_SYSTEMS,),
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "host.disk_space": Hand(NODE, "df -h shows the space that the check expects"),
    "host.inodes": Hand(NODE, "df -i shows the inodes that the check expects"),
    "host.writable": Hand(NODE, "findmnt shows rw for it"),
}
