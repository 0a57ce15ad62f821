# SPDX-License-Identifier: Apache-2.0
"""What has to be done for a report: its findings, worst first, with what people want to know about each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.gpuwright.node.plugins.module_utils.doctor.by_hand import done_by, sentence_of
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.causes import (
    consequences,
    one_reason,
    own_findings,
)
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.check import SEVERITY, SKIP, UNKNOWN

from .people import question, since
from .values import Report

RANK = {status: rank for rank, status in enumerate((*SEVERITY, SKIP))}
# Names of checks in one entry of a list.
NAMED_CHECKS = 3


class Finding(NamedTuple):
    """Checks with the same status for one reason."""

    status: str
    names: tuple[str, ...]
    message: str
    action: str


class Entry(NamedTuple):
    """A finding in words: `few` of its checks, and `every` of them if these are not all."""

    status: str
    question: str
    few: str
    every: str
    message: str
    action: str
    note: str


def verdict_of(report: Report | None) -> str:
    return report["verdict"] if report else UNKNOWN


def to_do(report: Report | None) -> list[Finding]:
    """Findings that require an action, worst first.

    Checks with the same status for one reason, such as a log that nobody may read, are one finding; what follows from
    another finding is not one. Nothing without a report.
    """
    groups: dict[tuple[object, ...], list[Mapping[str, Any]]] = {}
    for check in sorted(own_findings(report["checks"]) if report else [], key=lambda check: RANK[check["status"]]):
        groups.setdefault(one_reason(check), []).append(check)
    return [
        Finding(same[0]["status"], tuple(check["id"] for check in same), same[0]["message"], same[0]["action"])
        for same in groups.values()
    ]


def entry(finding: Finding, notes: Sequence[str]) -> Entry:
    """If there are many checks, the first are named, and all if they are unfolded, as in print."""
    names = finding.names
    few, every = ", ".join(names), ""
    if len(names) > NAMED_CHECKS + 1:
        few, every = f"{', '.join(names[:NAMED_CHECKS])} and {len(names) - NAMED_CHECKS} more", few
    note = sentence_of(notes) if notes else ""
    return Entry(finding.status, question(list(names)), few, every, finding.message, finding.action, note)


def host_entries(report: Report, before: Report | None) -> list[Entry]:
    """The findings of a host, each with who must act, since when it has existed, and how much follows from it."""
    return [entry(finding, _notes(report, before, finding)) for finding in to_do(report)]


def _notes(report: Report, before: Report | None, finding: Finding) -> list[str]:
    record = next(check for check in report["checks"] if check["id"] == finding.names[0])
    follows = [name for cause in finding.names for name in consequences(report["checks"], cause)]
    found = done_by(finding.names[0], finding.action, record.get("remedy", ""))
    found = [*found, since(finding.names[0], report, before)]
    more = "1 more finding is" if len(follows) == 1 else f"{len(follows)} more findings are"
    return found + ([f"{more} because of this"] if follows else [])
