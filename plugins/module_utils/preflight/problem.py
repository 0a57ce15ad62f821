# SPDX-License-Identifier: Apache-2.0
"""One row of the table that preflight prints."""

from typing import Any, Dict

# {problem, evidence, next, stops}: a row for an obstacle, or a remark; docs/parts/preflight.md.
Problem = Dict[str, Any]


def problem(what: str, evidence: str, next_step: str, stops: bool = True) -> Problem:
    """One row of the table: sentences; `stops` is False for a remark."""
    return {"problem": what, "evidence": evidence, "next": next_step, "stops": stops}
