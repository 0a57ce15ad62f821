# SPDX-License-Identifier: Apache-2.0
"""Which CPUs, cores, memory nodes and GPUs a machine has, read from sysfs and procfs; no program is run.

Every function takes `root`, the folder to use as "/". What cannot be read is None, -1 or left out, never guessed.
Sources: Linux Documentation/ABI (sysfs-devices-node, sysfs-devices-system-cpu, sysfs-bus-pci), set_mempolicy(2).
"""

import os

from .files import below, exists, names_in, read_colon_lines, read_int, read_text, to_int
from .named_tuple import Record

# Importing typing would take a third of gpu-run's start time: its names are only for the type checker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import AbstractSet, Dict, Iterable, List, Optional, Sequence, Set

NVIDIA_VENDOR_ID = "0x10de"
# VGA controllers and 3D controllers; NVIDIA cards also carry audio and USB functions.
DISPLAY_CLASSES = ("0x0300", "0x0302")
UNKNOWN_NODE = -1
BUS_FOLDER = "/sys/bus/pci/devices"
DRIVER_FOLDER = "/proc/driver/nvidia/gpus"

NODE_FOLDER = "/sys/devices/system/node"


class Gpu(Record):
    """A GPU as CUDA numbers it under CUDA_DEVICE_ORDER=PCI_BUS_ID.

    index      0, 1, ... in ascending PCI order
    pci_id     domain:bus:device.function as sysfs writes it
    numa_node  node number, UNKNOWN_NODE if the firmware names none (usual in a virtual machine)
    uuid       "GPU-..." from the loaded driver, "" without one
    minor      N of /dev/nvidiaN from the loaded driver, None without one
    """

    __slots__ = ("index", "pci_id", "numa_node", "uuid", "minor")
    index: int
    pci_id: str
    numa_node: int
    uuid: str
    minor: "Optional[int]"


def parse_cpu_list(text: str) -> "Set[int]":
    """The set of numbers in the kernel's list format, "0-4,10"; ValueError if it is something else."""
    numbers: "Set[int]" = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first and not dash:
            continue
        start = int(first)
        end = int(last) if dash else start
        if end < start:
            raise ValueError(f"the range {part.strip()} runs backwards")
        numbers.update(range(start, end + 1))
    return numbers


def format_cpu_list(numbers: "Iterable[int]") -> str:
    """The kernel's list format for a set of numbers: {0, 1, 2, 10} is "0-2,10"."""
    ranges: "List[List[int]]" = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def read_list(root: str, path: str) -> "Optional[Set[int]]":
    """The set of numbers that a file holds in list format, or None if it cannot be read or understood."""
    # Opened directly: hundreds of these files are read on a large machine, and nothing in sysfs leads outside.
    try:
        with open(below(root, path), "rb") as file:
            return _list_or_none(file.read(65536).decode("ascii", "replace").strip())
    except OSError:
        return None


def find_all_gpus(root: str = "/") -> "List[Gpu]":
    """All NVIDIA GPUs of the machine, in PCI order.

    With a loaded driver, these are the GPUs that the driver holds (a container may be shown fewer than the host, and a
    card given to a virtual machine is missing); without one, every NVIDIA display device on the bus.
    """
    gpus = []
    found = names_in(root, DRIVER_FOLDER) or _bus_gpus(root)
    for index, pci_id in enumerate(sorted(found, key=_pci_order)):
        node = read_int(root, f"{BUS_FOLDER}/{pci_id}/numa_node")
        node = UNKNOWN_NODE if node is None else max(node, UNKNOWN_NODE)
        told = read_colon_lines(read_text(root, f"{DRIVER_FOLDER}/{pci_id}/information"))
        gpus.append(Gpu(index, pci_id, node, told.get("GPU UUID", ""), to_int(told.get("Device Minor"))))
    return gpus


def reachable_gpus(gpus: "Sequence[Gpu]", root: str = "/") -> "List[Gpu]":
    """Those GPUs whose device file this process may open, renumbered as CUDA and nvidia-smi do in that case.

    A batch system or a container withholds cards through their device files, but still shows all of them in /proc. If
    no device file can be opened at all, nothing is known and all GPUs are kept.
    """
    reachable = [gpu for gpu in gpus if gpu.minor is not None and _may_open(root, gpu.minor)]
    return [gpu.changed(index=index) for index, gpu in enumerate(reachable or gpus)]


def gpu_model(pci_id: str, root: str = "/") -> "Optional[str]":
    """The PCI device id, for example "0x1db4"; None if it cannot be read."""
    return read_text(root, f"{BUS_FOLDER}/{pci_id}/device")


def node_cpus(node: int, root: str = "/") -> "Optional[Set[int]]":
    """The CPUs of a NUMA node; an empty set for a node without CPUs, None if it cannot be read."""
    return read_list(root, f"{NODE_FOLDER}/node{node}/cpulist")


def all_node_cpus(root: str = "/") -> "Dict[int, Set[int]]":
    """{node: its CPUs} of every NUMA node that can be read; an empty set for a node without CPUs."""
    numbers = [to_int(name[4:]) for name in names_in(root, NODE_FOLDER) if name.startswith("node")]
    found = {number: node_cpus(number, root) for number in numbers if number is not None}
    return {number: cpus for number, cpus in found.items() if cpus is not None}


def node_distances(root: str = "/") -> "Dict[int, Dict[int, int]]":
    """{node: {node: distance}} of the online NUMA nodes according to the firmware, 10 to itself (ACPI 6.5, SLIT).

    A node is left out if its line cannot be read, or does not have one number for each online node; the numbers are in
    ascending order of the nodes, without gaps for missing ones.
    """
    named = (to_int(name[4:]) for name in names_in(root, NODE_FOLDER) if name.startswith("node"))
    online = sorted(read_list(root, NODE_FOLDER + "/online") or {node for node in named if node is not None})
    found = {}
    for node in online:
        words = [to_int(word) for word in (read_text(root, f"{NODE_FOLDER}/node{node}/distance") or "").split()]
        known = [word for word in words if word is not None and word > 0]
        if len(known) == len(words) == len(online):
            found[node] = {other: known[place] for place, other in enumerate(online)}
    return found


def socket_of(cpu: int, root: str = "/") -> "Optional[int]":
    """The processor package of a CPU; None if that cannot be read or the firmware names none."""
    package = read_int(root, f"/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id")
    return package if package is not None and package >= 0 else None


def memory_nodes(root: str = "/") -> "Optional[Set[int]]":
    """The NUMA nodes that have memory and that this process may use, or None if that cannot be read."""
    present = read_list(root, NODE_FOLDER + "/has_memory")
    status = read_colon_lines(read_text(root, "/proc/self/status"))
    allowed = _list_or_none(status.get("Mems_allowed_list"))
    if present is None or allowed is None:
        return present
    return present & allowed


def cores_of(cpus: "AbstractSet[int]", root: str = "/") -> "List[List[int]]":
    """The physical cores of a set of CPUs, each as the sorted list of its CPUs in the set, ordered by first CPU.

    A CPU whose siblings cannot be read counts as a core.
    """
    cores = []
    seen: "Set[int]" = set()
    for cpu in sorted(cpus):
        if cpu in seen:
            continue
        siblings = read_list(root, f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") or set()
        core = sorted((siblings & cpus - seen) | {cpu})
        seen.update(core)
        cores.append(core)
    return cores


def _bus_gpus(root: str) -> "List[str]":
    return [name for name in names_in(root, BUS_FOLDER) if _is_gpu(root, f"{BUS_FOLDER}/{name}")]


def _is_gpu(root: str, device: str) -> bool:
    if read_text(root, device + "/vendor") != NVIDIA_VENDOR_ID:
        return False
    # A virtual function is a slice of a card that is itself listed.
    is_virtual_function = exists(root, device + "/physfn")
    return not is_virtual_function and (read_text(root, device + "/class") or "").startswith(DISPLAY_CLASSES)


def _pci_order(pci_id: str) -> "List[int]":
    """Numbers to sort by: text order fails if a domain has five digits."""
    try:
        return [int(part, 16) for part in pci_id.replace(".", ":").split(":")]
    except ValueError:
        return [0]


def _may_open(root: str, minor: int) -> bool:
    # access(2) also checks the device cgroup.
    return os.access(below(root, f"/dev/nvidia{minor}"), os.R_OK | os.W_OK)


def _list_or_none(text: "Optional[str]") -> "Optional[Set[int]]":
    try:
        return None if text is None else parse_cpu_list(text)
    except ValueError:
        return None
