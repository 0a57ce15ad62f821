"""Where ranks end up on machines of every shape. What must hold follows from the machine alone: no two ranks share a
CPU, together they have all CPUs that the row names, and none leaves the socket of its GPU.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from gpu_run_machines import build, choose, memory, relate, write
from gpuwright.host.topology import format_cpu_list, node_distances, parse_cpu_list


class Machine(NamedTuple):
    """A machine and what its ranks get.

    nodes    {NUMA node: its CPUs}
    sockets  {NUMA node: socket}
    gpus     the node of each GPU, one rank for each
    expect   the CPUs of each rank, or all of theirs together where the row says so
    apart    distance of a core's second thread
    allowed  the CPUs that the caller may use, all by default
    near     ACPI's distances of other nodes, within a socket and beyond; a dict has whole lines
    together `expect` is one list: that of all ranks
    memory   the node of each rank's memory policy, None for none; default: that of its GPU
    """

    nodes: dict[int, str]
    sockets: dict[int, int]
    gpus: list[int]
    expect: Collection[str]
    apart: int = 0
    allowed: str = ""
    near: Any = (12, 32)
    mode: str | None = None
    memory: list[int | None] | None = None
    with_memory: str | None = None


def quarters(first: int, second: int, each: int, count: int = 4) -> dict[int, str]:
    """Nodes of `each` cores, whose second threads begin at `second`."""
    starts = {node: (first + node * each, second + node * each) for node in range(count)}
    return {node: ",".join(f"{start}-{start + each - 1}" for start in both) for node, both in starts.items()}


def one(*cores: int, apart: int) -> str:
    """The CPUs of cores in ranges: first, last, first, last."""
    cpus: set[int] = set()
    for first, last in zip(cores[::2], cores[1::2], strict=True):
        cpus |= set(range(first, last + 1)) | set(range(first + apart, last + apart + 1) if apart else ())
    return format_cpu_list(cpus)


NPS4 = quarters(0, 128, 16, 8)
HALVES = {node: node // 4 for node in range(8)}
SNC2 = {0: "0-9,40-49", 1: "10-19,50-59", 2: "20-29,60-69", 3: "30-39,70-79"}
TWO = {0: "0-9,20-29", 1: "10-19,30-39"}

MACHINES = {
    # One node.
    "desktop, 1 GPU": Machine({0: "0-7"}, {0: 0}, [0], ["0-7"], memory=[None]),
    "EPYC NPS1, 4 GPUs": Machine(
        *({0: "0-47"}, {0: 0}, [0] * 4, [one(6 * n, 6 * n + 5, apart=24) for n in range(4)], 24), memory=[None] * 4
    ),
    "one node, 3 ranks on 8 cores": Machine({0: "0-7"}, {0: 0}, [0] * 3, ["0-2", "3-5", "6-7"], memory=[None] * 3),
    # Two.
    "two sockets, a GPU each": Machine(TWO, {0: 0, 1: 1}, [0, 1], TWO.values(), 20),
    "two sockets, both GPUs on one": Machine(TWO, {0: 0, 1: 1}, [1, 1], ["10-14,30-34", "15-19,35-39"], 20),
    "two sockets, 3 to 1": Machine(
        TWO, {0: 0, 1: 1}, [0, 0, 0, 1], ["0-3,20-23", "4-6,24-26", "7-9,27-29", "10-19,30-39"], 20
    ),
    "two sockets, GPUs at -1": Machine(
        TWO, {0: 0, 1: 1}, [-1, -1], ["0-9,20-29", "10-19,30-39"], 20, memory=[None, None]
    ),
    "two sockets, one GPU at -1": Machine(
        TWO, {0: 0, 1: 1}, [0, -1], ["0-9,20-29", "10-19,30-39"], 20, memory=[0, None]
    ),
    "two sockets, mode none": Machine(
        TWO, {0: 0, 1: 1}, [1, 1], ["0-9,20-29", "10-19,30-39"], 20, mode="none", memory=[None, None]
    ),
    "two sockets, mode socket": Machine(TWO, {0: 0, 1: 1}, [1, 0], ["10-19,30-39", "0-9,20-29"], 20, mode="socket"),
    "two sockets, cgroup of one": Machine(
        TWO, {0: 0, 1: 1}, [0, 1], ["0-4,20-24", "5-9,25-29"], 20, "0-9,20-29", memory=[0, None]
    ),
    "two sockets, uneven cgroup": Machine(
        TWO, {0: 0, 1: 1}, [0, 1], ["3-4,23-24", "12-19,32-39"], 20, "3-4,12-19,23-24,32-39"
    ),
    # The kernel leaves offline CPUs out of a node's list.
    "two sockets, CPUs offline": Machine({0: "0-3,6-9", 1: "10-19"}, {0: 0, 1: 1}, [0, 0, 1], ["0-3", "6-9", "10-19"]),
    "one thread of some cores offline": Machine(
        {0: "0-9,20-24"}, {0: 0}, [0, 0], ["0-4,20-24", "5-9"], 20, memory=[None, None]
    ),
    # Holes in the numbering: POWER9, whose GPUs' memory is in nodes without CPUs.
    "POWER9, nodes 0 and 8": Machine(
        *({0: "0-15", 8: "16-31", 254: "", 255: ""}, {0: 0, 8: 8}, [0, 0, 8, 8], ["0-7", "8-15", "16-23", "24-31"])
    ),
    "nodes 1 and 3 alone": Machine({1: "0-7", 3: "8-15"}, {1: 0, 3: 1}, [3, 1], ["8-15", "0-7"]),
    "CPU numbers of a node are odd": Machine(
        {0: "0,2,4,6", 1: "1,3,5,7"}, {0: 0, 1: 1}, [1, 1, 0], ["1,3", "5,7", "0,2,4,6"]
    ),
    # Sub-NUMA clustering.
    "SNC2, GPUs on nodes 0 and 2": Machine(
        SNC2,
        {0: 0, 1: 0, 2: 1, 3: 1},
        [0, 0, 2, 2],
        [one(*c, apart=40) for c in ((0, 4, 10, 14), (5, 9, 15, 19), (20, 24, 30, 34), (25, 29, 35, 39))],
        40,
    ),
    "SNC2, a GPU on each node": Machine(SNC2, {0: 0, 1: 0, 2: 1, 3: 1}, [0, 1, 2, 3], SNC2.values(), 40),
    "SNC2, 3 and 1 on a socket": Machine(
        SNC2,
        {0: 0, 1: 0, 2: 1, 3: 1},
        [0, 0, 0, 1],
        [one(0, 3, apart=40), one(4, 6, apart=40), one(7, 9, apart=40), one(10, 19, apart=40)],
        40,
    ),
    "SNC2, 3 and 1 on a socket, mode socket": Machine(
        SNC2,
        {0: 0, 1: 0, 2: 1, 3: 1},
        [0, 0, 0, 1],
        [one(0, 3, 15, 15, apart=40), one(4, 6, 16, 17, apart=40), one(7, 9, 18, 19, apart=40), one(10, 14, apart=40)],
        40,
        mode="socket",
    ),
    "SNC2, GPU's node forbidden": Machine(
        SNC2,
        {0: 0, 1: 0, 2: 1, 3: 1},
        [0, 2],
        [one(10, 19, apart=40), one(20, 29, 30, 39, apart=40)],
        40,
        "10-39,50-79",
        memory=[None, 2],
    ),
    # AMD.
    "NPS2, GPUs on one node of each socket": Machine(
        quarters(0, 64, 16),
        {0: 0, 1: 0, 2: 1, 3: 1},
        [1, 3],
        [one(0, 31, apart=64), one(32, 63, apart=64)],
        64,
    ),
    "DGX A100, NPS4": Machine(
        NPS4,
        HALVES,
        [3, 3, 1, 1, 7, 7, 5, 5],
        [
            one(*c, apart=128)
            for c in (
                (0, 7, 48, 55),
                (8, 15, 56, 63),
                (16, 23, 32, 39),
                (24, 31, 40, 47),
                (64, 71, 112, 119),
                (72, 79, 120, 127),
                (80, 87, 96, 103),
                (88, 95, 104, 111),
            )
        ],
        128,
    ),
    "NPS4, mode socket": Machine(
        NPS4,
        HALVES,
        [3, 3, 1, 1, 7, 7, 5, 5],
        [
            one(*c, apart=128)
            for c in (
                (0, 7, 48, 55),
                (8, 15, 56, 63),
                (16, 23, 32, 39),
                (24, 31, 40, 47),
                (64, 71, 112, 119),
                (72, 79, 120, 127),
                (80, 87, 96, 103),
                (88, 95, 104, 111),
            )
        ],
        128,
        mode="socket",
    ),
    "NPS4, a GPU on each node": Machine(NPS4, HALVES, list(range(8)), NPS4.values(), 128),
    "NPS4, one socket, 1 GPU, 2 ranks": Machine(
        quarters(0, 32, 8),
        dict.fromkeys(range(4), 0),
        [2, 2],
        [one(0, 11, 16, 19, apart=32), one(12, 15, 20, 31, apart=32)],
        32,
    ),
    "NPS4, cgroup leaves the GPU's node one core": Machine(
        quarters(0, 32, 8),
        dict.fromkeys(range(4), 0),
        [2, 2],
        [one(8, 11, 16, 16, apart=32), one(12, 15, 24, 24, apart=32)],
        32,
        "8-16,24,40-48,56",
    ),
    # A node without CPUs: memory on CXL, or a GPU's own.
    "CXL memory": Machine({0: "0-7", 1: "8-15", 2: ""}, {0: 0, 1: 1}, [0, 1], ["0-7", "8-15"], with_memory="0-2"),
    "GPU at a node without CPUs, near node 1": Machine(
        {0: "0-7", 1: "8-15", 2: ""},
        {0: 0, 1: 1},
        [2, 2],
        ["8-11", "12-15"],
        near={0: "10 20 40", 1: "20 10 14", 2: "40 14 10"},
        memory=[None, None],
    ),
    "GPU at a node without CPUs, no distances": Machine(
        {0: "0-7", 1: "8-15", 2: ""},
        {0: 0, 1: 1},
        [2, 2],
        ["0-7", "8-15"],
        near={},
        memory=[None, None],
    ),
    # NVIDIA Grace: node 0 has the CPUs, the others are the GPU's memory and its slices.
    "GH200": Machine({0: "0-71", **dict.fromkeys(range(1, 9), "")}, {0: 0}, [0], ["0-71"], with_memory="0-1"),
    "GB200, two Grace": Machine(
        {0: "0-71", 1: "72-143", **dict.fromkeys(range(2, 34), "")},
        {0: 0, 1: 1},
        [0, 0, 1, 1],
        ["0-35", "36-71", "72-107", "108-143"],
        with_memory="0-2,10,18,26",
    ),
    # Without what the kernel tells of sockets and distances nothing is lent.
    "sockets unknown": Machine(SNC2, {}, [0, 2], [SNC2[0], SNC2[2]], 40),
    "distances broken": Machine(
        SNC2,
        {0: 0, 1: 0, 2: 1, 3: 1},
        [0, 2],
        [one(0, 19, apart=40), one(20, 39, apart=40)],
        40,
        near={0: "10 12", 1: "ten", 2: "", 3: "-1 -1 -1 -1"},
    ),
}


def make(root: Path, machine: Machine) -> Path:
    gpus = {f"0000:{0x10 + number:02x}:00.0": node for number, node in enumerate(machine.gpus)}
    build(root, machine.nodes, gpus, machine.apart, machine.with_memory)
    if isinstance(machine.near, dict):
        relate(root, machine.sockets, {})
        for node, line in machine.near.items():
            write(root, f"sys/devices/system/node/node{node}/distance", line)
        write(root, "sys/devices/system/node/online", format_cpu_list(set(machine.nodes)))
    elif machine.sockets:
        relate(root, machine.sockets, None, *machine.near)
        if set(machine.sockets) != set(machine.nodes):
            write(root, "sys/devices/system/node/online", format_cpu_list(set(machine.nodes)))
    return root


def run(root: Path, machine: Machine, **environ: str) -> list:
    every = ",".join(text for text in machine.nodes.values() if text)
    return [
        choose(
            root,
            {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(len(machine.gpus)), **environ},
            allowed=machine.allowed or every,
            numa_option=machine.mode,
        )
        for rank in range(len(machine.gpus))
    ]


@pytest.mark.parametrize("name", MACHINES)
def test_ranks_are_disjoint_complete_and_near_their_gpus(name: str, tmp_path: Path) -> None:
    machine = MACHINES[name]
    decisions = run(make(tmp_path, machine), machine)
    got = [decision.cpus for decision in decisions]
    assert [format_cpu_list(cpus) for cpus in got] == [format_cpu_list(parse_cpu_list(text)) for text in machine.expect]
    assert not any(one & other for one, other in itertools.combinations(got, 2))
    allowed = parse_cpu_list(machine.allowed or ",".join(filter(None, machine.nodes.values())))
    unused = allowed - set().union(*got)
    # Nothing is left over on a socket whose nodes are known, and what is left elsewhere is said by the first rank.
    used = {machine.sockets[node] for node in machine.gpus if node in machine.sockets and machine.mode != "none"}
    for node, text in machine.nodes.items():
        if parse_cpu_list(text) & unused:
            assert machine.sockets.get(node) not in used or not machine.sockets
    assert bool(unused) == any("get no process" in warning for warning in decisions[0].warnings)
    assert not any("get no process" in warning for decision in decisions[1:] for warning in decision.warnings)
    assert bool(unused) == any(row[0] == "idle CPUs" for row in decisions[-1].rows)
    homes = [node if node in machine.nodes else None for node in machine.gpus]
    single = len(machine.nodes) == 1
    wanted = machine.memory or [None if single else node for node in homes]
    assert [memory(decision) for decision in decisions] == [
        "none" if node is None else f"preferred {node}" for node in wanted
    ]
    for decision, home in zip(decisions, homes, strict=True):
        near = {
            cpu
            for node, text in machine.nodes.items()
            if home in machine.sockets and machine.sockets.get(node) == machine.sockets[home]
            for cpu in parse_cpu_list(text)
        }
        if near & allowed and machine.mode != "none":
            assert decision.cpus <= near


def test_there_are_thirty_of_them() -> None:
    assert len(MACHINES) >= 30


def test_distances_stand_in_the_order_of_the_online_nodes(tmp_path: Path) -> None:
    """numactl --hardware of a POWER9 server: nodes 0 and 8, the lines have two numbers and not nine."""
    relate(build(tmp_path, {0: "0-3", 8: "4-7"}, {}), {0: 0, 8: 8}, {0: "10 40", 8: "40 10"})
    assert node_distances(str(tmp_path)) == {0: {0: 10, 8: 40}, 8: {0: 40, 8: 10}}


def test_one_process_takes_its_node_or_its_socket_and_says_what_is_left(tmp_path: Path) -> None:
    root = make(tmp_path, MACHINES["DGX A100, NPS4"])

    def alone(**options: Any) -> tuple:
        decision = choose(root, allowed="0-255", gpus="0", **options)
        return format_cpu_list(decision.cpus), memory(decision), decision

    cpus, policy, decision = alone()
    assert (cpus, policy) == ("48-63,176-191", "preferred 3") and decision.warnings == []
    assert ["idle CPUs", "224 of 256", "NUMA node 0-2,4-7; --numa socket takes the rest of the socket"] in decision.rows
    assert alone(numa_option="socket")[:2] == ("0-63,128-191", "preferred 3")
    assert alone(numa_option="socket", memory="bind")[:2] == ("0-63,128-191", "bind 0-3")
    assert alone(numa_option="none")[:2] == ("0-255", "none")
    assert alone(numa="socket")[0] == "0-63,128-191"
    everything = choose(root, allowed="0-255")
    assert format_cpu_list(everything.cpus) == one(16, 31, 48, 63, 80, 95, 112, 127, apart=128)
    (warning,) = everything.warnings
    assert "128 of 256 CPUs get no process" in warning and "--numa socket" in warning


def test_the_nearest_node_is_taken_where_the_gpus_own_is_forbidden(tmp_path: Path) -> None:
    machine = MACHINES["SNC2, GPU's node forbidden"]
    decision = choose(make(tmp_path, machine), allowed=machine.allowed, gpus="0")
    assert (format_cpu_list(decision.cpus), memory(decision)) == (one(10, 19, apart=40), "none")
    assert any("those of the nearest node" in row[2] for row in decision.rows)


class TestNodeOfTheCardByHand:
    """system_runtime_gpu_nodes."""

    def machine(self, root: Path) -> Path:
        return build(root, {0: "0-3", 1: "4-7"}, {"0000:3b:00.0": -1, "0000:af:00.0": -1})

    @pytest.mark.parametrize("address", ["0000:AF:00.0", "00000000:AF:00.0", "af:00.0", "0000:af:00.0"])
    def test_a_card_without_a_node_gets_the_one_that_the_host_names(self, tmp_path: Path, address: str) -> None:
        decision = choose(self.machine(tmp_path), allowed="0-7", gpus="1", gpu_nodes={address: 1})
        assert (format_cpu_list(decision.cpus), memory(decision)) == ("4-7", "preferred 1")
        assert ["node of GPU 1", "1", "policy; the firmware names none"] in decision.rows

    def test_it_goes_before_a_wrong_one(self, tmp_path: Path) -> None:
        root = self.machine(tmp_path)
        write(root, "sys/bus/pci/devices/0000:3b:00.0/numa_node", "0")
        decision = choose(root, allowed="0-7", gpus="0", gpu_nodes={"0000:3b:00.0": 1})
        assert format_cpu_list(decision.cpus) == "4-7"
        assert ["node of GPU 0", "1", "policy; the firmware says 0"] in decision.rows

    def test_ranks_use_it(self, tmp_path: Path) -> None:
        root, nodes = self.machine(tmp_path), {"0000:3b:00.0": 1, "0000:af:00.0": 0}
        ranks = [{"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2"} for rank in range(2)]
        got = [format_cpu_list(choose(root, rank, allowed="0-7", gpu_nodes=nodes).cpus) for rank in ranks]
        assert got == ["4-7", "0-3"]

    def test_a_node_that_is_not_there_is_a_warning(self, tmp_path: Path) -> None:
        decision = choose(self.machine(tmp_path), allowed="0-7", gpus="1", gpu_nodes={"0000:af:00.0": 4})
        assert format_cpu_list(decision.cpus) == "0-7"
        assert ["NUMA node 4, which does not exist" in warning for warning in decision.warnings] == [True]
