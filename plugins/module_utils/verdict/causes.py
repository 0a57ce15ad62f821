# SPDX-License-Identifier: Apache-2.0
"""Which check's failure explains which others, as data: a verdict names the first cause and folds what follows from it.

A row applies only if the words of the explained check match, so that an independent finding is never hidden.
"""

import fnmatch
import re
from typing import Dict, List, NamedTuple, Tuple

from .check import FAIL, SEVERITY, UNKNOWN, WARN

BAD = (FAIL, UNKNOWN, WARN)
FAILED = (FAIL,)
DOUBTFUL = (UNKNOWN,)
NOT_GOOD = (FAIL, UNKNOWN)
# No answer: checks that ask the driver, or need a GPU to run, say no more than that.
SILENT = r"the driver cannot be queried|on the PCI bus, but|There is no answer|nvlink|could not be measured"
# Also for a smoke test, unless it ran and computed wrongly.
NO_CUDA = (
    r"^(?!.*(?i:finite|differ|slower|loss)).*"
    r"(?:finds no GPU|only where it finds a GPU|shows \d+ of|architecture and one GPU|(?i:cuda|nvidia|gpu|devices))"
)
NO_SMOKE = r"smoke|architecture and one GPU|no training over all GPUs"
NO_USER = r"there is no user|no local user"
NO_ROOM = r"(?i)no space|errno 28|errno 30|read-only file system|disk quota|smoke"
NOT_LOADED = r"no nvidia module is loaded|is not loaded|0 of \d+ /dev/nvidia|nvidia-persistenced is|has none|has no "
ON_CUDA = ("framework.cuda_build", "framework.architectures", "framework.matrix_product", "smoke.*")
OF_THE_LOG = r"does not reach back to the boot|longer than what is read|log is empty"
OF_DRIVER = ("gpu.*", "driver.*", "containers.*", "performance.*", "reboot.pending")


class Cause(NamedTuple):
    """A row: while `cause` is in one of `when`, it explains each of `effects` (patterns of ids) that is in one of
    `statuses` and whose message has `words` (a regular expression)."""

    cause: str
    effects: Tuple[str, ...]
    words: str = ""
    statuses: Tuple[str, ...] = BAD
    when: Tuple[str, ...] = FAILED


# If a check has several rows, the first one counts, so deeper causes come first.
CAUSES = (
    Cause("kernel.log_whole", ("kernel.*",), OF_THE_LOG, (WARN, UNKNOWN), (WARN, UNKNOWN)),
    Cause("host.disks", ("kernel.nvme", "kernel.filesystem"), "nvme|sd[a-z]"),
    Cause("kernel.filesystem", ("host.writable",), "read-only"),
    Cause("host.writable", ("smoke.*", "model.limits"), NO_ROOM),
    Cause("host.disk_space", ("smoke.*", "model.limits"), NO_ROOM),
    Cause("kernel.gpu_lost", ("kernel.xid",), "fallen off the bus"),
    # A card that does not answer blocks the programs that ask it; only its reset or a reboot frees them.
    Cause("kernel.gpu_lost", ("host.blocked_tasks",)),
    Cause("kernel.xid", ("host.blocked_tasks",)),
    Cause("driver.reachable", ("host.blocked_tasks",), "sleep: nvidia-smi$"),
    Cause("kernel.gpu_lost", ("driver.reachable", "gpu.count"), "(?i)lost|no devices|does not show|on the PCI bus"),
    Cause("kernel.xid", ("driver.reachable",), "(?i)lost|did not answer"),
    Cause("gpu.count", ("gpu.plan",)),
    Cause("gpu.count", ("gpu.model", "gpu.bound_driver", "gpu.numa", "driver.nouveau_absent"), "no GPU|no NUMA node"),
    Cause("gpu.count", ("driver.reachable",), "(?i)no devices"),
    Cause("gpu.count", ("driver.persistence",), "", (WARN, UNKNOWN)),
    Cause("gpu.count", ("driver.device_nodes", "containers.*"), r"\d+ of \d+|nodes are missing"),
    Cause("gpu.count", ("gpu.iommu", "gpu.acs", "gpu.topology", "gpu.nvlink*"), "GPUs were looked at|no card"),
    Cause("gpu.count", ON_CUDA, NO_CUDA + r"|ran (on|over) \d+ of|no GPU|no training over"),
    Cause("gpu.plan", ("*",), r"expectations\.plan", DOUBTFUL),
    Cause("driver.nouveau_absent", ("gpu.bound_driver",), "nouveau"),
    Cause("driver.nouveau_absent", ("driver.reachable",), "(?i)not loaded|no devices|communicate"),
    Cause("secure_boot", ("driver.reachable", "driver.module_signer"), "(?i)not loaded|communicate|sign|key"),
    Cause("driver.module_signer", ("driver.reachable",), "(?i)not loaded|communicate"),
    Cause("driver.packages", ("driver.module_matches_user_space", "driver.libraries"), "libraries|instead|is [0-9]"),
    Cause("driver.module_matches_user_space", ("driver.reachable",), "(?i)mismatch"),
    Cause("driver.module_matches_user_space", ("driver.libraries", "reboot.pending"), "the module|reboot required"),
    Cause("driver.module_matches_user_space", ("driver.module_for_next_kernel",), "instead of|is not installed"),
    Cause("driver.reachable", ("driver.*", "gpu.bound_driver", "containers.gpu", "reboot.pending"), NOT_LOADED),
    Cause("driver.reachable", OF_DRIVER, SILENT, DOUBTFUL, NOT_GOOD),
    Cause("driver.reachable", ("driver.persistence",), "", (WARN,)),
    Cause("driver.reachable", ON_CUDA, NO_CUDA, NOT_GOOD),
    Cause("driver.reachable", ("framework.cuda_build",), "has no GPU", DOUBTFUL, DOUBTFUL),
    Cause("driver.persistence", ("gpu.power_limit", "gpu.clocks", "host.tuning"), "", BAD, (WARN,)),
    Cause("driver.uvm", ("driver.device_nodes",), "nvidia-uvm"),
    Cause("driver.uvm", ON_CUDA, NO_CUDA, NOT_GOOD),
    Cause("driver.device_nodes", ("containers.*",), "nodes are missing|device"),
    Cause("driver.device_nodes", ON_CUDA, NO_CUDA, NOT_GOOD),
    Cause("driver.libraries", ON_CUDA, NO_CUDA, NOT_GOOD),
    Cause("driver.nvidia_smi_file", ("driver.reachable",), "not installed|not executable"),
    Cause("runtime.launcher", ("model.permissions",), "^missing: /usr/local/bin/gpu-run$"),
    Cause("cuda.version", ("cuda.link",), "there is no|is a dangling link"),
    Cause("host.training_user", ("*",), NO_USER),
    Cause("host.training_user", ("smoke.*", "model.limits"), NO_USER + "|smoke"),
    Cause(
        "framework.files", ("framework.*", "model.trainer_installed"), "no venv|import |readings.venv|stamp|expectat"
    ),
    Cause("framework.files", ("smoke.*", "model.limits"), "import|torch|No module|venv|" + NO_SMOKE),
    Cause("framework.imports", ("framework.*", "model.trainer_installed"), "import |readings.venv"),
    Cause("framework.imports", ("smoke.*", "model.limits"), "import|torch|No module|venv|" + NO_SMOKE),
    Cause("model.trainer_installed", ("smoke.*", "model.limits"), "gan_trainer|No module|" + NO_SMOKE),
    Cause("smoke.amp", ("smoke.*", "model.limits"), NO_SMOKE + "|readings.smoke", DOUBTFUL, NOT_GOOD),
)


def status_of(record: Dict) -> str:
    """The status before somebody accepted the finding: an acknowledged failure still explains what follows from it."""
    waived = record.get("waived")
    return waived.get("status", record["status"]) if isinstance(waived, dict) else record["status"]


def explains(row: Cause, record: Dict) -> bool:
    """Whether the row applies to this record; whether its cause is bad is not checked here."""
    if record["id"] == row.cause or record["status"] not in row.statuses:
        return False
    if not any(fnmatch.fnmatchcase(record["id"], pattern) for pattern in row.effects):
        return False
    return re.search(row.words, record["message"]) is not None


def first_causes(records: List[Dict]) -> Dict[str, str]:
    """`{id: id of its first cause}` for the records that follow from another one."""
    status = {record["id"]: status_of(record) for record in records}
    next_cause: Dict[str, str] = {}
    for record in records:
        if record["status"] not in BAD:
            continue
        rows = (row for row in CAUSES if status.get(row.cause) in row.when and explains(row, record))
        # A cause that is itself explained by this check would make a circle.
        cause = next((row.cause for row in rows if record["id"] not in _chain(row.cause, next_cause)), None)
        if cause is not None:
            next_cause[record["id"]] = cause
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


def own_findings(records: List[Dict]) -> List[Dict]:
    """The records that are bad for their own reason; one whose cause is not among the records counts as such."""
    names = {record["id"] for record in records if record["status"] in BAD}
    return [r for r in records if r["status"] in BAD and r.get("caused_by") not in names]
