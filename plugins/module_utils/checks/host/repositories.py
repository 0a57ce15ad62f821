# SPDX-License-Identifier: Apache-2.0
"""Checks of what dnf or apt makes of all its files: the repositories that the node relies on are as the plan wants."""

from typing import Any, List, Tuple

from ...readings.attempt import attempt, for_root
from ...verdict.by_hand import NODE, Hand
from ...verdict.check import DRAIN, FAIL, QUICK, STANDARD, Check, Outcome, failed, passed, skipped, warned
from ...verdict.evidence import Evidence
from ...verdict.expectations import REPOSITORIES as NAME
from ...verdict.reader import Reader, Seen
from ...verdict.reading_sources import Source

FILES = "repository_files"
MANAGERS = ("dnf", "apt")
MOST = 3
REPAIR = "Run: ansible-playbook site.yml --tags system ; it takes over other sources, or names what to remove"


def repositories(readings: Evidence, expected: Evidence) -> Outcome:
    """dnf or apt itself takes each repository from our file alone, with the planned address, key and signatures.

    It is a WARN if another source, or a setting for all of them, lets in what nobody has signed.
    """
    if readings.absent(NAME):
        return skipped("not-known", "nobody has said which repositories this node relies on")
    manager = readings.one_of(MANAGERS, NAME, "manager")
    problems, weak = readings.each(NAME, "problems"), readings.each(NAME, "weak")
    if problems:
        return failed("not-used", len(problems), 0, f"{manager} does not use what was configured: {_words(problems)}")
    if weak:
        action = "Have its packages or its metadata signed and checked, or switch it off; the site decides about these."
        return warned("not-signed", len(weak), 0, f"{manager} takes what nobody has signed: {_words(weak)}", action)
    names = [one.text() for one in readings.each(NAME, "relied")]
    return passed(0, 0, f"{manager} uses {', '.join(names) or 'none of them'} as configured")


def _words(rows: List[Evidence]) -> str:
    told = [
        f"{row.text('place')}: {row.text('what')} is {row.text('found')}, not {row.text('wanted')}"
        for row in rows[:MOST]
    ]
    return "; ".join(told) + (f"; and {len(rows) - MOST} more" if len(rows) > MOST else "")


def repository_files(readings: Evidence, expected: Evidence) -> Outcome:
    """The files from which dnf or apt knows these repositories are those of the last verification, which asked it.

    It is a FAIL as long as they are those in which that verification found something wrong.
    """
    # Level quick has no such reading, and that is no fault of the node.
    if isinstance(readings.value, dict) and readings.value.get(NAME):
        return skipped("asked-elsewhere", "the package manager itself was asked: host.repositories")
    if readings.absent(FILES):
        return skipped("not-asked", "no verification has asked the package manager about its repositories yet")
    now, then = (set(_digests(readings.at(FILES, name))) for name in ("now", "then"))
    changed = sorted({path for path, _digest in now ^ then})
    if changed:
        more = f" and {len(changed) - MOST} more" if len(changed) > MOST else ""
        return warned(
            "changed", len(changed), 0, f"changed since the last verification: {', '.join(changed[:MOST])}{more}"
        )
    problems = readings.each(FILES, "problems")
    if problems:
        return failed("as-verified", len(problems), 0, f"as the last verification found: {_words(problems)}", REPAIR)
    return passed(0, 0, f"{len(now)} files are as they were at the last verification")


def _digests(record: Evidence) -> List[Tuple[str, str]]:
    return [(path, record.text(path)) for path in record.names()]


SOURCE = Source(
    "dnf or apt, and its files",
    "Run: dnf repolist -v --disablerepo='*' || apt-get indextargets --no-release-info ; "
    "fix what it reports, then run gpu-doctor again as root.",
)


def _read_repository_files(seen: Seen) -> Any:
    # It costs level quick a tenth of its time, so only where there is something to compare.
    if not seen.expectations.get(NAME):
        return None
    from .repositories_reading import read_repository_files

    return for_root(attempt(read_repository_files, seen.root, seen.expectations, seen.probe))


def _read_repositories(seen: Seen) -> Any:
    from .repositories_reading import read_repositories

    return for_root(attempt(read_repositories, seen.root, seen.expectations, seen.probe))


REPOSITORIES = Reader(
    name=NAME,
    level=STANDARD,
    read=_read_repositories,
    source=SOURCE,
)
REPOSITORY_FILES = Reader(
    name=FILES,
    level=QUICK,
    read=_read_repository_files,
    source=Source("dnf's or apt's files, and the last report", SOURCE.look),
)

CHECKS = (
    Check(
        id="host.repositories",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Do dnf or apt take packages from the repositories that were configured, with their keys?",
        judge=repositories,
        unit="differences",
        needs_gpu=False,
        action=REPAIR,
        source="dnf.conf(5), sources.list(5)",
        readers=(REPOSITORIES,),
    ),
    Check(
        id="host.repository_files",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Are the files of the package manager's repositories those of the last verification?",
        judge=repository_files,
        unit="files",
        needs_gpu=False,
        action="Run: ansible-playbook playbooks/verify.yml ; it asks the package manager what it makes of them",
        readers=(REPOSITORY_FILES,),
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "host.repositories": Hand(NODE, "gpgcheck or repo_gpgcheck is on for it (dnf), or apt has no such option any more"),
}
