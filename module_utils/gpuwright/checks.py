# SPDX-License-Identifier: Apache-2.0
"""All checks in the order of a report, and the one way to run them."""

from . import (
    checks_bus,
    checks_clocks,
    checks_containers,
    checks_driver,
    checks_environment,
    checks_fabric,
    checks_framework,
    checks_gpu,
    checks_heat,
    checks_host,
    checks_identity,
    checks_isolation,
    checks_kernel,
    checks_links,
    checks_memory,
    checks_modules,
    checks_next_boot,
    checks_packages,
    checks_performance,
    checks_power,
    checks_repair,
    checks_services,
    checks_size,
    checks_smoke,
    checks_software,
    checks_space,
    checks_storage,
    checks_strikes,
    checks_tuning,
    checks_waivers,
    checks_xid,
)
from .checks_smoke import smoke_record
from .strikes import counted
from .verdict.causes import with_causes
from .verdict.check import STANDARD, within
from .waivers import run_with_waivers

MODULES = (
    checks_gpu,
    checks_identity,
    checks_memory,
    checks_repair,
    checks_heat,
    checks_power,
    checks_clocks,
    checks_bus,
    checks_fabric,
    checks_driver,
    checks_next_boot,
    checks_modules,
    checks_packages,
    checks_host,
    checks_space,
    checks_size,
    checks_tuning,
    checks_containers,
    checks_xid,
    checks_kernel,
    checks_links,
    checks_isolation,
    checks_storage,
    checks_services,
    checks_software,
    checks_environment,
    checks_framework,
    checks_smoke,
    checks_performance,
    checks_strikes,
    checks_waivers,
)
CHECKS = tuple(check for module in MODULES for check in module.CHECKS)


def run_checks(readings, expectations, smoke=None, checks=CHECKS, level=STANDARD):
    """The records of the report, one for each check of `level` or a quicker one, in the order of `checks`.

    `smoke` is what amp_smoke_test returned, None when it was not run. Acknowledgements and switched-off checks are
    applied (see `waivers`), and the strikes of this moment are counted before they are judged. Never raises.
    """
    seen = dict(readings, smoke=smoke_record(smoke))
    asked = [check for check in checks if check.level in within(level)]
    first = [check for check in asked if check.id != checks_strikes.STRIKES]
    records = run_with_waivers(first, CHECKS, seen, expectations)
    seen["strikes"] = counted(readings, expectations, records)
    by_id = {record["id"]: record for record in records}
    last = [check for check in asked if check.id not in by_id]
    by_id.update((record["id"], record) for record in run_with_waivers(last, CHECKS, seen, expectations))
    return with_causes([by_id[check.id] for check in asked])
