# SPDX-License-Identifier: Apache-2.0
"""Check of security updates that a held version keeps away."""

from ...readings.attempt import attempt, for_root
from ...verdict.by_hand import CONTROLLER, Hand
from ...verdict.check import STANDARD, WARN, Check, Outcome, passed, skipped, warned
from ...verdict.evidence import Evidence
from ...verdict.reader import ALWAYS, Reader
from ...verdict.reading_sources import by_hand
from .held_updates_reading import ADVISORIES, READ_FROM, read_held_updates

REFRESH = {"dnf": "dnf makecache", "apt": "apt-get update"}
MOST_NAMES = 4
# Archives write new lists every few days; older ones know nothing of what was published since.
LIMIT_DAYS = 30


def held_updates(readings: Evidence, expected: Evidence) -> Outcome:
    """No package that is held at its version waits for a security update.

    A lock keeps the driver and the kernel that fit together, and with them every hole that was closed since. Only what
    the repositories declare is known: NVIDIA's has no advisories (playbooks/software.yml has its bulletins). A node
    without lists of packages is skipped, and so is one whose lists are old and name none.
    """
    if readings.absent("held_updates"):
        return skipped("none-held", "neither dnf nor apt holds a package at a version")
    manager = readings.one_of(tuple(REFRESH), "held_updates", "manager")
    if readings.absent("held_updates", "updates"):
        return skipped("no-lists", f"the package manager has no lists to look into; '{REFRESH[manager]}' fetches them")
    found = [(one.text("package"), one.text("advisory")) for one in readings.each("held_updates", "updates")]
    if found:
        words = ", ".join(f"{package}: {advisory}" for package, advisory in found[:MOST_NAMES])
        more = f", and {len(found) - MOST_NAMES} more" if len(found) > MOST_NAMES else ""
        return warned("held", len(found), 0, f"held back: {words}{more}")
    if readings.absent("held_updates", "days"):
        return skipped(
            "age-unknown",
            f"how old the package manager's lists are is not known; '{REFRESH[manager]}' fetches new ones",
        )
    days = readings.number("held_updates", "days")
    if days > LIMIT_DAYS:
        text = "nothing newer is known than {} days ago (limit {}); '{}' fetches newer lists"
        return skipped("lists-old", text.format(days, LIMIT_DAYS, REFRESH[manager]))
    return passed(0, 0, f"no security update is known for the packages that are held, from lists of {days} days ago")


HELD_UPDATES = Reader(
    name="held_updates",
    level=STANDARD,
    read=lambda seen: for_root(attempt(read_held_updates, seen.root, seen.probe)),
    source=by_hand(READ_FROM, " ".join(ADVISORIES) + " || apt-get --simulate upgrade"),
    ahead=ALWAYS,
)

CHECKS = (
    Check(
        id="host.held_updates",
        layer="system",
        level=STANDARD,
        severity=WARN,
        remedy="",
        question="Do packages that are held at a version lack security updates?",
        judge=held_updates,
        unit="updates",
        needs_gpu=False,
        action="Choose a day for the update. A kernel: set system_kernel_allow_update: true. The driver: plan one that "
        "has the fix. The next run of the system layer moves the locks. A lock of your own: release it, and update.",
        source="dnf updateinfo; apt's security archives",
        readers=(HELD_UPDATES,),
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "host.held_updates": Hand(CONTROLLER, "the package manager lists no security update for the package any more"),
}
