# SPDX-License-Identifier: Apache-2.0
"""All checks in the order of a report, and the one way to run them."""

from . import checks_gpu, checks_smoke, checks_software
from .verdict import judge

CHECKS = checks_gpu.CHECKS + checks_software.CHECKS + checks_smoke.CHECKS


def run_checks(readings, expectations, smoke=None, checks=CHECKS):
    """The records of the report, one for each check, in the order of `checks`; never raises.

    `smoke` is the result of the smoke test, None when there was none.
    """
    if smoke is None:
        smoke = {"unreadable": "no smoke test was run"}
    return [judge(check, dict(readings, smoke=smoke), expectations) for check in checks]
