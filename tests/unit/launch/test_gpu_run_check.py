"""gpu-run --check: what it sees of running ranks, on made-up process tables and on real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_run_machines import build, dgx1, relate, two_sockets, write
from gpuwright.launch.running import processes as running
from gpuwright.launch.running.processes import as_rank, read_ranks
from gpuwright.launch.running.report import computing
from gpuwright.launch.running.rule import RunningRank, findings

NEAR = "0-9,20-29"
FAR = "10-19,30-39"
CARDS = ["0000:3b:00.0", "0000:af:00.0"]


def process(
    root: Path,
    pid: int,
    cpus: str,
    parent: int = 1,
    memory: dict[int, int] | None = None,
    **environ: str,
) -> None:
    """A process in the made-up table; `memory` is {node: MiB}."""
    write(root, f"proc/{pid}/comm", "python")
    write(root, f"proc/{pid}/stat", f"{pid} (python) S {parent} 1 1")
    write(root, f"proc/{pid}/status", f"Name:\tpython\nCpus_allowed_list:\t{cpus}")
    (root / f"proc/{pid}/environ").write_bytes(
        b"".join(f"{name}={value}\0".encode() for name, value in environ.items())
    )
    pages = " ".join(f"N{node}={size * 256}" for node, size in (memory or {}).items())
    total = sum((memory or {}).values()) * 256
    lines = [f"7f0000000000 default anon={total} dirty={total} {pages} kernelpagesize_kB=4"] if total else []
    # Pages of a file, on whatever node they were first read.
    lines += ["7f1000000000 default file=/lib/libc.so.6 mapped=400 N0=200 N1=200 kernelpagesize_kB=4"]
    write(root, f"proc/{pid}/numa_maps", "\n".join(lines))


def machine(root: Path) -> Path:
    relate(two_sockets(root), {0: 0, 1: 1})
    write(root, "proc/1/comm", "systemd")
    write(root, "proc/1/stat", "1 (systemd) S 0 1 1")
    return root


def rank(index: int, threads: int = 10, **more: str) -> dict[str, Any]:
    return {"LOCAL_RANK": str(index), "LOCAL_WORLD_SIZE": "2", "OMP_NUM_THREADS": str(threads), **more}


def wrong(root: Path, cards: dict[int, list[str]] | None = None, only: int | None = None) -> list[str]:
    rows = read_ranks({10: CARDS[:1], 11: CARDS[1:]} if cards is None else cards, str(root), only)
    return findings([as_rank(row) for row in rows])


def test_ranks_with_parts_of_their_own_are_fine(tmp_path: Path) -> None:
    root = machine(tmp_path)
    process(root, 10, NEAR, memory={0: 4000, 1: 100}, **rank(0))
    process(root, 11, FAR, memory={1: 4000}, **rank(1))
    # A DataLoader worker has all that its rank has.
    process(root, 12, NEAR, 10, **rank(0))
    rows = read_ranks({10: CARDS[:1], 11: CARDS[1:], 12: CARDS[:1]}, str(root))
    assert [row["pid"] for row in rows] == [10, 11]
    assert rows[0] == {
        **{"pid": 10, "name": "python", "cpus": NEAR, "cores": "0-9", "threads": 10, "cards": CARDS[:1]},
        **{"near": NEAR, "memory_mib": 4100, "far_mib": 100},
    }
    assert wrong(root) == []


def test_ranks_on_the_same_cpus_are_told_once_with_their_threads(tmp_path: Path) -> None:
    root = machine(tmp_path)
    process(root, 10, "0-39", **rank(0, 20))
    process(root, 11, "0-39", **rank(1, 20))
    same, threads = wrong(root)
    assert "python (pid 10), python (pid 11) run on the same CPUs, of 0-39" in same
    assert "40 OpenMP threads for 20 core(s)" in threads
    process(root, 10, "0-39", **rank(0, 1))
    process(root, 11, "5,25", **rank(1, 1))
    assert [text.partition(" run on")[0] for text in wrong(root, {})] == ["python (pid 10), python (pid 11)"]


@pytest.mark.parametrize(("threads", "found"), [("10", 0), ("11", 1), ("40,2", 1), ("", 0), ("many", 0)])
def test_more_threads_than_cores(tmp_path: Path, threads: str, found: int) -> None:
    root = machine(tmp_path)
    process(root, 10, NEAR, **{**rank(0), "OMP_NUM_THREADS": threads})
    assert len(wrong(root, {10: CARDS[:1]})) == found


@pytest.mark.parametrize(
    ("memory", "found"), [({0: 300, 1: 101}, 0), ({0: 3000, 1: 900}, 0), ({0: 600, 1: 255}, 0), ({0: 600, 1: 256}, 1)]
)
def test_memory_on_the_far_node(tmp_path: Path, memory: dict[int, int], found: int) -> None:
    root = machine(tmp_path)
    process(root, 10, NEAR, memory=memory, **rank(0))
    told = wrong(root, {10: CARDS[:1]})
    assert len(told) == found and all("256 of 856 MiB lie on a far NUMA node" in text for text in told)


def test_memory_of_a_gpu_and_of_the_same_socket_is_not_far(tmp_path: Path) -> None:
    root = build(tmp_path, {0: "0-3", 1: "4-7", 2: "8-15", 3: ""}, {CARDS[0]: 0})
    relate(root, {0: 0, 1: 0, 2: 1, 3: 9})
    process(root, 10, "0-3", memory={0: 100, 1: 1000, 3: 5000}, **rank(0, 4))
    assert wrong(root, {10: CARDS[:1]}) == []
    process(root, 10, "0-3", memory={0: 100, 2: 1000, 3: 500}, **rank(0, 4))
    assert len(wrong(root, {10: CARDS[:1]})) == 1


def test_two_ranks_on_one_gpu_and_a_rank_far_from_its_own(tmp_path: Path) -> None:
    """Every rank of a script that never calls set_device has a context on GPU 0."""
    root = machine(tmp_path)
    process(root, 10, NEAR, **rank(0))
    process(root, 11, FAR, **rank(1))
    (both,) = wrong(root, {10: CARDS[:1], 11: CARDS})
    assert "compute on one GPU, 0000:3b:00.0" in both and "set_device" in both
    (away,) = wrong(root, {10: CARDS[:1], 11: []}) or [""]
    assert away == ""
    process(root, 11, "5-9", **rank(1, 5))
    process(root, 10, "0-4", **rank(0, 5))
    (away,) = wrong(root)
    assert "python (pid 11) runs on CPUs 5-9, none of which is near its GPU 0000:af:00.0" in away and FAR in away


def test_children_with_gpus_of_their_own_are_ranks(tmp_path: Path) -> None:
    """torch.multiprocessing.spawn: no variable, and a parent that may hold a GPU itself."""
    root = machine(tmp_path)
    process(root, 10, NEAR)
    process(root, 11, FAR, 10)
    assert [row["pid"] for row in read_ranks({10: CARDS[:1], 11: CARDS[1:]}, str(root))] == [10, 11]
    assert [row["pid"] for row in read_ranks({10: CARDS[:1], 11: CARDS[:1]}, str(root))] == [10]


def test_one_process_and_what_it_started(tmp_path: Path) -> None:
    root = machine(tmp_path)
    process(root, 9, "0-39")
    process(root, 10, NEAR, 9, **rank(0))
    process(root, 11, FAR, 9, **rank(1))
    process(root, 20, "0-39", **rank(0))
    assert [row["pid"] for row in read_ranks({}, str(root), 9)] == [10, 11]
    assert [row["pid"] for row in read_ranks({}, str(root), 11)] == [11]
    assert [row["pid"] for row in read_ranks({}, str(root))] == [10, 11, 20]
    process(root, 30, "0-39", 1)
    assert [row["pid"] for row in read_ranks({}, str(root), 30)] == [30]
    with pytest.raises(OSError, match="there is no process 77"):
        read_ranks({}, str(root), 77)


def test_a_kernel_without_numa_has_no_far_memory(tmp_path: Path) -> None:
    root = machine(tmp_path)
    process(root, 10, NEAR, **rank(0))
    (root / "proc/10/numa_maps").unlink()
    (row,) = read_ranks({}, str(root))
    assert (row["memory_mib"], row["far_mib"]) == (0, 0)


def test_what_may_not_be_read_is_said_and_the_rest_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = machine(tmp_path)
    process(root, 10, NEAR)
    process(root, 11, NEAR)

    def guarded(path: str, mode: str = "r") -> object:
        if Path(path).name in ("environ", "numa_maps"):
            raise PermissionError(13, "Permission denied", path)
        return Path(path).open(mode)

    monkeypatch.setattr(running, "open", guarded, raising=False)
    rows = read_ranks({10: CARDS[:1], 11: CARDS[1:]}, str(root))
    assert rows[0]["threads"] == {
        "unreadable": "/proc/10/environ is for its owner and root, or did not answer",
        "only_root": True,
    }
    assert rows[0]["memory_mib"]["only_root"] is True
    ranks = [as_rank(row) for row in rows]
    assert ranks[0] == RunningRank(10, "python", {*range(10), *range(20, 30)}, set(range(10)), None, CARDS[:1],
                                   {*range(10), *range(20, 30)}, None, None)  # fmt: skip
    assert len(findings(ranks)) == 2


def test_the_batch_script_of_slurm_is_no_rank_and_its_tasks_are(tmp_path: Path) -> None:
    root = dgx1(tmp_path)
    process(root, 10, "0-79", SLURM_LOCALID="0")
    process(root, 11, "0-9", 10, SLURM_LOCALID="0", SLURM_STEP_TASKS_PER_NODE="2")
    process(root, 12, "10-19", 10, SLURM_LOCALID="1", SLURM_STEP_TASKS_PER_NODE="2")
    assert [row["pid"] for row in read_ranks({}, str(root))] == [11, 12]


@pytest.mark.parametrize(
    ("answer", "found", "said"),
    [
        ("123, 00000000:3B:00.0\\n124, 00000000:AF:00.0\\n123, 00000000:AF:00.0\\n", True, ""),
        ("\\n", None, ""),
        ("[Not Supported], 1\\n", None, "expected a pid"),
    ],
)
def test_nvidia_smi_says_who_computes(
    fake_bin, monkeypatch: pytest.MonkeyPatch, answer: str, found: object, said: str
) -> None:
    tool = fake_bin("nvidia-smi", f"#!/bin/sh\nprintf '{answer}'\n")
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    assert computing()[0] == ({123: CARDS, 124: CARDS[1:]} if found else {})
    assert said in computing()[1]


@pytest.fixture
def sleeping(node_python: str) -> Iterator[subprocess.Popen]:
    """A rank as the kernel has it."""
    environ = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "OMP_NUM_THREADS": "4096"}
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=environ)
    time.sleep(0.2)
    yield child
    child.kill()
    child.wait()


def test_a_real_process_is_looked_at(gpu_run: Path, sleeping: subprocess.Popen) -> None:
    done = subprocess.run(
        [gpu_run, "--check", str(sleeping.pid)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "4096 OpenMP threads for" in done.stdout and f"pid {sleeping.pid}" in done.stdout
    told = subprocess.run(
        [gpu_run, "--check", "--json", str(sleeping.pid)], stdout=subprocess.PIPE, timeout=60, check=False
    )
    (row,) = json.loads(told.stdout)["ranks"]
    assert row["memory_mib"] > 0 and row["threads"] == 4096


@pytest.mark.parametrize(
    "words", [["--check", "0"], ["--check", "x"], ["--check", "1", "2"], ["--check", "--gpus", "0"]]
)
def test_bad_words_of_the_check(gpu_run: Path, words: list[str]) -> None:
    done = subprocess.run([gpu_run, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 125 and done.stderr.count("\n") == 1


def test_a_process_that_is_not_there(gpu_run: Path) -> None:
    done = subprocess.run([gpu_run, "--check", "999999999"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (125, "gpu-run: --check: there is no process 999999999\n")
