# SPDX-License-Identifier: Apache-2.0
"""One row of the table that preflight prints."""

from typing import Any, Dict

# {id, problem, evidence, next, stops}: a row for an obstacle, or a remark; docs/parts/preflight.md.
Problem = Dict[str, Any]


def problem(fault: str, what: str, evidence: str, next_step: str, stops: bool = True) -> Problem:
    """One row of the table: the fault's id (docs/faults.md) and sentences; `stops` is False for a remark."""
    return {"id": fault, "problem": what, "evidence": evidence, "next": next_step, "stops": stops}
