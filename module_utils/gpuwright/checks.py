# SPDX-License-Identifier: Apache-2.0
"""All checks in the order of a report, and the one way to run them."""

from . import (
    checks_containers,
    checks_driver,
    checks_gpu,
    checks_health,
    checks_host,
    checks_kernel,
    checks_smoke,
    checks_software,
    checks_tuning,
)
from .checks_smoke import smoke_record
from .verdict import QUICK, STANDARD, judge, within

IN_SECONDS = (
    checks_gpu.CHECKS
    + checks_health.CHECKS
    + checks_driver.CHECKS
    + checks_host.CHECKS
    + checks_tuning.CHECKS
    + checks_containers.CHECKS
    + checks_kernel.CHECKS
)
CHECKS = tuple(check._replace(level=QUICK) for check in IN_SECONDS) + checks_software.CHECKS + checks_smoke.CHECKS


def run_checks(readings, expectations, smoke=None, checks=CHECKS, level=STANDARD):
    """The records of the report, one for each check of `level` or a quicker one, in the order of `checks`.

    `smoke` is what amp_smoke_test returned, None when it was not run. Never raises.
    """
    seen = dict(readings, smoke=smoke_record(smoke))
    return [judge(check, seen, expectations) for check in checks if check.level in within(level)]
