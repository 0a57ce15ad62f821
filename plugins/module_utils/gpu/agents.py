# SPDX-License-Identifier: Apache-2.0
"""Programs that hold a GPU open and lose nothing when the host goes down; who runs a program, and since when.

A process is known by its name as the kernel keeps it, the first 15 characters of the program's (proc(5), comm).
"""

import os
import pwd
import time
from typing import Dict, Iterable, Optional, Union

from ..host.access import read_lines
from ..host.files import read_text, to_int
from ..host.patterns import lazily

NAME_LENGTH = 15
# Program: what it is, and where its name comes from.
AGENTS = {
    "nvidia-persistenced": "keeps the driver initialised (NVIDIA driver)",
    "nvidia-powerd": "shares power between processor and GPU (NVIDIA driver)",
    "nvidia-smi": "NVIDIA driver",
    "nv-fabricmanager": "sets up NVSwitches (NVIDIA Fabric Manager)",
    "nvlsm": "subnet manager of NVLink 5 (NVIDIA Fabric Manager)",
    "nvidia-imex": "memory shared between nodes (NVIDIA IMEX)",
    "nv-hostengine": "NVIDIA DCGM",
    "dcgm-exporter": "NVIDIA dcgm-exporter, and Debian's datacenter-gpu-manager-exporter",
    "nvidia-device-plugin": "NVIDIA/k8s-device-plugin",
    "mps-control-daemon": "NVIDIA/k8s-device-plugin",
    "gpu-feature-discovery": "NVIDIA/k8s-device-plugin",
    "nvidia-dra-driver": "NVIDIA/k8s-dra-driver-gpu",
    "gpu-kubelet-plugin": "NVIDIA/k8s-dra-driver-gpu",
    "compute-domain-kubelet-plugin": "NVIDIA/k8s-dra-driver-gpu",
    "nvidia-mig-manager": "NVIDIA/mig-parted",
    "nvidia-validator": "NVIDIA/gpu-operator",
    "nvsentinel": "NVIDIA/NVSentinel",
    "gpud": "leptonai/gpud",
    "nvidia_gpu_exporter": "utkuozdemir/nvidia_gpu_exporter",
    "nvidia_gpu_prometheus_exporter": "mindprince/nvidia_gpu_prometheus_exporter",
    "node_exporter": "prometheus/node_exporter",
    "prometheus-node-exporter": "prometheus/node_exporter, as Debian names it",
    "telegraf": "influxdata/telegraf, input nvidia_smi",
    "collectd": "collectd/collectd, plugin gpu_nvidia",
    "zabbix_agent2": "Zabbix agent 2, plugin NVIDIA GPU",
    "netdata": "netdata/netdata",
    "go.d.plugin": "netdata/netdata, collector nvidia_smi",
    "otelcol": "OpenTelemetry Collector",
    "nvtop": "Syllo/nvtop",
    # People at a display are seen through their login sessions.
    "X": "X server",
    "Xorg": "X server",
    "Xwayland": "X server",
    "gnome-shell": "the display of GNOME",
}

# Names that training processes have, too: an interpreter's, and those that PyTorch gives its own processes.
TRAININGS = lazily(
    r"python[0-9.]*|pt_[a-z_]*|torchrun|accelerate|deepspeed|train-gan|(?:ba|da|z|k)?sh|perl|ruby|node|java|julia|R"
)

Process = Dict[str, Union[int, str, None]]


def is_agent(name: str, more: Iterable[str] = ()) -> bool:
    """Whether a process of this name (comm) holds a GPU but does no work of its own; `more` are the inventory's."""
    return name[:NAME_LENGTH] in {program[:NAME_LENGTH] for program in (*AGENTS, *more)}


def agent_problem(name: str) -> str:
    """Why `name` cannot be the name of an agent, in one sentence; "" if it can."""
    if not name.strip() or "/" in name or name != name.strip():
        return f"{name!r} is not a process name; expected one as `ps -o comm` shows it, without a path"
    if TRAININGS.fullmatch(name):
        return f"{name!r} is a name that training runs also have; name the program itself, as `ps -o comm` shows it"
    return ""


def describe_process(root: str, pid: int, name: str) -> Process:
    """`{pid, name, user, since}`: who runs it ("uid N" if it has no name) and its start in UTC; null if unreadable."""
    return {"pid": pid, "name": name, "user": _user(root, pid), "since": _since(root, pid)}


def _user(root: str, pid: int) -> Optional[str]:
    lines = (read_text(root, f"/proc/{pid}/status") or "").splitlines()
    words = next((line.split()[1:] for line in lines if line.startswith("Uid:")), [])
    uid = to_int(words[0]) if words else None
    if uid is None:
        return None
    try:
        if root == "/":
            return pwd.getpwuid(uid).pw_name
        names = [fields[0] for fields in read_lines(root, "/etc/passwd") if fields[2:3] == [str(uid)]]
    except (KeyError, OSError, OverflowError):
        names = []
    return names[0] if names else f"uid {uid}"


def _since(root: str, pid: int) -> Optional[str]:
    """proc(5): field 22 of stat counts clock ticks since boot; /proc/stat has the boot time, btime, in s since 1970."""
    # The name in parentheses may itself contain spaces and parentheses, so the fields are counted from its end.
    fields = (read_text(root, f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    lines = [line.split() for line in (read_text(root, "/proc/stat") or "").splitlines()]
    boot = next((to_int(words[1]) for words in lines if len(words) > 1 and words[0] == "btime"), None)
    ticks = to_int(fields[19]) if len(fields) > 19 else None
    if boot is None or ticks is None:
        return None
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(boot + ticks // os.sysconf("SC_CLK_TCK")))
    except (OverflowError, OSError, ValueError):
        return None
