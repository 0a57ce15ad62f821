# SPDX-License-Identifier: Apache-2.0
"""Whether this process can see the node's GPUs at all, or a job or container hides them.

A batch job without GPUs, and a container without their device files, look like a node whose driver finds no card.
Sources: Slurm cgroup.conf (ConstrainDevices) and cgroup_v2.html, cgroups(7), Linux admin-guide/cgroup-v1/devices;
which variables Slurm sets: srun(1), prolog_epilog.html.
"""

import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ..host.files import below, names_in, read_text
from ..host.patterns import lazily
from .kernel_log.log import read_container

CGROUPS = "/proc/self/cgroup"
# File in which version 1 lists what a group may open; version 2 uses a program in the kernel that cannot be read.
DEVICES = "/sys/fs/cgroup/devices{}/devices.list"
SLURM_JOB = lazily(r"/job_([0-9]+)(?:/|$)")
# (manager, words in the path of a control group), the inner one first: Kubernetes runs its containers with other
# managers.
MANAGERS = (
    ("kubernetes", lazily(r"kubepods")),
    ("docker", lazily(r"(?:^|/)docker[/-][0-9a-f]{12,64}")),
    ("podman", lazily(r"libpod-|/libpod_parent")),
    ("containerd", lazily(r"cri-containerd-|/nerdctl|/default/[0-9a-f]{64}$")),
    ("lxc", lazily(r"(?:^|/)lxc(?:\.payload)?[./]")),
    ("pbs", lazily(r"/pbs_jobs|/pbspro")),
    ("htcondor", lazily(r"/htcondor/|condor_var")),
)
# Variables in which Slurm names the GPUs that a job, a step or a task was given.
SLURM_GPUS = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE", "GPU_DEVICE_ORDINAL")
VISIBLE = "CUDA_VISIBLE_DEVICES"
# Values with which Slurm and NVIDIA's runtime say "none".
NONE = ("", "NoDevFiles", "none", "void", "-1")
CARD = lazily(r"nvidia[0-9]+$")
# Major number of the cards (Linux admin-guide/devices.txt).
MAJOR = 195


def read_confinement(
    root: str = "/", environment: Optional[Mapping[str, str]] = None, may_open: Optional[Callable[[str], bool]] = None
) -> Dict[str, Any]:
    """`{manager, job, cards, denied, granted, hidden}`, where `manager` is null for a process that is not confined.

    manager  slurm, kubernetes, docker, podman ..., or the name of another container manager
    job      number of the Slurm job as text, "" for others
    cards    existing device files of cards; `denied`: those of them that the control group does not let it open
    granted  whether the manager says that it gave GPUs
    hidden   whether CUDA_VISIBLE_DEVICES hides all GPUs from programs
    """
    environment = os.environ if environment is None else environment
    paths = control_groups(root)
    manager, job = _manager(paths, environment)
    manager = manager or read_container(root)
    cards = ["/dev/" + name for name in names_in(root, "/dev") if CARD.match(name)]
    return {
        "manager": manager,
        "job": job,
        "cards": cards,
        "denied": [path for path in cards if _is_denied(root, path, paths, may_open or opens)] if manager else [],
        "granted": _granted(manager, environment),
        "hidden": VISIBLE in environment and environment[VISIBLE].strip() in NONE,
    }


def control_groups(root: str) -> List[Tuple[str, str]]:
    """[(controllers, path)] of this process; controllers is "" for version 2."""
    lines = [line.split(":", 2) for line in (read_text(root, CGROUPS) or "").splitlines()]
    return [(fields[1], fields[2]) for fields in lines if len(fields) == 3]


def _manager(paths: Sequence[Tuple[str, str]], environment: Mapping[str, str]) -> Tuple[Optional[str], str]:
    """(manager or None, Slurm job or "")."""
    for _controllers, path in paths:
        job = SLURM_JOB.search(path)
        if job and "slurm" in path:
            return "slurm", job.group(1)
    # Prolog and epilog have the job's variables but run outside its limits.
    by_variables = environment.get("SLURM_JOB_ID") if "SLURM_SCRIPT_CONTEXT" not in environment else ""
    # A container in a job, or a node that is itself a container: if the job was given no GPU, that is the reason.
    if by_variables and not _granted("slurm", environment):
        return "slurm", by_variables
    for manager, pattern in MANAGERS:
        if any(pattern.search(path) for _controllers, path in paths):
            return manager, ""
    if by_variables:
        return "slurm", by_variables
    return ("kubernetes", "") if environment.get("KUBERNETES_SERVICE_HOST") else (None, "")


def _granted(manager: Optional[str], environment: Mapping[str, str]) -> bool:
    """Whether the manager's own variables mention GPUs for this process."""
    if manager == "slurm":
        return any(environment.get(name, "").strip() not in (*NONE, "0") for name in SLURM_GPUS[:3]) or (
            environment.get(SLURM_GPUS[3], "").strip() not in NONE
        )
    return environment.get("NVIDIA_VISIBLE_DEVICES", "").strip() not in NONE


def _is_denied(root: str, path: str, paths: Sequence[Tuple[str, str]], may_open: Callable[[str], bool]) -> bool:
    listed = _listed(root, path, paths)
    return not listed if listed is not None else not may_open(below(root, path))


def _listed(root: str, path: str, paths: Sequence[Tuple[str, str]]) -> Optional[bool]:
    """Whether version 1's list lets the group open the card; None if there is no such list."""
    number = path.rpartition("nvidia")[2]
    for controllers, group in paths:
        text = read_text(root, DEVICES.format(group)) if "devices" in controllers.split(",") else None
        if text is not None:
            rules = [line.split() for line in text.splitlines()]
            fits = (f"{MAJOR}:{number}", f"{MAJOR}:*", "*:*")
            return any(len(rule) == 3 and rule[0] in "ac" and rule[1] in fits and "r" in rule[2] for rule in rules)
    return None


def opens(full: str) -> bool:
    """Whether permission bits and control group together let this process open the file; nothing is opened."""
    if os.access(full, os.R_OK | os.W_OK):
        return True
    try:
        status = os.stat(full)
    except OSError:
        return False
    # If the permission bits alone deny it, the control group was not the reason.
    return not _bits_allow(status)


def _bits_allow(status: os.stat_result) -> bool:
    if os.geteuid() == 0:
        return True
    if os.geteuid() == status.st_uid:
        return status.st_mode >> 6 & 6 == 6
    if status.st_gid in (os.getegid(), *os.getgroups()):
        return status.st_mode >> 3 & 6 == 6
    return status.st_mode & 6 == 6
