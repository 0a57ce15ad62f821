# SPDX-License-Identifier: Apache-2.0
"""How much CPU time the control groups around this process allow.

CPU sets and memory nodes of a cgroup need not be read here: sched_getaffinity(2) and Mems_allowed_list already give
what the kernel lets this process use. Only the quota (cpu.max, cpu.cfs_quota_us) is visible nowhere else.
Sources: Linux Documentation/admin-guide/cgroup-v2.rst, Documentation/scheduler/sched-bwc.rst, cgroups(7).
"""

import os

from .files import exists, read_text, to_int

# Importing typing would take a third of gpu-run's start time: its names are only for the type checker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

UNIFIED = "/sys/fs/cgroup"
# Where systemd, Docker and Kubernetes mount the CPU controller of version 1.
LEGACY = ("/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu")


def cpu_quota(root: str = "/") -> "Optional[float]":
    """CPU time, in CPUs, that the tightest cgroup around this process allows; None if nothing limits it."""
    limits: "List[Optional[float]]" = []
    for line in (read_text(root, "/proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            limits += [_unified_limit(root, folder) for folder in _upwards(UNIFIED, path)]
        elif "cpu" in controllers.split(","):
            mount = next((folder for folder in LEGACY if exists(root, folder)), LEGACY[0])
            limits += [_legacy_limit(root, folder) for folder in _upwards(mount, path)]
    return min((limit for limit in limits if limit), default=None)


def _upwards(mount: str, path: str) -> "List[str]":
    """Folders of a cgroup and of all above it; in a container, the inner ones may not exist, and read as empty."""
    path = os.path.normpath("/" + path.strip("/"))
    folders = [mount]
    while path not in ("/", "//"):
        folders.append(mount + path)
        path = os.path.dirname(path)
    return folders


def _unified_limit(root: str, folder: str) -> "Optional[float]":
    words = (read_text(root, folder + "/cpu.max") or "").split()
    return _ratio(words[0], words[1]) if len(words) == 2 else None


def _legacy_limit(root: str, folder: str) -> "Optional[float]":
    return _ratio(read_text(root, folder + "/cpu.cfs_quota_us"), read_text(root, folder + "/cpu.cfs_period_us"))


def _ratio(quota: "Optional[str]", period: "Optional[str]") -> "Optional[float]":
    """Quota over period as CPUs; None for "max", for -1 and for anything that is not a number."""
    allowed, each = to_int(quota), to_int(period)
    return allowed / each if allowed and each and allowed > 0 and each > 0 else None
