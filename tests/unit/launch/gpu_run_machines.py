"""Machines that gpu-run is tried on, as sysfs trees. The topology of each is publicly described."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

from gpuwright.host.topology import format_cpu_list, parse_cpu_list
from gpuwright.launch.choices import decide
from gpuwright.launch.decision import Decision
from gpuwright.launch.ranks import Launcher
from gpuwright.launch.runtime_policy import DEFAULTS

# "allocator" alone is a key of the policy, and so is "numa": the option is "numa_option".
OPTIONS = {name: name for name in ("gpus", "node", "memory", "threads")}
OPTIONS |= {"allocator_option": "allocator", "numa_option": "numa"}
FLAGS = ("exclusive", "no_smt", "nic")


def write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")


def build(
    root: Path,
    nodes: dict[int, str],
    gpus: dict[str, int],
    threads_apart: int = 0,
    memory: str | None = None,
    uuids: dict[str, str] | None = None,
    models: dict[str, str] | None = None,
) -> Path:
    """A machine: CPUs of each NUMA node, node of each GPU; CPU n and n + threads_apart are one core's two threads."""
    for node, cpus in nodes.items():
        folder = f"sys/devices/system/node/node{node}"
        write(root, f"{folder}/cpulist", cpus)
        for cpu in parse_cpu_list(cpus):
            first = cpu % threads_apart if threads_apart else cpu
            siblings = f"{first},{first + threads_apart}" if threads_apart else str(cpu)
            write(root, f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", siblings)
    write(root, "sys/devices/system/node/has_memory", memory if memory is not None else format_cpu_list(set(nodes)))
    write(root, "sys/bus/pci/devices/0000:00:00.0/vendor", "0x8086")
    for minor, (pci_id, node) in enumerate(gpus.items()):
        write(root, f"sys/bus/pci/devices/{pci_id}/vendor", "0x10de")
        write(root, f"sys/bus/pci/devices/{pci_id}/class", "0x030200")
        write(root, f"sys/bus/pci/devices/{pci_id}/device", (models or {}).get(pci_id, "0x1db4"))
        write(root, f"sys/bus/pci/devices/{pci_id}/numa_node", str(node))
        if uuids and pci_id in uuids:
            told = f"Model: \t\t Tesla V100\nGPU UUID: \t {uuids[pci_id]}\nDevice Minor: \t {minor}"
            write(root, f"proc/driver/nvidia/gpus/{pci_id}/information", told)
    return root


def relate(
    root: Path, sockets: dict[int, int], distances: dict[int, str] | None = None, near: int = 12, far: int = 32
) -> Path:
    """The socket of each node's CPUs, and ACPI's table: `near` within a socket, `far` beyond, or as `distances` say."""
    for node, socket in sockets.items():
        for cpu in parse_cpu_list((root / f"sys/devices/system/node/node{node}/cpulist").read_text()):
            write(root, f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", str(socket))
        row = [10 if other == node else near if sockets[other] == socket else far for other in sorted(sockets)]
        line = distances.get(node) if distances is not None else " ".join(map(str, row))
        if line is not None:
            write(root, f"sys/devices/system/node/node{node}/distance", line)
    write(root, "sys/devices/system/node/online", format_cpu_list(set(sockets)))
    return root


def with_driver(gpus: dict[str, int]) -> dict[str, str]:
    """A UUID for every GPU, as a loaded driver tells them."""
    return {pci_id: f"GPU-{number:08x}-aaaa" for number, pci_id in enumerate(gpus)}


def spread_over(pci_ids: str, *nodes: int) -> dict[str, int]:
    """{PCI id: node} of bus numbers in a row, equally many on each node."""
    buses = pci_ids.split()
    each = len(buses) // len(nodes)
    return {f"0000:{bus}:00.0": nodes[index // each] for index, bus in enumerate(buses)}


def a5(root: Path) -> Path:
    """One Xeon Silver 4210 (10 cores, 20 threads, second threads at +10), one V100."""
    return build(root, {0: "0-19"}, {"0000:3b:00.0": 0}, threads_apart=10)


def two_sockets(root: Path, memory: str | None = None, uuids: dict[str, str] | None = None) -> Path:
    """Two Xeon Silver 4210, a V100 on each; Linux numbers the first threads of both sockets first."""
    nodes = {0: "0-9,20-29", 1: "10-19,30-39"}
    return build(root, nodes, {"0000:3b:00.0": 0, "0000:af:00.0": 1}, threads_apart=20, memory=memory, uuids=uuids)


def smt_off(root: Path) -> Path:
    """The same with Hyper-Threading off in the firmware."""
    return build(root, {0: "0-9", 1: "10-19"}, {"0000:3b:00.0": 0, "0000:af:00.0": 1})


DGX1_GPUS = spread_over("06 07 0a 0b 85 86 89 8a", 0, 1)


def dgx1(root: Path) -> Path:
    """DGX-1 with V100: two Xeon E5-2698 v4 (20 cores). NCCL issue 671: node 0 has the mask 0000,0fffff00,000fffff."""
    nodes = {0: "0-19,40-59", 1: "20-39,60-79"}
    return build(root, nodes, DGX1_GPUS, threads_apart=40, uuids=with_driver(DGX1_GPUS))


def dgx_a100(root: Path) -> Path:
    """DGX A100: two EPYC 7742, eight nodes (NPS4). NCCL issue 1505 (nvidia-smi topo -m): GPU pairs on 3, 1, 7, 5."""
    nodes = {node: f"{16 * node}-{16 * node + 15},{128 + 16 * node}-{143 + 16 * node}" for node in range(8)}
    return build(root, nodes, spread_over("07 0f 47 4e 87 90 b7 bd", 3, 1, 7, 5), threads_apart=128)


def dgx_h100(root: Path) -> Path:
    """DGX H100: two Xeon 8480C (56 cores). vLLM issue 13855, nvidia-smi topo -m: 0-55,112-167 and 56-111,168-223."""
    nodes = {0: "0-55,112-167", 1: "56-111,168-223"}
    return build(root, nodes, spread_over("1b 43 52 61 9d c3 d1 df", 0, 1), threads_apart=112)


def one_node_amd(root: Path) -> Path:
    """One EPYC 7402P (24 cores) in NPS1, four cards."""
    return build(root, {0: "0-47"}, spread_over("01 41 81 c1", 0), threads_apart=24)


def sub_numa(root: Path) -> Path:
    """Two Xeon Gold 6248 (20 cores) with sub-NUMA clustering: a node is every other tile, its CPUs are no range."""
    nodes = {
        0: "0-2,5-6,10-12,15-16,40-42,45-46,50-52,55-56",
        1: "3-4,7-9,13-14,17-19,43-44,47-49,53-54,57-59",
        2: "20-22,25-26,30-32,35-36,60-62,65-66,70-72,75-76",
        3: "23-24,27-29,33-34,37-39,63-64,67-69,73-74,77-79",
    }
    return build(root, nodes, spread_over("1a 1c 88 8a", 0, 2), threads_apart=40)


def virtual_machine(root: Path) -> Path:
    """Eight CPUs without threads, a passed-through GPU whose node the firmware does not tell."""
    return build(root, {0: "0-7"}, {"0000:00:05.0": -1})


def choose(
    root: Path,
    environ: dict[str, str] | None = None,
    allowed: str = "0-79",
    command: tuple[str, ...] = ("python", "train.py"),
    launcher: Launcher | None = None,
    **more: Any,
) -> Decision:
    """What gpu-run decides there; `more` are options of the command line and keys of the policy."""
    options: Any = types.SimpleNamespace(**{option: more.pop(name, None) for name, option in OPTIONS.items()})
    for flag in FLAGS:
        setattr(options, flag, more.pop(flag, False))
    policy = {**DEFAULTS, **more}
    return decide(options, list(command), environ or {}, parse_cpu_list(allowed), policy, str(root), launcher)


def memory(decision: Decision) -> str:
    return f"{decision.memory_policy} {format_cpu_list(decision.memory_nodes)}".strip()
