"""The trainer as tasks of srun, on a real Slurm: two nodes with two tasks each are one training."""

from __future__ import annotations

import json

from cluster import Cluster, trainer

# Each container's processor is shared by two tasks and the controller.
TINY = (
    "device: cpu\nimage_size: 32\nchannels: 4\nlatent_dim: 8\nbatch_size: 8\nsynthetic_images: 64\nnum_workers: 0\n"
    "sample_count: 4\ntensorboard: false\nmodel: residual\n"
)


def train(slurm: Cluster, name: str, words: str, before: str = "", check: bool = True) -> str:
    """One step of two nodes and four tasks; what all of them say."""
    environment, package = trainer()
    (slurm.folder / "common/c.yml").write_text(TINY)
    program = f"{environment}/bin/python -B -m gan_trainer.cli --config /common/c.yml run_dir=/common/{name} {words}"
    variables = f"export PYTHONPATH={package} OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=eth0"
    tasks = f"{before} srun --partition=shared --nodes=2 --ntasks=4 --ntasks-per-node=2 --overcommit --label"
    return slurm.sh("controller", f"cd /; {variables}; {tasks} {program}", check=check)


def steps(slurm: Cluster, name: str) -> list[int]:
    lines = (slurm.folder / "common" / name / "stats.jsonl").read_text().splitlines()
    return [json.loads(line)["step"] for line in lines]


def test_two_nodes_with_two_tasks_each_are_one_training(slurm: Cluster) -> None:
    said = train(slurm, "whole", "steps=3 log_every=1")
    assert "0: train-gan: starts on 4 processes" in said and steps(slurm, "whole") == [1, 2, 3]
    # Only the first task prints.
    assert {line.partition(":")[0].strip() for line in said.splitlines() if "train-gan" in line} == {"0"}, said
    assert "0: train-gan: resumes after step 3 on 4 processes" in train(slurm, "whole", "steps=4 log_every=1")


def test_the_signal_before_a_jobs_end_saves_one_checkpoint(slurm: Cluster) -> None:
    """As `#SBATCH --signal=USR1@120` sends it, to every task of the step."""
    folder = slurm.folder / "common/stopped"
    waits = "until [ -s /common/stopped/stats.jsonl ]; do sleep 1; done; scancel --signal=USR1 --user root"
    said = train(slurm, "stopped", "steps=100000 log_every=1", before=f"( {waits} ) &")
    assert "stopped at step" in said and "Traceback" not in said, said
    assert len(list(folder.glob("checkpoint-*.pt"))) == 1


def test_a_task_that_does_not_know_its_place_is_refused(slurm: Cluster) -> None:
    said = train(slurm, "half", "steps=1", before="export WORLD_SIZE=4;", check=False)
    assert "WORLD_SIZE say that there are several processes, without RANK, LOCAL_RANK" in said, said
    assert "Exited with exit code 2" in said and not (slurm.folder / "common/half").exists()
