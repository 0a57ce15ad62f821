# SPDX-License-Identifier: Apache-2.0
"""Properties of the host that decide training speed and health: clock, processor, links of the GPUs, hung tasks.

Null means "it does not exist"; what exists but cannot be understood raises ValueError or OSError.
"""

import re
from typing import Any, Dict, List, Optional

from ..host.access import read_file
from ..host.bounded import find_program
from ..host.files import exists, names_in, read_assignments, read_colon_lines, read_text, resolve
from ..host.processes import process_ids, why_hidden
from ..probe.board import read_switch_ids
from ..probe.hardware import PCI_FOLDER
from ..probe.nvidia import LIBRARY_FOLDERS
from ..verdict.boot_check import read_uptime
from .kernel_log.log import read_container

CPU_FOLDER = "/sys/devices/system/cpu"
CLOCK_SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
ENVIRONMENT_FILES = ("/etc/environment",)
DRIVER_LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")


def read_clock_source(root: str) -> Any:
    return read_text(root, CLOCK_SOURCE)


def read_governors(root: str) -> Any:
    """The different governors in use, sorted; null if the kernel does not scale frequencies (virtual machines)."""
    folders = [name for name in names_in(root, CPU_FOLDER) if re.match(r"cpu[0-9]+$", name)]
    if not folders:
        raise OSError(f"{CPU_FOLDER} lists no processor")
    words = [read_text(root, f"{CPU_FOLDER}/{name}/cpufreq/scaling_governor") for name in folders]
    return sorted({word for word in words if word}) or None


def read_blocked_tasks(root: str) -> Dict[str, List[Any]]:
    """`{nvidia, others}`: names of the processes that nothing can wake now, with those of the driver separate."""
    pids = process_ids(root)
    if not pids:
        raise OSError("/proc lists no process")
    hidden = why_hidden(root)
    if hidden:
        raise PermissionError(hidden)
    found: Dict[str, List[Any]] = {"nvidia": [], "others": []}
    for pid in pids:
        # "pid (name) state ...": the name may contain anything, so the last parenthesis counts.
        head, _separator, rest = (read_text(root, f"/proc/{pid}/stat") or "").rpartition(") ")
        if rest.startswith("D"):
            name = head.partition("(")[2] or "unnamed"
            found["nvidia" if re.match(r"nv|UVM|nvidia", name) else "others"].append(name)
    return {kind: sorted(names) for kind, names in found.items()}


def read_environment(root: str) -> Any:
    """Names of the variables that files set for every login."""
    hidden = [path for path in ENVIRONMENT_FILES if exists(root, path) and read_text(root, path) is None]
    if hidden:
        raise OSError(f"{', '.join(hidden)} cannot be read")
    return sorted(name for path in ENVIRONMENT_FILES for name in read_assignments(root, path))


def read_swap_mib(root: str) -> Any:
    """Total swap space, 0 for none."""
    text = read_colon_lines(read_text(root, "/proc/meminfo")).get("SwapTotal", "")
    match = re.match(r"([0-9]{1,15}) kB$", text)
    if not match:
        raise ValueError(f"/proc/meminfo says SwapTotal: {text!r}")
    return int(match.group(1)) // 1024


def read_uptime_s(root: str) -> Any:
    """Seconds since this boot."""
    seconds = read_uptime(root)
    if seconds is None:
        raise OSError("/proc/uptime cannot be read")
    return seconds


def read_switches(root: str) -> int:
    """How many NVSwitches the PCI bus shows."""
    if not names_in(root, PCI_FOLDER):
        raise OSError(f"{PCI_FOLDER} lists no device")
    return sum(read_switch_ids(root).values())


def read_driver_files(root: str) -> Dict[str, Any]:
    """Versions of the driver's libraries as programs find them, and the file of the program nvidia-smi."""
    program = find_program("nvidia-smi") if root == "/" else "/usr/bin/nvidia-smi"
    return {
        "libraries": {name: read_library(root, name) for name in DRIVER_LIBRARIES},
        "nvidia_smi": read_file(root, program) if program else None,
    }


def read_library(root: str, name: str) -> Optional[str]:
    """The version in the name of the file to which a library's name leads; null if there is none."""
    for folder in LIBRARY_FOLDERS:
        if exists(root, folder + "/" + name):
            match = re.search(r"\.so\.([0-9]+(?:\.[0-9]+)+)$", resolve(root, folder + "/" + name) or "")
            if not match:
                raise ValueError(f"{folder}/{name} points to a file without a version")
            return match.group(1)
    return None


HOST_READERS = (
    ("container", read_container),
    ("clock_source", read_clock_source),
    ("governors", read_governors),
    ("blocked_tasks", read_blocked_tasks),
    ("environment", read_environment),
    ("swap_mib", read_swap_mib),
    ("uptime_s", read_uptime_s),
)
