# SPDX-License-Identifier: Apache-2.0
"""GPUs, processors and memory as sysfs and /proc show them, with or without a driver."""

import os
import re
from typing import Any, Dict, Iterable, List, Optional

from ..gpu.devices import NVIDIA_VENDOR, describe_device
from ..host.files import below, exists, link_target, names_in, read_colon_lines, read_int, read_text
from ..host.patterns import lazily

PCI_FOLDER = "/sys/bus/pci/devices"
NODE_FOLDER = "/sys/devices/system/node"
# PCI classes of a GPU: VGA controller and 3D controller. Sound, USB and NVSwitch functions have others.
GPU_CLASSES = ("0x0300", "0x0302")
ADDRESS = lazily(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
# Width that the kernel writes if the link does not answer.
UNKNOWN_WIDTHS = (0, 255)


def read_gpus(root: str = "/") -> List[Dict[str, Any]]:
    """NVIDIA GPUs in the order of their PCI addresses; see docs/parts/node.md for the record."""
    return [_read_gpu(root, pci_id) for pci_id in names_in(root, PCI_FOLDER) if _is_gpu(root, pci_id)]


def _is_gpu(root: str, pci_id: str) -> bool:
    device = f"{PCI_FOLDER}/{pci_id}"
    if read_text(root, device + "/vendor") != "0x" + NVIDIA_VENDOR:
        return False
    # A virtual function is a slice of a card that is itself listed.
    is_virtual_function = exists(root, device + "/physfn")
    return not is_virtual_function and (read_text(root, device + "/class") or "").startswith(GPU_CLASSES)


def _read_gpu(root: str, pci_id: str) -> Dict[str, Any]:
    folder = f"{PCI_FOLDER}/{pci_id}"
    device_id = (read_text(root, folder + "/device") or "")[2:].lower() or "unknown"
    device = describe_device(device_id)
    numa_node = read_int(root, folder + "/numa_node")
    driver = link_target(root, folder + "/driver")
    return {
        "pci_id": pci_id,
        "device_id": device_id,
        "name": device.name,
        "architecture": device.architecture,
        "compute_capability": device.compute_capability,
        "numa_node": -1 if numa_node is None else numa_node,
        "local_cpus": read_text(root, folder + "/local_cpulist") or "",
        "link": {
            "speed_now": _link_speed(read_text(root, folder + "/current_link_speed")),
            "speed_max": _link_speed(read_text(root, folder + "/max_link_speed")),
            "width_now": _link_width(read_int(root, folder + "/current_link_width")),
            "width_max": _link_width(read_int(root, folder + "/max_link_width")),
            "slot_width_max": _slot_width(root, folder),
        },
        "bound_driver": os.path.basename(driver) if driver else None,
    }


def _slot_width(root: str, folder: str) -> Optional[int]:
    """Lanes of the slot: the maximum of the bridge right above the card; None if sysfs shows no bridge."""
    parts = (link_target(root, folder) or "").split("/")
    above = [part for part in parts[:-1] if ADDRESS.match(part)]
    return _link_width(read_int(root, f"{PCI_FOLDER}/{above[-1]}/max_link_width")) if above else None


def _link_speed(text: Optional[str]) -> Optional[str]:
    """One spelling for all kernels (4.18 writes "8 GT/s", newer ones "8.0 GT/s PCIe"); None if the link is down."""
    match = re.match(r"([0-9]{1,3}(?:\.[0-9])?) GT/s", text or "")
    return f"{float(match.group(1)):.1f} GT/s PCIe" if match else None


def _link_width(lanes: Optional[int]) -> Optional[int]:
    return None if lanes in UNKNOWN_WIDTHS else lanes


def read_cpu(root: str = "/") -> Dict[str, Any]:
    """Model and counts; a count that /proc/cpuinfo does not give is None."""
    blocks = [read_colon_lines(block) for block in (read_text(root, "/proc/cpuinfo") or "").split("\n\n")]
    processors = [block for block in blocks if "processor" in block]
    packages = {block["physical id"] for block in processors if "physical id" in block}
    cores = {
        (block["physical id"], block["core id"]) for block in processors if {"physical id", "core id"} <= set(block)
    }
    model = processors[0].get("model name") if processors else None
    return {
        "model": model or "unknown",
        "sockets": len(packages) or None,
        "physical_cores": len(cores) or None,
        "logical_cpus": len(processors) or None,
    }


def read_memory_mib(root: str = "/") -> Optional[int]:
    """Total memory in MiB, or None."""
    return _memory_mib(read_colon_lines(read_text(root, "/proc/meminfo")).get("MemTotal"))


def read_numa(root: str = "/") -> Dict[str, Dict[str, Any]]:
    """NUMA nodes by number, as text: their CPUs in the kernel's list format and their memory in MiB."""
    nodes = {}
    for name in names_in(root, NODE_FOLDER):
        match = re.match(r"node([0-9]+)$", name)
        if not match:
            continue
        folder = f"{NODE_FOLDER}/{name}"
        lines = re.sub(r"(?m)^Node [0-9]+ ", "", read_text(root, folder + "/meminfo") or "")
        nodes[match.group(1)] = {
            "cpus": read_text(root, folder + "/cpulist") or "",
            "memory_mib": _memory_mib(read_colon_lines(lines).get("MemTotal")),
        }
    return nodes


def _memory_mib(text: Optional[str]) -> Optional[int]:
    """MiB from the kernel's "123456 kB"."""
    match = re.match(r"([0-9]{1,18}) kB$", text or "")
    return int(match.group(1)) // 1024 if match else None


def read_disks(
    root: str = "/", folders: Iterable[str] = ("/", "/boot", "/var", "/opt")
) -> Dict[str, Optional[Dict[str, Optional[int]]]]:
    """Free space (MiB) and inodes for unprivileged writers; a folder that does not exist is None.

    `free_inodes` is None if the file system has no fixed number of inodes.
    """
    disks: Dict[str, Optional[Dict[str, Optional[int]]]] = {}
    for folder in folders:
        try:
            status = os.statvfs(below(root, folder))
        except OSError:
            disks[folder] = None
            continue
        disks[folder] = {
            "free_mib": status.f_bavail * status.f_frsize // (1024 * 1024),
            "free_inodes": status.f_favail if status.f_files else None,
        }
    return disks
