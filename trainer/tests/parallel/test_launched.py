"""Which process a launcher says that this is, and that half of an answer is refused in one sentence."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys
from pathlib import Path

import forked
import pytest
from conftest import PACKAGE, PATIENCE, TINY, kept_state, trainer_environment

from gan_trainer.errors import UsageError
from gan_trainer.parallel.distributed import gpu_of
from gan_trainer.parallel.launched import FIRST_PORT, PORTS, Place, find_place, first_host, tasks_per_node

TORCH = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
SLURM = {
    **{"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "3"},
    **{"SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_STEP_TASKS_PER_NODE": "2(x2)"},
    **{"SLURM_STEP_NODELIST": "gpu[07-08]"},
}


def test_a_process_without_a_launcher_is_alone() -> None:
    assert find_place({"MASTER_ADDR": "a", "SLURM_JOB_ID": "1", "SLURM_LOCALID": "0", "SLURM_PROCID": "0"}) is None
    assert find_place({**SLURM, "SLURM_STEP_NUM_TASKS": "1"}) is None
    assert find_place({**SLURM, "SLURM_PTY_PORT": "3000"}) is None
    assert find_place({"PMI_SIZE": "1"}) is None


def test_torchrun_below_srun_counts() -> None:
    assert find_place({**SLURM, **TORCH}) == Place(5, 8, 1, 4)
    assert find_place({**TORCH, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}) == Place(
        0, 1, 0, 1
    )


def test_srun_counts_and_the_first_host_is_where_all_meet() -> None:
    port = FIRST_PORT + 4711 * 31 % PORTS
    assert find_place(SLURM) == Place(3, 4, 1, 2, f"tcp://gpu07:{port}")
    other = find_place({**SLURM, "SLURM_STEP_ID": "1"})
    assert other is not None and other.meet == f"tcp://gpu07:{port + 1}"
    given = find_place({**SLURM, "MASTER_ADDR": "ib-7", "MASTER_PORT": "29500"})
    assert given is not None and given.meet == "tcp://ib-7:29500"
    one = {
        **SLURM,
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "2",
        "SLURM_NODEID": "0",
        "SLURM_PROCID": "1",
    }
    assert find_place(one) == Place(1, 2, 1, 2, f"tcp://127.0.0.1:{port}")
    # Older names, and the job's list where the step's is missing.
    old = {**SLURM, "SLURM_STEPID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_NODELIST": "gpu[07-08]"}
    for name in ("SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST"):
        del old[name]
    assert find_place(old) == Place(3, 4, 1, 2, f"tcp://gpu07:{port}")


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        *(({name: "1"}, set(TORCH) - {name}) for name in TORCH),
        *(({**TORCH, name: ""}, {name}) for name in TORCH),
        ({"RANK": "0", "WORLD_SIZE": "2"}, {"LOCAL_RANK", "LOCAL_WORLD_SIZE"}),
        ({**TORCH, "RANK": "8"}, {"RANK=8", "WORLD_SIZE=8"}),
        ({**TORCH, "LOCAL_RANK": "4"}, {"LOCAL_RANK=4"}),
        ({**TORCH, "RANK": "one"}, {"RANK='one'"}),
        ({**TORCH, "WORLD_SIZE": "0", "RANK": "0"}, {"WORLD_SIZE='0'"}),
        ({**TORCH, "RANK": "-1"}, {"RANK='-1'"}),
        *(({**SLURM, name: ""}, {name}) for name in SLURM if name not in ("SLURM_JOB_ID", "SLURM_STEP_ID")),
        ({**SLURM, "SLURM_STEP_TASKS_PER_NODE": "2"}, {"SLURM_STEP_TASKS_PER_NODE=2", "4 tasks"}),
        ({**SLURM, "SLURM_STEP_TASKS_PER_NODE": "2(x"}, {"SLURM_STEP_TASKS_PER_NODE=2(x"}),
        ({**SLURM, "SLURM_PROCID": "4"}, {"SLURM_PROCID=4"}),
        ({**SLURM, "SLURM_LOCALID": "2"}, {"SLURM_LOCALID=2"}),
        ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}, {"OMPI_COMM_WORLD_SIZE"}),
        ({"PMI_SIZE": "4"}, {"PMI_SIZE"}),
    ],
)
def test_half_an_environment_is_refused_in_one_sentence(environ: dict[str, str], named: set[str]) -> None:
    with pytest.raises(UsageError) as refused:
        find_place(environ)
    said = str(refused.value)
    assert all(name in said for name in named) and "torchrun" in said and "\n" not in said
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        *(("n1", "n1"), ("n1,n2", "n1"), ("n[1-4]", "n1"), ("n[001-010,012]", "n001"), ("n[7,9]", "n7")),
        *(("gpu[07-09,12]-ib[0-1],login", "gpu07-ib0"), ("a-b.c,d", "a-b.c"), ("n[1-2]x,y[3]", "n1x")),
    ],
)
def test_the_first_host_of_a_list(nodes: str, first: str) -> None:
    assert first_host(nodes) == first


def test_tasks_of_each_node() -> None:
    assert tasks_per_node("4") == [4] and tasks_per_node("2(x3),1") == [2, 2, 2, 1]
    assert [tasks_per_node(text) for text in ("", "a", "2(x)", "2(xa)", "\u0662")] == [[]] * 5


def test_each_process_has_a_gpu() -> None:
    assert gpu_of(Place(3, 4, 3, 4), 4) == 3
    # srun --gpus-per-task: each process sees its own alone.
    assert gpu_of(Place(3, 4, 3, 4), 1) == 0
    with pytest.raises(UsageError, match="4 processes on this host, and this one, number 3, sees 2 GPUs"):
        gpu_of(Place(3, 4, 3, 4), 2)


def words_for(folder: Path) -> list[str]:
    config = folder / "c.yml"
    lines = {**TINY, "run_dir": str(folder / "run"), "device": "cpu", "steps": 2}
    config.write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
    return ["-m", "gan_trainer.cli", "--config", str(config)]


@pytest.mark.parametrize("missing", ["LOCAL_RANK", "SLURM_LOCALID", "MASTER_ADDR"])
def test_the_program_ends_with_2_and_names_what_is_missing(tmp_path: Path, run_trainer, missing: str) -> None:
    environ = {**(SLURM if missing.startswith("SLURM") else {**TORCH, "MASTER_ADDR": "localhost"})}
    del environ[missing]
    done = run_trainer(*words_for(tmp_path), env=environ)
    assert done.returncode == 2 and missing in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1 and not (tmp_path / "run").exists()


def test_two_tasks_of_srun_train_together(tmp_path: Path) -> None:
    """On one host, by Slurm's variables alone."""
    step = {**SLURM, "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_NODEID": "0"}
    # Ports of other runs of this test.
    step["SLURM_JOB_ID"] = str(1000 + hash(str(tmp_path)) % 100_000)
    words = words_for(tmp_path)
    ranks = [
        forked.Program(words, trainer_environment({**step, "SLURM_PROCID": rank, "SLURM_LOCALID": rank}))
        for rank in "01"
    ]
    ended = [rank.communicate(PATIENCE) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], ended
    assert "starts on 2 processes" in ended[0][0] and ended[1][0] == ""
    assert kept_state(tmp_path / "run")["step"] == 2


def told_by_gpu_job() -> dict[str, str]:
    """What gpu-job tells torchrun, as its source has it: it imports nothing of the trainer, nor this of it."""
    source = (PACKAGE.parent / "plugins/module_utils/launch/job.py").read_text()
    found = next(
        node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "OF_TORCHRUN"
    )
    return ast.literal_eval(found)


def test_this_torchrun_knows_what_gpu_job_tells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.distributed import run

    for name, value in told_by_gpu_job().items():
        monkeypatch.setenv(name, value)
    config, _, _ = run.config_from_args(run.parse_args(["--standalone", "--nproc-per-node=2", "train.py"]))
    assert config.shutdown_timeout == int(told_by_gpu_job()["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"])
    assert config.signals_to_handle == told_by_gpu_job()["PET_SIGNALS_TO_HANDLE"]


def test_sigusr1_to_torchrun_saves_a_checkpoint_and_leaves_nobody_behind(tmp_path: Path) -> None:
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "gan_trainer.cli"]
    words = [*launch, *words_for(tmp_path)[2:], "steps=100000", "log_every=1", "num_workers=0"]
    environment = trainer_environment(told_by_gpu_job())
    with subprocess.Popen(
        [sys.executable, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as started:
        assert started.stdout is not None
        said = ""
        while "step 1/" not in said:
            line = started.stdout.readline()
            assert line, said
            said += line
        started.send_signal(signal.SIGUSR1)
        # Ends with the last process that holds it.
        said += started.stdout.read()
    assert "stopped at step" in said, said
    assert kept_state(tmp_path / "run")["step"] > 0
