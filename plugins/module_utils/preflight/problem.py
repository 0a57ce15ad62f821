# SPDX-License-Identifier: Apache-2.0
"""One row of the table that preflight prints."""


def problem(what, evidence, next_step, stops=True):
    """One row of the table: sentences; `stops` is False for a remark."""
    return {"problem": what, "evidence": evidence, "next": next_step, "stops": stops}
