# SPDX-License-Identifier: Apache-2.0
"""All checks in the order of a report, and the one way to run them."""

from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..verdict.by_hand import Hand
from ..verdict.causes import with_causes
from ..verdict.check import STANDARD, Check, within
from ..verdict.reading_sources import SOURCES
from ..verdict.report import Record
from . import shared_readings, standard_readings
from .containers import access, resolving
from .cuda import compiling, toolkit
from .cudnn import version as cudnn
from .driver import files as driver_files
from .driver import loaded, memory_errors, modules, next_boot, packages, switches
from .framework import files, pytorch, tensorflow
from .gpu import (
    cards,
    clocks,
    dcgm,
    fabric,
    firmware,
    heat,
    identity,
    isolation,
    memory,
    mig,
    nvlink,
    pcie,
    power,
    processor,
    repair,
    strikes,
    throttling,
)
from .gpu.strikes_kept import counted
from .host import (
    disks,
    held_updates,
    infiniband,
    repositories,
    services,
    size,
    space,
    system,
    training_user,
    tuning,
)
from .kernel import log, xid
from .model import limits, trainer
from .nccl import version as nccl
from .performance import speed
from .reboot import pending
from .runtime import launcher, ranks
from .secure_boot import key
from .shared_readings import PERFORMANCE, WHOLE_ENVIRONMENT
from .site import rows as site
from .smoke import built, training
from .smoke.training import smoke_record
from .waivers import valid
from .waivers.rules import run_with_waivers

MODULES = (
    cards,
    memory_errors,
    mig,
    identity,
    firmware,
    memory,
    repair,
    heat,
    throttling,
    power,
    clocks,
    pcie,
    processor,
    fabric,
    loaded,
    next_boot,
    pending,
    key,
    modules,
    packages,
    driver_files,
    switches,
    held_updates,
    repositories,
    system,
    space,
    size,
    tuning,
    access,
    resolving,
    xid,
    log,
    nvlink,
    infiniband,
    isolation,
    disks,
    training_user,
    limits,
    services,
    toolkit,
    compiling,
    cudnn,
    nccl,
    launcher,
    ranks,
    files,
    pytorch,
    tensorflow,
    trainer,
    training,
    built,
    speed,
    dcgm,
    strikes,
    valid,
)
CHECKS: Tuple[Check, ...] = tuple(check for module in MODULES for check in module.CHECKS)
valid.KNOWN.extend(CHECKS)
# By check; only those have a row that have an action which is no command.
BY_HAND: Dict[str, Hand] = {}
for _module in MODULES:
    BY_HAND.update(getattr(_module, "BY_HAND", {}))
# All readings, each once: those that several families use, those that the checks define, and what has to wait for them.
_OWN = {reader.name: reader for check in CHECKS for reader in check.readers}
READERS = (*shared_readings.READERS, *standard_readings.READERS, *_OWN.values(), WHOLE_ENVIRONMENT, PERFORMANCE)
SOURCES.update((f"readings.{reader.name}", reader.source) for reader in READERS)


def run_checks(
    readings: Record,
    expectations: Record,
    smoke: Optional[Record] = None,
    checks: Sequence[Check] = CHECKS,
    level: str = STANDARD,
) -> List[Dict[str, Any]]:
    """The records of the report, one for each check of `level` or a quicker one, in the order of `checks`, then those
    of the site, which have no level: they are judged wherever they were asked.

    `smoke` is what amp_smoke_test returned, None if it was not run. Acknowledgements and switched-off checks are
    applied (see `waivers.rules`), and the strikes of this moment are counted before they are judged. Never raises.
    """
    seen = dict(readings, smoke=smoke_record(smoke))
    own = site.site_rows(readings)
    every = (*CHECKS, *own)
    asked = [check for check in checks if check.level in within(level)] + own
    first = [check for check in asked if check.id != strikes.STRIKES]
    records = run_with_waivers(first, every, seen, expectations)
    seen["strikes"] = counted(readings, expectations, records, CHECKS)
    by_id = {record["id"]: record for record in records}
    last = [check for check in asked if check.id not in by_id]
    by_id.update((record["id"], record) for record in run_with_waivers(last, every, seen, expectations))
    return with_causes([by_id[check.id] for check in asked])
