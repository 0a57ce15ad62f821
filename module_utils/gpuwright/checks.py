# SPDX-License-Identifier: Apache-2.0
"""All checks in the order of a report, and the one way to run them."""

from . import (
    checks_bus,
    checks_clocks,
    checks_containers,
    checks_driver,
    checks_framework,
    checks_gpu,
    checks_host,
    checks_identity,
    checks_isolation,
    checks_kernel,
    checks_links,
    checks_memory,
    checks_modules,
    checks_packages,
    checks_performance,
    checks_power,
    checks_services,
    checks_size,
    checks_smoke,
    checks_software,
    checks_storage,
    checks_tuning,
)
from .checks_smoke import smoke_record
from .verdict import STANDARD, judge, within

MODULES = (
    checks_gpu,
    checks_identity,
    checks_memory,
    checks_power,
    checks_clocks,
    checks_bus,
    checks_driver,
    checks_modules,
    checks_packages,
    checks_host,
    checks_size,
    checks_tuning,
    checks_containers,
    checks_kernel,
    checks_links,
    checks_isolation,
    checks_storage,
    checks_services,
    checks_software,
    checks_framework,
    checks_smoke,
    checks_performance,
)
CHECKS = tuple(check for module in MODULES for check in module.CHECKS)


def run_checks(readings, expectations, smoke=None, checks=CHECKS, level=STANDARD):
    """The records of the report, one for each check of `level` or a quicker one, in the order of `checks`.

    `smoke` is what amp_smoke_test returned, None when it was not run. Never raises.
    """
    seen = dict(readings, smoke=smoke_record(smoke))
    return [judge(check, seen, expectations) for check in checks if check.level in within(level)]
