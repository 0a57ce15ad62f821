# SPDX-License-Identifier: Apache-2.0
"""Readings of level quick that several families of checks use, and those that wait for what the others leave."""

import re
from typing import Any, Dict, Optional

from ..gpu.xid.overrides import read_overrides
from ..host.access import read_account, read_device_access
from ..host.as_user import NoUser
from ..host.bounded import run_bounded
from ..probe.host import ask
from ..probe.module_signature import read_enforced, read_enrolled_keys, read_kernel_keys, read_module_signature
from ..readings.attempt import attempt, for_root
from ..readings.confinement import read_confinement
from ..readings.host import HOST_READERS, read_switches
from ..readings.kernel_log.log import read_kernel_log
from ..tuning.reading import read_tuning
from ..verdict.boot_check import read_moment
from ..verdict.check import DEEP, QUICK
from ..verdict.reader import Reader, Seen
from ..verdict.reading_sources import by_hand
from ..verdict.report import Record
from .gpu.strikes_kept import read_strikes_and_lost
from .waivers.acknowledgements import read_acknowledgements

SYSTEMCTL_SECONDS = 10


def read_unit_state(unit: str) -> str:
    """systemd's word for the unit: active, inactive, failed, activating or unknown."""
    done = run_bounded(["systemctl", "is-active", unit], timeout=SYSTEMCTL_SECONDS)
    word = done.stdout.strip()
    if done.rc is None or not word:
        raise OSError(done.problem or f"systemctl is-active {unit} printed nothing")
    return word


def may_have_switches(seen: Seen) -> bool:
    """False where it is known that nothing of the board needs the fabric manager: then nobody is asked for it."""
    platform = seen.probe.get("platform", {"known": True, "needs": []})
    known = isinstance(platform, dict) and platform.get("known") is True and not platform.get("needs")
    return not known or attempt(read_switches, seen.root) != 0


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


READERS = (
    Reader(
        name="kernel_log",
        level=QUICK,
        read=lambda seen: for_root(attempt(read_kernel_log, seen.root)),
        source=by_hand("journalctl -k -b and dmesg", "journalctl -k -b | tail ; dmesg | tail"),
    ),
    Reader(
        name="xid_policy",
        level=QUICK,
        read=lambda seen: read_overrides(seen.root),
        source=by_hand("/etc/gpuwright/xid.yml", "cat /etc/gpuwright/xid.yml"),
    ),
    Reader(
        name="persistenced",
        level=QUICK,
        read=lambda seen: read_unit_state("nvidia-persistenced"),
        source=by_hand("systemctl is-active nvidia-persistenced", "systemctl status nvidia-persistenced"),
    ),
    Reader(
        name="fabric_manager",
        level=QUICK,
        read=lambda seen: read_unit_state("nvidia-fabricmanager") if may_have_switches(seen) else None,
        source=by_hand("systemctl is-active nvidia-fabricmanager"),
    ),
    Reader(
        name="fabric_manager_version",
        level=QUICK,
        read=lambda seen: read_fabric_version(),
        source=by_hand("nv-fabricmanager --version"),
    ),
    Reader(
        name="switches",
        level=QUICK,
        read=lambda seen: read_switches(seen.root),
        source=by_hand("/sys/bus/pci/devices", "lspci -d 10de:"),
    ),
    Reader(
        name="host",
        level=QUICK,
        read=lambda seen: {name: attempt(read, seen.root) for name, read in HOST_READERS},
        source=by_hand("/proc and /sys", "ls -l /proc/stat /proc/meminfo /sys/devices/system/cpu"),
    ),
    Reader(
        name="device_nodes",
        level=QUICK,
        read=lambda seen: read_device_nodes(seen.root, seen.probe, seen.expectations["training_user"]),
        source=by_hand("/dev/nvidia* and the trainer's account", "ls -l /dev/nvidia* ; getent passwd"),
    ),
    Reader(
        name="tuning",
        level=QUICK,
        read=lambda seen: read_tuning(seen.root),
        source=by_hand("/etc/gpuwright/tuning.json and what it sets", "gpu-tune"),
    ),
    Reader(
        name="confinement",
        level=QUICK,
        read=lambda seen: read_confinement(seen.root),
        source=by_hand("/proc/self/cgroup and /dev/nvidia*", "cat /proc/self/cgroup ; ls -l /dev/nvidia*"),
    ),
    Reader(
        name="module_signature",
        level=QUICK,
        read=lambda seen: read_signature(seen.root, seen.probe),
        source=by_hand("modinfo and mokutil", "modinfo nvidia ; mokutil --list-enrolled | head"),
    ),
    Reader(
        name="moment",
        level=QUICK,
        read=lambda seen: read_moment(seen.root),
        source=by_hand("/proc/uptime", "cat /proc/uptime /proc/sys/kernel/random/boot_id"),
    ),
    Reader(
        name="acknowledgements",
        level=QUICK,
        read=lambda seen: read_acknowledgements(seen.root),
        source=by_hand("/var/lib/gpuwright/acknowledgements.json", "gpu-doctor --acknowledgements"),
    ),
    Reader(
        name="strikes",
        level=QUICK,
        read=lambda seen: read_strikes_and_lost(seen.root),
        source=by_hand("/var/lib/gpuwright/strikes.json", "gpu-doctor --strikes"),
    ),
)


def _read_whole_environment(seen: Seen) -> Any:
    from ..training.environment_files import read_environment

    return read_environment(seen.root, seen.expectations["venv"], True)


# Its files are read, too, which takes long.
WHOLE_ENVIRONMENT = Reader(
    name="environment",
    level=DEEP,
    read=_read_whole_environment,
    source=by_hand("/opt/gpuwright/venvs/current", "ls -lL /opt/gpuwright/venvs/current"),
)


def _read_performance(seen: Seen) -> Any:
    from ..training.performance import read_performance

    return read_performance(seen.root, seen.expectations, seen.nvidia_smi)


# Last, when no other reading uses the cards.
PERFORMANCE = Reader(
    name="performance",
    level=DEEP,
    read=_read_performance,
    source=by_hand("gpu-doctor --level deep", "nvidia-smi ; gpu-doctor --level deep"),
)
