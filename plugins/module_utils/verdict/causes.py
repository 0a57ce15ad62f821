# SPDX-License-Identifier: Apache-2.0
"""Which check's failure explains which others, as data: a verdict names the first cause and folds what follows from it.

Findings are known by their codes and items, never by their words. A finding is folded only if a cause explains each of
its items, and a wrong result, such as a matrix product that is not right, is in no row.
"""

import fnmatch
from typing import Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from .check import FAIL, SEVERITY, UNKNOWN, UNNAMED, UNREADABLE, WARN
from .report import BY_ROOT

BAD = (FAIL, UNKNOWN, WARN)
FAILED = (FAIL,)
DOUBTFUL = (UNKNOWN,)
NOT_GOOD = (FAIL, UNKNOWN)
# What a row's `items` may be, besides patterns: those of the cause itself, or all that the finding names.
SAME = ("=",)
ANY = ("*",)
# Why the driver does not answer, if no module is loaded, or none that drives a card.
NO_MODULE = ("driver.reachable:driver-not-loaded", "driver.reachable:no-devices")
# Nothing was measured, read or compared, since the driver does not answer.
SILENT = ("*:silent", "gpu.nvlink*:not-listed", "performance.*:not-measured", "performance.*:too-few")
# The driver does not show its cards, so neither does CUDA.
ON_CUDA = (
    "framework.cuda_build:no-gpu",
    "framework.architectures:no-gpu",
    "framework.architectures:not-listed",
    "framework.matrix_product:too-few",
    "framework.matrix_product:failed",
    "framework.tensorflow:too-few",
    "smoke.amp:no-gpu",
    "smoke.amp:too-few",
    "smoke.parallel:too-few",
    "smoke.parallel:not-run",
)
NO_ROOM = ("smoke.amp:no-room", "smoke.compile:full", "smoke.compile:cache")
NO_IMPORT = ("framework.*:cannot-import", "model.trainer_installed:cannot-import")
NO_TRAINING = ("smoke.amp:cannot-import", "smoke.amp:cannot-start", "smoke.amp:no-trainer")
# The smoke test has no result of its own for these.
NO_RESULT = ("smoke.*:no-device", "smoke.*:not-run", "smoke.*:nothing-compiled", "smoke.*:not-tried")
OF_THE_LOG = ("kernel.*:log-late", "kernel.*:log-empty", "kernel.*:log-cut")
OF_ANY = "*:" + UNREADABLE
# Codes that mean one and the same, whichever check has them.
SHARED = (UNREADABLE, "silent", "no-user", "log-late", "log-empty", "log-cut")


class Cause(NamedTuple):
    """A row: while the check `cause` is in one of `when`, it explains each of `effects` in one of `statuses`.

    cause    the id of a check, or "id:code"
    effects  patterns of "id:code"
    items    which of the finding's items it explains: SAME, ANY, or patterns of their names
    """

    cause: str
    effects: Tuple[str, ...]
    items: Tuple[str, ...] = SAME
    statuses: Tuple[str, ...] = BAD
    when: Tuple[str, ...] = FAILED


# If a finding has several rows, the first one counts, so deeper causes come first.
CAUSES = (
    Cause("kernel.log_whole:log-*", OF_THE_LOG, ANY, (WARN, UNKNOWN), (WARN, UNKNOWN)),
    Cause("host.disks", ("kernel.nvme:happened", "kernel.filesystem:happened")),
    Cause("kernel.filesystem", ("host.writable:read-only",), ANY),
    Cause("host.writable", NO_ROOM, ANY),
    Cause("host.disk_space", NO_ROOM, ANY),
    Cause("kernel.gpu_lost", ("kernel.xid:lost",)),
    # A card that does not answer blocks the programs that ask it; only its reset or a reboot frees them.
    Cause("kernel.gpu_lost", ("host.blocked_tasks:hanging",), ANY),
    Cause("kernel.xid", ("host.blocked_tasks:hanging",), ANY),
    Cause("driver.reachable", ("host.blocked_tasks:hanging",), ("nvidia-smi",)),
    Cause("kernel.gpu_lost", ("driver.reachable:gpu-lost", "driver.reachable:no-devices")),
    Cause("kernel.gpu_lost", ("gpu.count:none", "gpu.count:absent", "gpu.count:not-shown", "gpu.count:too-few")),
    Cause("kernel.gpu_lost", ("gpu.count:silent",), ANY, DOUBTFUL),
    Cause("kernel.xid", ("driver.reachable:gpu-lost",)),
    Cause("kernel.xid", ("driver.reachable:timeout",), ANY),
    Cause("gpu.count", ("gpu.plan:not-all-here",)),
    Cause("gpu.count:none", ("gpu.*:no-gpu", "driver.nouveau_absent:no-gpu", "secure_boot:no-gpu"), ANY),
    Cause("gpu.count", ("driver.reachable:no-devices",)),
    Cause("gpu.count:none", ("driver.persistence:not-running", "driver.persistence:off"), ANY),
    Cause("gpu.count", ("driver.device_nodes:none", "driver.device_nodes:too-few")),
    Cause("gpu.count", ("containers.*:too-few", "containers.device_links:no-nodes")),
    Cause("gpu.count", ("gpu.iommu:too-few", "gpu.acs:too-few", "gpu.topology:too-few", "gpu.nvlink*:not-listed")),
    Cause("gpu.count", ON_CUDA),
    Cause("gpu.plan", (OF_ANY,), ("expectations.plan", "expectations.plan.*"), DOUBTFUL),
    Cause("driver.nouveau_absent", ("gpu.bound_driver:nouveau",), ANY),
    Cause("driver.nouveau_absent", NO_MODULE, ANY),
    Cause("secure_boot", NO_MODULE + ("driver.module_signer:*",), ANY),
    Cause("driver.module_signer", NO_MODULE, ANY),
    Cause(
        "driver.packages", ("driver.module_matches_user_space:mixed-versions", "driver.libraries:other-version"), ANY
    ),
    Cause("driver.module_matches_user_space", ("driver.reachable:version-mismatch",), ANY),
    Cause("driver.module_matches_user_space", ("driver.libraries:other-version",), ANY),
    Cause("driver.module_matches_user_space", ("reboot.pending:pending",), ("other-module", "other-libraries")),
    Cause("driver.module_matches_user_space:mixed-versions", ("driver.module_for_next_kernel:mixed-versions",), ANY),
    Cause("driver.module_matches_user_space:no-user-space", ("driver.module_for_next_kernel:no-user-space",), ANY),
    Cause("driver.reachable", ("driver.*:not-loaded", "containers.gpu:not-loaded", "gpu.bound_driver:unbound"), ANY),
    Cause("driver.reachable", ("driver.device_nodes:none", "driver.device_nodes:missing"), ANY),
    Cause("driver.reachable", ("driver.persistence:*",), ANY, (WARN,)),
    Cause(
        "driver.reachable", ("reboot.pending:pending",), ("nouveau", "not-loaded", "other-module", "other-libraries")
    ),
    Cause("driver.reachable", SILENT, ANY, DOUBTFUL, NOT_GOOD),
    Cause("driver.reachable", ("containers.device_links:no-nodes",), ANY, DOUBTFUL, NOT_GOOD),
    Cause("driver.reachable", (OF_ANY,), ("readings.nvlink*", "readings.gpu_ways*"), DOUBTFUL, NOT_GOOD),
    Cause("driver.reachable", ON_CUDA, SAME, NOT_GOOD),
    Cause("driver.reachable", ("framework.cuda_build:kept-away",), ANY, DOUBTFUL, DOUBTFUL),
    Cause("driver.persistence", ("gpu.power_limit:*", "gpu.clocks:*"), SAME, (WARN,), (WARN,)),
    Cause("driver.persistence", ("host.tuning:different",), ("gpu_*",), (WARN,), (WARN,)),
    Cause("driver.uvm", ("driver.device_nodes:missing",), ("/dev/nvidia-uvm",)),
    Cause("driver.uvm", ON_CUDA, ANY, NOT_GOOD),
    Cause("driver.device_nodes", ("containers.*:too-few", "containers.device_links:no-nodes")),
    Cause("driver.device_nodes:none", ON_CUDA, ANY, NOT_GOOD),
    Cause("driver.device_nodes:missing", ON_CUDA, ANY, NOT_GOOD),
    Cause("driver.device_nodes:shared-not-usable", ON_CUDA, ANY, NOT_GOOD),
    Cause("driver.device_nodes", ON_CUDA, SAME, NOT_GOOD),
    Cause("driver.libraries", ON_CUDA, ANY, NOT_GOOD),
    Cause("driver.nvidia_smi_file", ("driver.reachable:not-installed", "driver.reachable:failed"), ANY),
    Cause("runtime.launcher:missing", ("model.permissions:missing",), ("/usr/local/bin/gpu-run",)),
    Cause("cuda.version:missing", ("cuda.link:missing", "cuda.link:dangling")),
    Cause("host.training_user:missing", ("*:no-user",), ANY),
    Cause("framework.files", NO_IMPORT + NO_TRAINING + ("framework.*:no-environment", "framework.*:no-stamp"), ANY),
    Cause("framework.files", ("model.trainer_installed:no-environment",), ANY),
    Cause("framework.files", (OF_ANY,), ("readings.venv*", "readings.stamp*"), DOUBTFUL),
    # Without any of them nothing could be trained, and the test was not even begun.
    Cause("host.training_user:missing", (OF_ANY,), ("readings.smoke*",), DOUBTFUL),
    Cause("framework.files", (OF_ANY,), ("readings.smoke*",), DOUBTFUL),
    Cause("framework.imports", (OF_ANY,), ("readings.smoke*",), DOUBTFUL),
    Cause("model.trainer_installed", (OF_ANY,), ("readings.smoke*",), DOUBTFUL),
    Cause("framework.imports", ("model.trainer_installed:cannot-import", *NO_TRAINING), ANY),
    Cause("framework.imports", (OF_ANY,), ("readings.venv*",), DOUBTFUL),
    Cause("framework.cuda_build:no-gpu", ON_CUDA, SAME, NOT_GOOD),
    Cause("model.trainer_installed", NO_TRAINING, ANY),
    Cause("smoke.amp", NO_RESULT, ANY, DOUBTFUL, NOT_GOOD),
    Cause("smoke.amp", (OF_ANY,), ("readings.smoke*",), DOUBTFUL, NOT_GOOD),
)


def status_of(record: Dict) -> str:
    """The status before somebody accepted the finding: an acknowledged failure still explains what follows from it."""
    waived = record.get("waived")
    return waived.get("status", record["status"]) if isinstance(waived, dict) else record["status"]


def _named(record: Dict) -> str:
    """ "id:code"; a record of an earlier release has no code, and then nothing is known of its reason."""
    return f"{record['id']}:{record.get('code') or ''}"


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def explains(row: Cause, record: Dict) -> bool:
    """Whether the row is about this record; its items, and whether its cause is bad, are not looked at here."""
    if record["id"] == row.cause.partition(":")[0] or record["status"] not in row.statuses or not record.get("code"):
        return False
    return _matches(_named(record), row.effects)


def _holds(row: Cause, causes: Dict[str, Dict]) -> bool:
    """Whether the row's cause is among these records and bad for a reason that the row means."""
    name, _colon, code = row.cause.partition(":")
    record = causes.get(name)
    if record is None or status_of(record) not in row.when:
        return False
    return not code or fnmatch.fnmatchcase(record.get("code") or "", code)


def explained(record: Dict, rows: List[Cause], causes: Dict[str, Dict]) -> bool:
    """Whether these rows together explain each item of the record.

    A thing that cannot be named is explained by one of the cause's that no other thing needs.
    """
    items = list(record.get("items") or [])
    named: Set[str] = set()
    unknown = 0
    for row in rows:
        own = list(causes[row.cause.partition(":")[0]].get("items") or [])
        if row.items != SAME:
            items = [item for item in items if not _matches(item, row.items)]
        elif not own:
            return True
        else:
            named |= set(own) - {UNNAMED}
            unknown = max(unknown, own.count(UNNAMED))
    left = [item for item in items if item not in named]
    free = len(named - set(items)) + unknown
    return all(item == UNNAMED for item in left) and len(left) <= free


def first_causes(records: List[Dict]) -> Dict[str, str]:
    """`{id: id of its first cause}` for the records that follow from another one."""
    by_id = {record["id"]: record for record in records}
    held = [row for row in CAUSES if _holds(row, by_id)]
    next_cause: Dict[str, str] = {}
    for record in records:
        if record["status"] not in BAD:
            continue
        rows = [(row.cause.partition(":")[0], row) for row in held if explains(row, record)]
        # A cause that is itself explained by this check would make a circle.
        rows = [(cause, row) for cause, row in rows if record["id"] not in _chain(cause, next_cause)]
        if rows and explained(record, [row for _cause, row in rows], by_id):
            next_cause[record["id"]] = rows[0][0]
    rank = {record["id"]: SEVERITY.index(record["status"]) for record in records if record["status"] in SEVERITY}
    first = {name: _chain(name, next_cause)[-1] for name in next_cause}
    # A finding that is worse than its cause, for example an acknowledged one, decides the verdict and is reported
    # itself.
    return {name: cause for name, cause in first.items() if rank[name] >= rank[cause]}


def _chain(name: str, next_cause: Dict[str, str]) -> List[str]:
    """The ids from `name` to its first cause."""
    chain = [name]
    while chain[-1] in next_cause and next_cause[chain[-1]] not in chain:
        chain.append(next_cause[chain[-1]])
    return chain


def with_causes(records: List[Dict]) -> List[Dict]:
    """The records; those that follow from another one have its id as `caused_by`."""
    causes = first_causes(records)
    return [dict(record, caused_by=causes[record["id"]]) if record["id"] in causes else record for record in records]


def consequences(records: List[Dict], name: str) -> List[str]:
    """Ids of what follows from the check `name`, in the order of the records."""
    return [record["id"] for record in records if record.get("caused_by") == name]


def one_reason(record: Dict) -> Tuple:
    """The same for findings that are told once, such as those about one reading that nobody may read.

    A record of an earlier release has no code: what has the same words is then one.
    """
    code = record.get("code")
    if not code:
        return record["status"], record["message"], record["action"]
    # Any other code means something else in each check.
    what = tuple(record["items"]) if code in SHARED else record["id"]
    return record["status"], code, what, record["action"]


def own_findings(records: List[Dict]) -> List[Dict]:
    """The records that are bad for their own reason; one whose cause is not among the records counts as such."""
    names = {record["id"] for record in records if record["status"] in BAD}
    return [r for r in records if r["status"] in BAD and r.get("caused_by") not in names]


def first_finding(checks: List[Dict], verdict: str) -> Optional[Dict]:
    """The first cause of the verdict, None if nothing is bad; an accepted failure is no cause."""
    own = own_findings(checks)
    fitting = [check for check in own if check["status"] == verdict]
    accepted = [check for check in fitting if (check.get("waived") or {}).get("by") == BY_ROOT and verdict != FAIL]
    return next((check for check in fitting if check not in accepted), fitting[0] if fitting else None)
