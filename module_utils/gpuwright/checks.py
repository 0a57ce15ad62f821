# SPDX-License-Identifier: Apache-2.0
"""All checks in the order of a report, and the one way to run them."""

from . import checks_driver, checks_gpu, checks_kernel, checks_smoke, checks_software
from .checks_smoke import smoke_record
from .verdict import judge

CHECKS = checks_gpu.CHECKS + checks_driver.CHECKS + checks_kernel.CHECKS + checks_software.CHECKS + checks_smoke.CHECKS


def run_checks(readings, expectations, smoke=None, checks=CHECKS):
    """The records of the report, one for each check, in the order of `checks`; never raises.

    `smoke` is what amp_smoke_test returned, None when it was not run.
    """
    return [judge(check, dict(readings, smoke=smoke_record(smoke)), expectations) for check in checks]
