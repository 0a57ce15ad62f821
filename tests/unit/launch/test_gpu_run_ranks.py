"""How gpu-run learns which rank it is, what the launcher has arranged already, and which GPUs Slurm granted."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gpu_run_machines import build, choose, dgx1, memory, spread_over, two_sockets, with_driver, write
from gpuwright.host.topology import format_cpu_list, parse_cpu_list
from gpuwright.launch.ranks import (
    RANK_VARIABLES,
    SLURM_COUNT,
    SLURM_RANK,
    Launcher,
    Rank,
    bound_by,
    find_launcher,
    find_rank,
    is_launcher,
)
from gpuwright.launch.runtime_policy import LaunchError

SLURM = {"SLURM_STEP_ID": "0", "SLURM_NODEID": "0", "SLURM_STEP_TASKS_PER_NODE": "8"}

TORCHRUN = {"TORCHELASTIC_RUN_ID": "none"}
PMI = {"PMI_LOCAL_RANK": "1", "PMI_LOCAL_SIZE": "4"}


def mpirun(index: int, count: int) -> dict[str, str]:
    return {"OMPI_COMM_WORLD_LOCAL_RANK": str(index), "OMPI_COMM_WORLD_LOCAL_SIZE": str(count)}


@pytest.mark.parametrize(
    ("environ", "rank"),
    [
        ({}, None),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}, Rank(1, 4, "LOCAL_RANK")),
        ({"LOCAL_RANK": "3"}, Rank(3, None, "LOCAL_RANK")),
        ({"LOCAL_RANK": "0"}, Rank(0, None, "LOCAL_RANK")),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "0"}, Rank(0, None, "OMPI_COMM_WORLD_LOCAL_RANK")),
        ({"SLURM_LOCALID": "2", "SLURM_STEP_ID": "0"}, Rank(2, None, "SLURM_LOCALID")),
        ({"SLURM_LOCALID": "0", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1"}, None),
        # A person's shell, whose other tasks have ended.
        ({"SLURM_LOCALID": "0", **SLURM, "SLURM_PTY_PORT": "40123"}, None),
        ({"PALS_LOCAL_RANKID": "2", "PALS_LOCAL_SIZE": "4"}, Rank(2, 4, "PALS_LOCAL_RANKID")),
        ({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}, Rank(0, 1, "LOCAL_RANK")),
        # DeepSpeed's own launcher.
        ({"LOCAL_RANK": "5", "LOCAL_SIZE": "8"}, Rank(5, 8, "LOCAL_RANK")),
        ({"LOCAL_WORLD_SIZE": "4"}, None),
        ({"LOCAL_RANK": "", "LOCAL_WORLD_SIZE": ""}, None),
        (
            {"OMPI_COMM_WORLD_LOCAL_RANK": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"},
            Rank(2, 4, "OMPI_COMM_WORLD_LOCAL_RANK"),
        ),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, None),
        ({"MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}, Rank(1, 2, "MPI_LOCALRANKID")),
        ({"MV2_COMM_WORLD_LOCAL_RANK": "1", "MV2_COMM_WORLD_LOCAL_SIZE": "2"}, Rank(1, 2, "MV2_COMM_WORLD_LOCAL_RANK")),
        ({"SLURM_LOCALID": "3", **SLURM}, Rank(3, 8, "SLURM_LOCALID")),
        (
            {"SLURM_LOCALID": "1", **SLURM, "SLURM_STEP_TASKS_PER_NODE": "4(x2),2", "SLURM_NODEID": "2"},
            Rank(1, 2, "SLURM_LOCALID"),
        ),
        ({"SLURM_LOCALID": "1", "SLURM_STEP_ID": "0", "SLURM_NTASKS_PER_NODE": "4"}, Rank(1, 4, "SLURM_LOCALID")),
        # The batch script is no step; a step of one task has all GPUs.
        ({"SLURM_LOCALID": "0", "SLURM_NTASKS_PER_NODE": "4"}, None),
        ({"SLURM_LOCALID": "0", **SLURM, "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}, None),
        # torchrun of two ranks in each of eight tasks of srun: sixteen processes.
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "SLURM_LOCALID": "0", **SLURM}, Rank(1, 16, "LOCAL_RANK", 2)),
        ({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "SLURM_LOCALID": "3", **SLURM}, Rank(6, 16, "LOCAL_RANK", 2)),
        (
            {**TORCHRUN, "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "4", **mpirun(1, 2)},
            Rank(6, 8, "LOCAL_RANK", 4),
        ),
        # The same numbers by chance, but two launchers.
        ({**TORCHRUN, "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", **mpirun(1, 2)}, Rank(3, 4, "LOCAL_RANK", 2)),
        # One torchrun, or one DeepSpeed, per host, started by mpirun or srun.
        ({**TORCHRUN, "LOCAL_RANK": "5", "LOCAL_WORLD_SIZE": "8", **mpirun(0, 1)}, Rank(5, 8, "LOCAL_RANK")),
        (
            {"LOCAL_RANK": "5", "LOCAL_SIZE": "8", **SLURM, "SLURM_STEP_TASKS_PER_NODE": "1(x2)"},
            Rank(5, 8, "LOCAL_RANK"),
        ),
        # A script below mpirun that gives the rank torch's name.
        ({"LOCAL_RANK": "3", **mpirun(3, 8)}, Rank(3, 8, "OMPI_COMM_WORLD_LOCAL_RANK")),
        ({"LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "8", **mpirun(3, 8)}, Rank(3, 8, "OMPI_COMM_WORLD_LOCAL_RANK")),
        # Inner ranks whose number nobody says.
        ({**TORCHRUN, "LOCAL_RANK": "1", **mpirun(0, 2)}, Rank(1, None, "LOCAL_RANK")),
        # One launcher with two names for the same.
        ({"PALS_LOCAL_RANKID": "1", "PALS_LOCAL_SIZE": "4", **PMI}, Rank(1, 4, "PALS_LOCAL_RANKID")),
    ],
)
def test_rank_is_read_as_its_launcher_means_it(environ: dict, rank: Rank | None) -> None:
    assert find_rank(environ) == rank


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"LOCAL_RANK": "4", "LOCAL_WORLD_SIZE": "4"}, "LOCAL_RANK=4 is not below LOCAL_WORLD_SIZE=4"),
        ({"LOCAL_RANK": "-1"}, "LOCAL_RANK='-1': expected a whole number from 0"),
        ({"LOCAL_RANK": "one"}, "LOCAL_RANK='one': expected a whole number from 0"),
        ({"LOCAL_RANK": "1.0"}, "expected a whole number"),
        ({"LOCAL_WORLD_SIZE": "0"}, "LOCAL_WORLD_SIZE='0': expected a whole number from 1"),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "x"}, "OMPI_COMM_WORLD_LOCAL_RANK='x'"),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, "is not below"),
        ({"MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "none"}, "MPI_LOCALNRANKS='none'"),
        ({"SLURM_LOCALID": "x", "SLURM_STEP_ID": "0"}, "SLURM_LOCALID='x'"),
        ({"SLURM_LOCALID": "8", **SLURM}, "SLURM_LOCALID=8, but this node has 8 task(s)"),
        ({"SLURM_LOCALID": "0", **SLURM, "SLURM_NODEID": "a"}, "SLURM_NODEID='a'"),
    ],
)
def test_rank_that_cannot_be_is_one_sentence(environ: dict, message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        find_rank(environ)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def launcher(cpus: str = "0-79", *words: str, **environment: str) -> Launcher:
    return Launcher(parse_cpu_list(cpus), ["python", "torchrun", *words], environment)


RANK_5 = {"LOCAL_RANK": "5", "LOCAL_WORLD_SIZE": "8"}


def test_cpus_that_the_launcher_gave_are_not_divided_again(tmp_path: Path) -> None:
    """torchrun --numa-binding=exclusive has already given rank 5 its five cores."""
    root = dgx1(tmp_path)
    bound = choose(root, RANK_5, allowed="25-29,65-69", launcher=launcher("0-79"))
    assert format_cpu_list(bound.cpus) == "25-29,65-69"
    assert bound.environment["OMP_NUM_THREADS"] == "5"
    assert any("bound by the launcher" in row[2] for row in bound.rows)
    node = choose(root, RANK_5, allowed="20-39,60-79", launcher=launcher("0-79", "--numa-binding=node"))
    assert format_cpu_list(node.cpus) == "20-39,60-79"
    assert any("bound by torchrun --numa-binding" in row[2] for row in node.rows)


@pytest.mark.parametrize(
    ("allowed", "words", "threads"),
    [
        # torchrun's whole node and Open MPI's whole socket go to four ranks each.
        ("20-39,60-79", ["--numa-binding=node"], "5"),
        ("20-39,60-79", [], "5"),
        ("25-29,65-69", [], "5"),
        ("25,65", [], "1"),
    ],
)
def test_threads_are_divided_among_the_ranks_of_one_mask(
    tmp_path: Path, allowed: str, words: list[str], threads: str
) -> None:
    decision = choose(dgx1(tmp_path), RANK_5, allowed=allowed, launcher=launcher("0-79", *words))
    assert decision.environment["OMP_NUM_THREADS"] == threads
    assert format_cpu_list(decision.cpus) == allowed and decision.warnings == []


def test_a_rank_that_is_bound_away_from_its_gpu_is_told(tmp_path: Path) -> None:
    decision = choose(dgx1(tmp_path), RANK_5, allowed="0-19,40-59", launcher=launcher("0-79"))
    (warning,) = decision.warnings
    assert "rank 5 is bound by the launcher to no CPU of NUMA node 1" in warning and "--bind-to none" in warning
    assert decision.environment["OMP_NUM_THREADS"] == "5"


@pytest.mark.parametrize("command", [("bash", "launch.sh"), ("./train.sh",), ("/bin/sh", "-c", "torchrun x.py")])
def test_threads_of_a_script_that_may_start_ranks_are_left_to_them(tmp_path: Path, command: tuple[str, ...]) -> None:
    dgx1(tmp_path)
    decision = choose(tmp_path, command=command)
    assert "OMP_NUM_THREADS" not in decision.changed
    assert [command[0] in warning for warning in decision.warnings] == [True]
    alone = choose(tmp_path, command=command, gpus="1")
    assert (alone.environment["OMP_NUM_THREADS"], alone.warnings) == ("20", [])
    asked = choose(tmp_path, command=command, threads=4)
    assert (asked.environment["OMP_NUM_THREADS"], asked.warnings) == ("4", [])


def test_cpus_of_the_whole_job_are_divided(tmp_path: Path) -> None:
    """taskset around torchrun narrows the launcher too: that is a limit, and nobody has divided anything."""
    decision = choose(dgx1(tmp_path), RANK_5, allowed="20-27,60-67", launcher=launcher("20-27,60-67"))
    # Eight cores for the four ranks of node 1 and those of node 0, which the job may not use: one core for each.
    assert format_cpu_list(decision.cpus) == "25,65"


@pytest.mark.parametrize(
    ("kind", "masks", "bound"),
    [
        ("", "", ""),
        ("none", "", ""),
        ("mask_cpu:", "0xFF,0xFF", ""),
        ("mask_cpu:", "0x0F,0xF0", "srun --cpu-bind"),
        ("map_cpu:", "0,1", "srun --cpu-bind"),
    ],
)
def test_binding_of_slurm_is_recognised(kind: str, masks: str, bound: str) -> None:
    environ = {"SLURM_CPU_BIND_TYPE": kind, "SLURM_CPU_BIND_LIST": masks}
    assert bound_by(Rank(0, 2, "SLURM_LOCALID"), environ, {0}, None) == bound


def test_torchruns_one_thread_is_replaced_and_the_callers_one_is_kept(tmp_path: Path) -> None:
    root = two_sockets(tmp_path)
    environ = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "OMP_NUM_THREADS": "1", "TORCHELASTIC_RUN_ID": "none"}
    assert choose(root, environ, launcher=launcher()).environment["OMP_NUM_THREADS"] == "10"
    theirs = launcher(OMP_NUM_THREADS="1")
    assert choose(root, environ, launcher=theirs).environment["OMP_NUM_THREADS"] == "1"
    assert choose(root, environ, launcher=None).environment["OMP_NUM_THREADS"] == "1"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["torchrun", "train.py"], True),
        (["/opt/venv/bin/torchrun", "--nproc-per-node=8", "train.py"], True),
        (["python", "-m", "torch.distributed.run", "train.py"], True),
        (["mpirun", "-n", "8", "python", "train.py"], True),
        (["python3.11", "/opt/venv/bin/torchrun", "train.py"], True),
        (["mpiexec.hydra", "-n", "8", "python", "train.py"], True),
        (["python", "-m", "deepspeed.launcher.runner", "train.py"], True),
        (["python", "torchrun.py"], False),
        (["python", "-m", "gan_trainer"], False),
        ([], False),
    ],
)
def test_command_that_starts_the_ranks_is_recognised(command: list, expected: bool) -> None:
    assert is_launcher(command) is expected


def test_command_that_starts_the_ranks_leaves_threads_and_memory_to_them(tmp_path: Path) -> None:
    decision = choose(two_sockets(tmp_path), gpus="0", command=("torchrun", "train.py"))
    assert "OMP_NUM_THREADS" not in decision.environment
    assert (format_cpu_list(decision.cpus), memory(decision)) == ("0-9,20-29", "none")
    asked = choose(tmp_path, gpus="0", command=("torchrun", "train.py"), threads=3, memory="preferred")
    assert (asked.environment["OMP_NUM_THREADS"], memory(asked)) == ("3", "preferred 0")


def test_launcher_is_the_ancestor_born_without_the_rank(tmp_path: Path) -> None:
    """A shell between torchrun and gpu-run has the rank too, so it is passed over."""
    code = """
import sys; sys.path.insert(0, sys.argv[1])
from gpuwright.launch.ranks import Rank, find_launcher
found = find_launcher(Rank(0, 2, "TEST_RANK"))
print(found.environment.get("TEST_MARK"), "-c" in found.command, len(found.cpus) > 0)
"""
    modules = str(Path(find_launcher.__code__.co_filename).parents[2])
    inner = [sys.executable, "-c", code, modules]
    outer = "import os, subprocess, sys; subprocess.run(['sh', '-c', '\"$@\"; true', 'sh', *sys.argv[1:]],"
    outer += " env={**os.environ, 'TEST_RANK': '0'})"
    done = subprocess.run(
        [sys.executable, "-c", outer, *inner],
        env={**os.environ, "TEST_MARK": "here"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.split() == ["here", "True", "True"], done.stderr


def test_slurm_gives_every_rank_its_gpus_and_they_do_not_overlap(tmp_path: Path) -> None:
    """--gpus-per-task=1 with constrained devices: each rank sees one device file, and the list of the whole step."""
    root = dgx1(tmp_path)
    everything: set[int] = set()
    for rank in range(8):
        for file in (root / "dev").glob("*") if (root / "dev").exists() else ():
            file.unlink()
        write(root, f"dev/nvidia{rank}", "")
        environ = {
            "SLURM_LOCALID": str(rank),
            **SLURM,
            "SLURM_STEP_GPUS": "0,1,2,3,4,5,6,7",
            "CUDA_VISIBLE_DEVICES": "0",
        }
        decision = choose(root, environ)
        assert [gpu.index for gpu in decision.gpus] == [0] and decision.gpus[0].minor == rank
        assert len(decision.cpus) == 10 and not decision.cpus & everything
        assert decision.cpus <= parse_cpu_list("0-19,40-59" if rank < 4 else "20-39,60-79")
        everything |= decision.cpus
    assert everything == set(range(80))


def test_slurm_grants_two_gpus_to_each_of_four_tasks(tmp_path: Path) -> None:
    root = dgx1(tmp_path)
    got = []
    for rank in range(4):
        environ = {
            "SLURM_LOCALID": str(rank),
            **SLURM,
            "SLURM_STEP_TASKS_PER_NODE": "4",
            "SLURM_JOB_GPUS": "0,1,2,3,4,5,6,7",
            "CUDA_VISIBLE_DEVICES": f"{2 * rank},{2 * rank + 1}",
        }
        got.append(format_cpu_list(choose(root, environ).cpus))
    assert got == ["0-9,40-49", "10-19,50-59", "20-29,60-69", "30-39,70-79"]


def test_gpus_that_slurm_granted_are_used_when_nothing_else_names_them(tmp_path: Path) -> None:
    decision = choose(dgx1(tmp_path), {"SLURM_JOB_GPUS": "4,5"})
    assert decision.environment["CUDA_VISIBLE_DEVICES"] == "4,5"
    assert format_cpu_list(decision.cpus) == "20-39,60-79"


def test_ranks_that_each_see_one_gpu_divide_by_rank(tmp_path: Path) -> None:
    """Nobody knows the siblings' GPUs, so all of them are taken to be on this node: small, but never shared."""
    root = two_sockets(tmp_path)
    seen = [
        choose(root, {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2", "CUDA_VISIBLE_DEVICES": "1"})
        for rank in range(2)
    ]
    assert [format_cpu_list(decision.cpus) for decision in seen] == ["10-14,30-34", "15-19,35-39"]


def test_more_ranks_than_gpus_take_turns_and_are_warned(tmp_path: Path) -> None:
    root = two_sockets(tmp_path)
    ranks = [choose(root, {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "4"}) for rank in range(4)]
    assert [format_cpu_list(decision.cpus) for decision in ranks] == [
        *("0-4,20-24", "10-14,30-34", "5-9,25-29", "15-19,35-39")
    ]
    assert all("4 ranks for 2 GPUs" in decision.warnings[0] for decision in ranks)


@pytest.mark.parametrize(
    ("files", "count", "threads"),
    [
        ({"proc/self/cgroup": "0::/job", "sys/fs/cgroup/job/cpu.max": "400000 100000"}, 1, "4"),
        ({"proc/self/cgroup": "0::/job", "sys/fs/cgroup/job/cpu.max": "400000 100000"}, 2, "2"),
        ({"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/cpu.max": "150000 100000"}, 1, "1"),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "max 100000"}, 1, "10"),
        ({"proc/self/cgroup": "0::/not/here", "sys/fs/cgroup/cpu.max": "50000 100000"}, 1, "1"),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/docker/1\n0::/docker/1",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "300000",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
            },
            1,
            "3",
        ),
        (
            {
                "proc/self/cgroup": "1:cpu:/x",
                "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000",
            },
            1,
            "10",
        ),
        ({"proc/self/cgroup": "0::/job", "sys/fs/cgroup/job/cpu.max": "broken"}, 1, "10"),
        ({"proc/self/cgroup": "0::/../..", "sys/fs/cgroup/cpu.max": "200000 100000"}, 1, "2"),
    ],
)
def test_quota_of_the_cgroup_limits_the_threads(files: dict, count: int, threads: str, tmp_path: Path) -> None:
    root = two_sockets(tmp_path)
    for name, text in files.items():
        write(root, name, text)
    environ = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": str(count)}
    assert choose(root, environ).environment["OMP_NUM_THREADS"] == threads


def test_cards_of_different_models_and_the_order_of_cuda(tmp_path: Path) -> None:
    gpus = spread_over("3b af", 0, 1)
    build(tmp_path, {0: "0-3", 1: "4-7"}, gpus, uuids=with_driver(gpus), models={"0000:af:00.0": "0x20b0"})
    fastest = choose(tmp_path, {"CUDA_DEVICE_ORDER": "FASTEST_FIRST", "CUDA_VISIBLE_DEVICES": "0"}, allowed="0-7")
    assert (format_cpu_list(fastest.cpus), memory(fastest)) == ("0-7", "none")
    assert "different models" in fastest.warnings[0]
    counted = choose(tmp_path, {"CUDA_VISIBLE_DEVICES": "0"}, allowed="0-7")
    assert format_cpu_list(counted.cpus) == "0-3" and "counts as nvidia-smi does" in counted.warnings[0]
    by_uuid = {"CUDA_DEVICE_ORDER": "FASTEST_FIRST", "CUDA_VISIBLE_DEVICES": "GPU-00000001-aaaa"}
    named = choose(tmp_path, by_uuid, allowed="0-7")
    assert format_cpu_list(named.cpus) == "4-7" and named.warnings == []


def test_cards_of_one_model_keep_the_order_of_the_bus(tmp_path: Path) -> None:
    decision = choose(two_sockets(tmp_path), {"CUDA_DEVICE_ORDER": "FASTEST_FIRST", "CUDA_VISIBLE_DEVICES": "1"})
    assert (format_cpu_list(decision.cpus), decision.warnings) == ("10-19,30-39", [])


def test_slices_of_a_gpu_lie_where_it_lies(tmp_path: Path, fake_bin, monkeypatch: pytest.MonkeyPatch) -> None:
    root = dgx1(tmp_path)
    old = choose(root, {"CUDA_VISIBLE_DEVICES": "MIG-GPU-00000004-aaaa/1/0"})
    assert [gpu.index for gpu in old.gpus] == [4]
    listing = "GPU 0: A100 (UUID: GPU-00000000-aaaa)\\n  MIG 1g.5gb Device 0: (UUID: MIG-aa)\\n"
    listing += "GPU 6: A100 (UUID: GPU-00000006-aaaa)\\n  MIG 1g.5gb Device 0: (UUID: MIG-bb)\\n"
    tool = fake_bin("nvidia-smi", f'#!/bin/sh\n[ "$1" = -L ] && printf "{listing}"\n')
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    new = choose(root, {"CUDA_VISIBLE_DEVICES": "MIG-bb,MIG-aa"})
    assert [gpu.index for gpu in new.gpus] == [6, 0] and new.warnings == []
    assert choose(root, {"CUDA_VISIBLE_DEVICES": "MIG-cc"}).warnings


@pytest.mark.parametrize("environ", [{"LOCAL_RANK": "5"}, {"OMPI_COMM_WORLD_LOCAL_RANK": "5"}])
def test_ranks_that_nobody_has_counted_are_not_divided_and_one_line_says_so(tmp_path: Path, environ: dict) -> None:
    decision = choose(dgx1(tmp_path), environ)
    assert (format_cpu_list(decision.cpus), memory(decision)) == ("20-39,60-79", "preferred 1")
    assert "OMP_NUM_THREADS" not in decision.changed
    (warning,) = decision.warnings
    assert f"{next(iter(environ))}=5" in warning and "_SIZE" in warning
    assert choose(tmp_path, environ, threads=3).environment["OMP_NUM_THREADS"] == "3"


def test_nested_ranks_share_the_host_and_number_their_own_gpus(tmp_path: Path) -> None:
    """mpirun -n 2, and in each of them torchrun with four ranks: eight processes, whose GPUs are cuda:0 to 3 twice."""
    root, taken = dgx1(tmp_path), list[Any]()
    for outer in range(2):
        for inner in range(4):
            environ = {**TORCHRUN, "LOCAL_RANK": str(inner), "LOCAL_WORLD_SIZE": "4", **mpirun(outer, 2)}
            decision = choose(root, environ)
            assert [gpu.index for gpu in decision.gpus] == [inner]
            assert not any(decision.cpus & other for other in taken)
            taken.append(decision.cpus)
    assert set().union(*taken) == parse_cpu_list("0-19,40-59")


def test_the_page_names_every_variable_that_is_read() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/runtime.md").read_text(encoding="utf-8")
    table = page.partition("| launcher |")[2].partition("\n\n")[0]
    read = {name for rank, counts in RANK_VARIABLES for name in (rank, *counts)} | {SLURM_RANK, SLURM_COUNT}
    # The other words in capitals there are settings, not ranks.
    said = set(re.findall(r"`([A-Z0-9_]+)`", table)) - {"I_MPI_PIN"}
    assert said == read


NESTED = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from gpuwright.launch.ranks import find_place
rank, launcher = find_place(os.environ)
print(json.dumps([rank.as_dict(), launcher.environment.get("TEST_LEVEL")]))
"""
# Argument: the levels, each an object of variables, whether to bind to one CPU, and a name that its parent has.
LEVEL = """
import json, os, subprocess, sys
levels = json.loads(sys.argv[1])
if not levels:
    sys.exit(subprocess.call(json.loads(sys.argv[2])))
level = levels.pop(0)
if level["cpus"]:
    os.sched_setaffinity(0, level["cpus"])
words = [sys.executable, "-c", sys.argv[3], json.dumps(levels), sys.argv[2], sys.argv[3]]
sys.exit(subprocess.call(words, env={**os.environ, **level["variables"]}))
"""


def nested(*levels: dict) -> list:
    modules = str(Path(find_launcher.__code__.co_filename).parents[2])
    inner = json.dumps([sys.executable, "-c", NESTED, modules])
    words = [sys.executable, "-c", LEVEL, json.dumps(levels), inner, LEVEL]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_inner_launcher_is_the_one_that_is_nearer(tmp_path: Path) -> None:
    torch = {"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "none"}
    first = {"variables": {"TEST_LEVEL": "1", **torch}, "cpus": []}
    second = {"variables": {"TEST_LEVEL": "2", **mpirun(1, 3)}, "cpus": []}
    below_torchrun, level = nested(first, second)
    assert below_torchrun == {"index": 7, "count": 12, "variable": "OMPI_COMM_WORLD_LOCAL_RANK", "each": 3}
    assert level == "1"
    below_mpirun, level = nested(second, first)
    assert below_mpirun == {"index": 6, "count": 12, "variable": "LOCAL_RANK", "each": 4} and level == "2"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU cannot be divided between launchers")
def test_ranks_of_an_outer_rank_with_cpus_of_its_own_divide_these_alone(tmp_path: Path) -> None:
    torch = {"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "none"}
    outer = {"variables": {"TEST_LEVEL": "1", **mpirun(1, 2)}, "cpus": []}
    bound = {"variables": {}, "cpus": [min(os.sched_getaffinity(0))]}
    inner = {"variables": {"TEST_LEVEL": "2", **torch}, "cpus": []}
    rank, _ = nested(outer, bound, inner)
    assert rank == {"index": 2, "count": 4, "variable": "LOCAL_RANK", "each": 4}


def test_nccl_is_told_only_what_the_policy_knows_and_only_to_several_ranks(tmp_path: Path) -> None:
    root, known = two_sockets(tmp_path), {"NCCL_SOCKET_IFNAME": "ib0"}
    assert choose(root, gpus="0,1", nccl=known).environment["NCCL_SOCKET_IFNAME"] == "ib0"
    assert choose(root, {"LOCAL_RANK": "0"}, nccl=known).environment["NCCL_SOCKET_IFNAME"] == "ib0"
    assert "NCCL_SOCKET_IFNAME" not in choose(root, gpus="0", nccl=known).environment
    assert choose(root, {"NCCL_SOCKET_IFNAME": "eth1"}, nccl=known).environment["NCCL_SOCKET_IFNAME"] == "eth1"
