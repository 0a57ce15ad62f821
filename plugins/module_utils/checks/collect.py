# SPDX-License-Identifier: Apache-2.0
"""Everything that the checks use, read once; a failure is `{"unreadable": "why"}` and never an exception."""

import re
from typing import Any, Dict, Mapping, Optional

from ..gpu.nvidia_smi.query import DEFAULT_TIMEOUT_SECONDS, query
from ..gpu.xid.overrides import read_overrides
from ..host.access import read_account, read_device_access, read_device_links
from ..host.as_user import NoUser
from ..host.bounded import run_bounded
from ..probe.host import ask, probe
from ..probe.module_signature import read_enforced, read_enrolled_keys, read_kernel_keys, read_module_signature
from ..readings.attempt import attempt, for_root
from ..readings.confinement import read_confinement
from ..readings.host import HOST_READERS, read_driver_files, read_switches
from ..readings.kernel_log.log import read_kernel_log
from ..readings.software import read_venv, who_computes
from ..training.environment_files import read_environment
from ..training.performance import read_performance
from ..tuning.reading import read_tuning
from ..verdict.boot_check import read_moment
from ..verdict.check import DEEP, QUICK, STANDARD
from ..verdict.reader import Seen
from ..verdict.report import Record
from .all import READERS
from .collect_standard import NOTHING, collect_links, collect_software, read_packages, read_permissions
from .cuda.compiling import COMPILING
from .gpu.strikes_kept import read_strikes
from .host.held_updates import HELD_UPDATES
from .runtime.ranks_reading import read_running
from .waivers.acknowledgements import read_acknowledgements

SYSTEMCTL_SECONDS = 10
# Level quick promises an answer within 5 s, even if nvidia-smi hangs.
QUICK_NVIDIA_SMI_SECONDS = 3


def collect(
    expectations: Record,
    root: str = "/",
    nvidia_smi_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    level: str = STANDARD,
    ahead: Mapping[str, Any] = NOTHING,
) -> Dict[str, Any]:
    """Read the node below `root`. `expectations` (see docs/parts/report.md) says where to look, not what to find.

    At level quick, the readings that take long are left out: toolkit, libraries, venv, permissions. At level deep, the
    speed of the GPUs is measured last, when no other reading uses them.

    `nvidia_smi_seconds` is how long nvidia-smi may take. Null means "it does not exist", which is a finding, not a
    failed reading. `ahead` are readings of `collect_ahead`, which are not taken again.
    """
    user = expectations["training_user"]
    host = attempt(probe, root)
    readings = {
        "probe": host,
        "nvidia_smi": attempt(query, nvidia_smi_seconds),
        "kernel_log": for_root(attempt(read_kernel_log, root)),
        "xid_policy": attempt(read_overrides, root),
        "persistenced": attempt(read_unit_state, "nvidia-persistenced"),
        "fabric_manager": attempt(read_unit_state, "nvidia-fabricmanager"),
        "fabric_manager_version": attempt(read_fabric_version),
        "switches": attempt(read_switches, root),
        "driver_files": attempt(read_driver_files, root),
        "host": {name: attempt(read, root) for name, read in HOST_READERS},
        "device_nodes": attempt(read_device_nodes, root, host, user),
        "device_links": attempt(read_links_of_nodes, root, host),
        "tuning": attempt(read_tuning, root),
        "confinement": attempt(read_confinement, root),
        "module_signature": attempt(read_signature, root, host),
        "moment": attempt(read_moment, root),
        "acknowledgements": attempt(read_acknowledgements, root),
        "strikes": attempt(read_strikes, root),
    }
    seen = Seen(root, expectations, host, readings["nvidia_smi"])
    readings.update(collect_own(seen, QUICK))
    if level == QUICK:
        return readings
    readings.update(collect_own(seen, STANDARD, ahead))
    busy = who_computes(host, readings["nvidia_smi"])
    readings.update(collect_software(expectations, root, host, busy, ahead))
    readings.update(collect_links(root, host, readings["nvidia_smi"]))
    readings["ranks"] = attempt(read_running, root, readings["nvidia_smi"])
    if level == DEEP:
        readings.update(collect_own(seen, DEEP))
        readings["environment"] = attempt(read_environment, root, expectations["venv"], True)
        readings["performance"] = attempt(read_performance, root, expectations, readings["nvidia_smi"])
    return readings


def collect_ahead(expectations: Record, root: str = "/", cards_train: bool = False) -> Dict[str, Any]:
    """The slowest readings of level standard, for a caller that has to wait for a training meanwhile.

    They are such that the training does not change them, nor they the training: where it has the cards (`cards_train`),
    nothing else touches these.
    """
    host = attempt(probe, root)
    no_cards = Seen(root, expectations, host, {"unreadable": "it is asked after the training"})
    found = {
        "environment": attempt(read_environment, root, expectations["venv"]),
        "permissions": attempt(read_permissions, root),
        "driver_packages": attempt(read_packages, root, host),
        HELD_UPDATES.name: attempt(HELD_UPDATES.read, no_cards),
        COMPILING.name: attempt(COMPILING.read, no_cards),
    }
    if not cards_train:
        busy = who_computes(host, attempt(query, DEFAULT_TIMEOUT_SECONDS))
        found["venv"] = attempt(read_venv, root, expectations["venv"], expectations["training_user"], busy)
    return found


def collect_own(seen: Seen, level: str, ahead: Mapping[str, Any] = NOTHING) -> Dict[str, Any]:
    """The readings of exactly this level that the checks themselves define, with those that were taken `ahead`."""
    names = {reader.name: reader.read for reader in READERS if reader.level == level}
    return {name: ahead[name] if name in ahead else attempt(read, seen) for name, read in names.items()}


def read_unit_state(unit: str) -> str:
    """systemd's word for the unit: active, inactive, failed, activating or unknown."""
    done = run_bounded(["systemctl", "is-active", unit], timeout=SYSTEMCTL_SECONDS)
    word = done.stdout.strip()
    if done.rc is None or not word:
        raise OSError(done.problem or f"systemctl is-active {unit} printed nothing")
    return word


def read_fabric_version() -> Optional[str]:
    """The version of the installed nv-fabricmanager, null if there is none."""
    done = run_bounded(["nv-fabricmanager", "--version"], timeout=SYSTEMCTL_SECONDS)
    if done.missing:
        return None
    match = re.search(r"version is\s*:\s*([0-9][0-9.]*)", done.stdout)
    if done.rc != 0 or not match:
        raise OSError(done.problem or f"nv-fabricmanager --version says {done.stdout.strip()[:200]!r}")
    return match.group(1)


def read_device_nodes(root: str, host: Record, user: str) -> Dict[str, Dict[str, Any]]:
    account = read_account(root, user)
    if account is None:
        raise NoUser(user)
    if "unreadable" in host:
        raise ValueError(host["unreadable"])
    return read_device_access(root, host["nvidia"]["device_nodes"], account)


def read_signature(root: str, host: Record) -> Dict[str, Any]:
    """`{enforced, file, enrolled, kernel}`; what is not needed if every module is accepted is not read."""
    if "unreadable" in host:
        raise ValueError(host["unreadable"])
    enforced = read_enforced(root)
    if host["secure_boot"] != "enabled" and not enforced:
        return {"enforced": False, "file": None, "enrolled": [], "kernel": []}
    return {
        "enforced": enforced,
        "file": attempt(read_module_signature, root, ask, host["kernel"]["next_boot"]),
        "enrolled": attempt(read_enrolled_keys, root, ask),
        "kernel": attempt(read_kernel_keys, root),
    }


def read_links_of_nodes(root: str, host: Record) -> Dict[str, bool]:
    if "unreadable" in host:
        raise ValueError(host["unreadable"])
    return read_device_links(root, host["nvidia"]["device_nodes"])
