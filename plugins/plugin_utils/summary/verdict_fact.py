# SPDX-License-Identifier: Apache-2.0
"""The fact gpu_node_verdict: a verdict with what led to it, without the checks that have nothing to say.

Ansible looks through all of a variable whenever a task names it, and a hundred checks of a hundred hosts are long.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

BAD = ("FAIL", "UNKNOWN")


def verdict_fact(verdict: str, checks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`{gpu_node_verdict: {verdict, findings, message}}` of a verdict and its checks, or those that are findings.

    findings  the checks that failed, or could not be judged      message  the verdict with these, and what to do
    """
    findings = [check for check in checks if check["status"] in BAD]
    return {
        "gpu_node_verdict": {"verdict": verdict, "findings": findings, "message": message(verdict, findings)},
    }


def message(verdict: str, findings: Sequence[Mapping[str, Any]]) -> str:
    """Several lines: first what has no cause among the findings, then how many follow from these."""
    lines = [f"Verdict {verdict}"]
    for check in findings:
        if not check.get("caused_by"):
            lines += [f"{check['status']} {check['id']}: {check['message']}", f"  next: {check['action']}"]
    more = [str(check["id"]) for check in findings if check.get("caused_by")]
    return "\n".join([*lines, *([f"{len(more)} more because of these: {', '.join(more)}"] if more else [])])


def checks_of(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The checks of `gpu_verify` or `gpu_scan`: in the answer, or in the report that was kept on the controller."""
    found = answer.get("checks")
    if found is None and answer.get("dest"):
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(Path(str(answer["dest"])).read_text(encoding="utf-8")).get("checks")
    return [check for check in found or [] if isinstance(check, dict)]
