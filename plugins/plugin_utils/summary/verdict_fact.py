# SPDX-License-Identifier: Apache-2.0
"""The fact gpu_node_verdict: a verdict with what led to it, without the checks that have nothing to say.

Ansible looks through all of a variable whenever a task names it, and a hundred checks of a hundred hosts are long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BAD = ("FAIL", "UNKNOWN")


def verdict_fact(report: Mapping[str, Any]) -> dict[str, Any]:
    """`{gpu_node_verdict: {verdict, findings}}` of a report: the checks that failed, or could not be judged."""
    findings = [check for check in report["checks"] if check["status"] in BAD]
    return {"gpu_node_verdict": {"verdict": report["verdict"], "findings": findings}}
