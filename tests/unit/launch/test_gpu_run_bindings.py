"""The binding on known machines. Every expectation was written by hand from the machine's topology before it ran."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from gpu_run_machines import (
    a5,
    choose,
    dgx1,
    dgx_a100,
    dgx_h100,
    memory,
    one_node_amd,
    smt_off,
    sub_numa,
    two_sockets,
    virtual_machine,
)
from gpuwright.host.topology import all_node_cpus, format_cpu_list

# Writes a machine into a folder.
Machine = Callable[..., Path]
Place = Callable[[Machine], Path]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Build a machine once: the large ones have hundreds of files."""
    built: dict[Machine, Path] = {}

    def get(machine: Machine) -> Path:
        if machine not in built:
            built[machine] = machine(tmp_path_factory.mktemp(machine.__name__))
        return built[machine]

    return get


# machine, environment, options; then GPU indices, CPUs, memory policy, OMP_NUM_THREADS
BINDINGS: dict[str, tuple[Machine, dict[str, str], dict[str, Any], list[int], str, str, str]] = {
    "a5": (a5, {}, {"allowed": "0-19"}, [0], "0-19", "none", "10"),
    "a5, taskset": (a5, {}, {"allowed": "2,3,12"}, [0], "2-3,12", "none", "2"),
    "a5, one CPU": (a5, {}, {"allowed": "7"}, [0], "7", "none", "1"),
    "two sockets, all": (two_sockets, {}, {"allowed": "0-39"}, [0, 1], "0-39", "none", "20"),
    "two sockets, gpu 0": (two_sockets, {}, {"gpus": "0"}, [0], "0-9,20-29", "preferred 0", "10"),
    "two sockets, gpu 1": (two_sockets, {}, {"gpus": "1"}, [1], "10-19,30-39", "preferred 1", "10"),
    "two sockets, preferred": (
        *(two_sockets, {}, {"gpus": "1", "memory": "preferred"}),
        *([1], "10-19,30-39", "preferred 1", "10"),
    ),
    "two sockets, bind all": (
        *(two_sockets, {}, {"memory_policy": "bind", "allowed": "0-39"}),
        *([0, 1], "0-39", "bind 0-1", "20"),
    ),
    "two sockets, no memory policy": (
        *(two_sockets, {}, {"gpus": "1", "memory_policy": "none"}),
        *([1], "10-19,30-39", "none", "10"),
    ),
    "two sockets, CUDA_VISIBLE_DEVICES": (
        *(two_sockets, {"CUDA_VISIBLE_DEVICES": "1"}, {}),
        *([1], "10-19,30-39", "preferred 1", "10"),
    ),
    "two sockets, node asked for": (
        two_sockets,
        {},
        {"node": "0", "allowed": "0-39"},
        [0, 1],
        "0-9,20-29",
        "preferred 0",
        "10",
    ),
    "two sockets, only the far node allowed": (
        *(two_sockets, {}, {"gpus": "1", "allowed": "0-3"}),
        *([1], "0-3", "none", "4"),
    ),
    "two sockets, no GPU visible": (
        *(two_sockets, {"CUDA_VISIBLE_DEVICES": ""}, {"allowed": "0-39"}),
        *([], "0-39", "none", "20"),
    ),
    "dgx-1, one socket": (dgx1, {}, {"gpus": "4,5,6,7"}, [4, 5, 6, 7], "20-39,60-79", "preferred 1", "20"),
    "dgx-1, policy's threads": (dgx1, {}, {"gpus": "0", "omp_num_threads": 3}, [0], "0-19,40-59", "preferred 0", "3"),
    "dgx-1, option's threads": (
        *(dgx1, {"OMP_NUM_THREADS": "9"}, {"gpus": "0", "threads": 4}),
        *([0], "0-19,40-59", "preferred 0", "4"),
    ),
    "dgx a100, gpu 0": (dgx_a100, {}, {"gpus": "0", "allowed": "0-255"}, [0], "48-63,176-191", "preferred 3", "16"),
    "dgx h100, gpu 7": (dgx_h100, {}, {"gpus": "7", "allowed": "0-223"}, [7], "56-111,168-223", "preferred 1", "56"),
    "one node amd": (one_node_amd, {}, {"allowed": "0-47"}, [0, 1, 2, 3], "0-47", "none", "24"),
    "sub-numa, gpu 2": (
        *(sub_numa, {}, {"gpus": "2"}),
        *([2], "20-22,25-26,30-32,35-36,60-62,65-66,70-72,75-76", "preferred 2", "10"),
    ),
    "smt off, gpu 1": (smt_off, {}, {"gpus": "1", "allowed": "0-19"}, [1], "10-19", "preferred 1", "10"),
    "virtual machine": (virtual_machine, {}, {"allowed": "0-7"}, [0], "0-7", "none", "8"),
}


@pytest.mark.parametrize("name", BINDINGS)
def test_binding_is_the_one_written_down(name: str, place: Place) -> None:
    machine, environ, options, gpus, cpus, policy, threads = BINDINGS[name]
    decision = choose(place(machine), environ, **options)
    assert [gpu.index for gpu in decision.gpus] == gpus
    assert format_cpu_list(decision.cpus) == cpus
    assert memory(decision) == policy
    assert decision.environment["OMP_NUM_THREADS"] == threads
    assert decision.warnings == []


# machine, allowed CPUs, memory node of each rank, threads of each; then the CPUs of rank 0, 1, ...
RANKS: dict[str, tuple[Machine, str, Sequence[int | None], int | None, list[str]]] = {
    "a5, 2 ranks on one GPU": (a5, "0-19", [None] * 2, 5, ["0-4,10-14", "5-9,15-19"]),
    "two sockets": (two_sockets, "0-39", [0, 1], 10, ["0-9,20-29", "10-19,30-39"]),
    "dgx-1": (
        *(dgx1, "0-79", [0] * 4 + [1] * 4, 5),
        [
            *("0-4,40-44", "5-9,45-49", "10-14,50-54", "15-19,55-59"),
            *("20-24,60-64", "25-29,65-69", "30-34,70-74", "35-39,75-79"),
        ],
    ),
    "dgx a100": (
        *(dgx_a100, "0-255", [3, 3, 1, 1, 7, 7, 5, 5], 8),
        [
            *("48-55,176-183", "56-63,184-191", "16-23,144-151", "24-31,152-159"),
            *("112-119,240-247", "120-127,248-255", "80-87,208-215", "88-95,216-223"),
        ],
    ),
    "dgx h100": (
        *(dgx_h100, "0-223", [0] * 4 + [1] * 4, 14),
        [
            *("0-13,112-125", "14-27,126-139", "28-41,140-153", "42-55,154-167"),
            *("56-69,168-181", "70-83,182-195", "84-97,196-209", "98-111,210-223"),
        ],
    ),
    "one node amd": (
        *(one_node_amd, "0-47", [None] * 4, 6),
        ["0-5,24-29", "6-11,30-35", "12-17,36-41", "18-23,42-47"],
    ),
    "sub-numa": (
        *(sub_numa, "0-79", [0, 0, 2, 2], 5),
        [
            *("0-2,5-6,40-42,45-46", "10-12,15-16,50-52,55-56"),
            *("20-22,25-26,60-62,65-66", "30-32,35-36,70-72,75-76"),
        ],
    ),
    "smt off": (smt_off, "0-19", [0, 1], 10, ["0-9", "10-19"]),
    "virtual machine": (virtual_machine, "0-7", [None] * 4, 2, ["0-1", "2-3", "4-5", "6-7"]),
    "two sockets, cpuset of 6 and 2 cores": (
        two_sockets,
        "0-5,10-11,20-25,30-31",
        [0, 1],
        None,
        ["0-5,20-25", "10-11,30-31"],
    ),
    "two sockets, only one allowed": (two_sockets, "0-9,20-29", [0, None], 5, ["0-4,20-24", "5-9,25-29"]),
}


@pytest.mark.parametrize("name", RANKS)
def test_ranks_divide_their_node(name: str, place: Place) -> None:
    machine, allowed, nodes, threads, expected = RANKS[name]
    root = place(machine)
    count = len(expected)
    got = []
    for rank in range(count):
        decision = choose(root, {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(count)}, allowed=allowed)
        got.append(format_cpu_list(decision.cpus))
        node = nodes[rank]
        assert memory(decision) == ("none" if node is None else f"preferred {node}")
        if threads:
            assert decision.environment["OMP_NUM_THREADS"] == str(threads)
        if node is not None:
            assert decision.cpus <= all_node_cpus(str(root))[node]
    assert got == expected


def test_rank_without_a_core_of_its_own_gets_threads_and_then_shares(tmp_path: Path) -> None:
    def cpus(allowed: str, count: int) -> list[str]:
        ranks = [{"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(count)} for rank in range(count)]
        return [format_cpu_list(choose(tmp_path, rank, allowed=allowed).cpus) for rank in ranks]

    a5(tmp_path)
    assert cpus("0-1,10-11", 4) == ["0", "10", "1", "11"]
    assert cpus("0,10", 3) == ["0,10"] * 3
    shared = choose(tmp_path, {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "3"}, allowed="0,10")
    assert shared.environment["OMP_NUM_THREADS"] == "1"


def test_ranks_of_one_node_that_was_asked_for_divide_it(tmp_path: Path) -> None:
    two_sockets(tmp_path)
    ranks = [{"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2"} for rank in range(2)]
    got = [format_cpu_list(choose(tmp_path, rank, node="1").cpus) for rank in ranks]
    assert got == ["10-14,30-34", "15-19,35-39"]


@pytest.mark.parametrize(
    ("mode", "expected"), [(None, "preferred 1"), ("preferred", "preferred 1"), ("bind", "bind 1"), ("none", "none")]
)
def test_memory_is_bound_only_when_asked(mode: str | None, expected: str, tmp_path: Path) -> None:
    """Half of a node free is no promise: a job that grows past it is killed while the other node is empty."""
    asked: dict[str, Any] = {} if mode is None else {"memory_policy": mode}
    assert memory(choose(two_sockets(tmp_path), gpus="1", **asked)) == expected
