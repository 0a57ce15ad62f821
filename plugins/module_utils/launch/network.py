# SPDX-License-Identifier: Apache-2.0
"""The InfiniBand cards nearest to a process's GPUs, and whether the network that NCCL is told to use exists.

Sources: Linux Documentation/ABI (sysfs-class-infiniband, sysfs-class-net), NCCL User Guide (environment variables).
"""

from ..host.files import names_in, read_int, read_text, resolve
from ..host.topology import BUS_FOLDER

# Importing typing would take a third of gpu-run's start time: its names are only for the type checker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Sequence

    from ..host.topology import Gpu
    from .decision import Decision

CARDS = "/sys/class/infiniband"
INTERFACES = "/sys/class/net"
ACTIVE = "4:"
HCA = "NCCL_IB_HCA"
INTERFACE = "NCCL_SOCKET_IFNAME"


def choose_cards(decision: "Decision", asked: bool, root: str) -> None:
    """Report the nearest InfiniBand cards; with --nic (`asked`), pass them to NCCL.

    Without --nic, NCCL chooses by itself: it knows more about the paths.
    """
    near = nearest_cards(decision.gpus, root)
    if near:
        way = "the shortest path on the PCI bus" if not asked else "the shortest path on the PCI bus; option --nic"
        decision.note("nearest InfiniBand", ", ".join(near), way)
    if asked and near:
        # "=" means the exact name: mlx5_1 would also match mlx5_10.
        decision.set_variable(HCA, "=" + ",".join(near), "option --nic", even_if_set=True)
    elif asked:
        decision.warnings.append("--nic: no InfiniBand card with an active port is near a GPU: NCCL chooses by itself")


def nearest_cards(gpus: "Sequence[Gpu]", root: str) -> "List[str]":
    """Names of the cards with an active port nearest to any of the GPUs: below one switch, else on one node."""
    names = [name for name in names_in(root, CARDS) if _active(root, name)]
    found = set()
    for gpu in gpus:
        own = _path(root, f"{BUS_FOLDER}/{gpu.pci_id}")
        distance = {}
        for name in names:
            device = f"{CARDS}/{name}/device"
            shared = _shared(own, _path(root, device))
            # After the first folder, "devices", only a bridge or its root port can be shared with a GPU.
            distance[name] = (shared, read_int(root, device + "/numa_node") == gpu.numa_node)
        best = max(distance.values(), default=None)
        found |= {name for name, value in distance.items() if value == best}
    return sorted(found)


def _active(root: str, name: str) -> bool:
    ports = f"{CARDS}/{name}/ports"
    return any((read_text(root, f"{ports}/{port}/state") or "").startswith(ACTIVE) for port in names_in(root, ports))


def _path(root: str, device: str) -> "List[str]":
    return (resolve(root, device) or "").split("/")


def _shared(one: "List[str]", other: "List[str]") -> int:
    """How many folders both paths have in common, from the root on."""
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count


def check_interface(decision: "Decision", root: str) -> None:
    """Warn if NCCL_SOCKET_IFNAME names no interface that is up: each rank needs a network that reaches the others.

    Names are prefixes; "=" makes them exact names, "^" means all others.
    """
    value = decision.environment.get(INTERFACE, "")
    interfaces = names_in(root, INTERFACES)
    if not value or not interfaces:
        return
    exact, without = value.startswith("="), value.startswith("^")
    words = [word for word in value.lstrip("=^").split(",") if word]
    named = [
        name
        for name in interfaces
        if any(name == word if exact else name.startswith(word) for word in words) != without and name != "lo"
    ]
    up = [name for name in named if (read_text(root, f"{INTERFACES}/{name}/operstate") or "") in ("up", "unknown")]
    if not up:
        state = f"{', '.join(named)} is down" if named else "there is no such interface"
        message = "{}={}: {} on this host; name the network that all ranks reach, on every host the same"
        decision.warnings.append(message.format(INTERFACE, value, state))
