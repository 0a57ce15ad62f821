"""Data parallelism over gloo: processes that torchrun starts, as on a node with GPUs."""

from __future__ import annotations

import functools
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import forked
import pytest
import torch
from conftest import PATIENCE, TINY, kept_state, trainer_environment

from gan_trainer.config import make_config
from gan_trainer.engine.loop import Trainer
from gan_trainer.engine.train import train
from gan_trainer.parallel import distributed
from gan_trainer.precision import Precision
from gan_trainer.runs.checkpoint import list_checkpoints

# Batch norm's statistics depend on the number of processes on a CPU; this network has none.
NORM_FREE = {**TINY, "model": "r3gan", "loss": "relativistic", "r1_gamma": 1.0, "r2_gamma": 1.0, "batch_size": 8}

GRADIENTS = """
import json, sys, torch
from gan_trainer.config import make_config
from gan_trainer.parallel.distributed import join
from gan_trainer.engine.loop import Trainer
from gan_trainer.precision import Precision
torch.set_num_threads(1)
with join(on_gpu=False) as ranks:
    values, found = json.loads(sys.argv[1]), []
    for accumulate in (1, 2):
        config = make_config({**values, "accumulate": accumulate})
        trainer = Trainer(config, torch.device("cpu"), Precision("fp32", ""), ranks)
        whole = torch.randint(0, 256, (8, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
        for _ in range(2):
            trainer.step(ranks.part(whole))
        networks = trainer.networks.values()
        state = {"gradients": [p.grad for n in networks for p in n.parameters()], "own": trainer.watch.losses}
        state["parameters"] = [p.detach() for n in networks for p in n.parameters()]
        found.append(state)
    torch.save(found, f"{sys.argv[2]}/{ranks.rank}.pt")
"""


def torchrun(processes: int, *arguments: str) -> list[str]:
    options = ["--standalone", f"--nproc-per-node={processes}"]
    return [sys.executable, "-m", "torch.distributed.run", *options, *arguments]


def run_steps(folder: Path, processes: int, values: dict) -> list[list[dict]]:
    """What each rank holds after two steps on the same global batches, without and with accumulation."""
    folder.mkdir()
    script = folder / "steps.py"
    script.write_text(GRADIENTS)
    words = [str(script), json.dumps(values), str(folder)]
    forked.run_ranks(processes, words, trainer_environment(), PATIENCE)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(processes)]


def assert_close(first: list, second: list, rtol: float) -> None:
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        assert float((one - other).norm()) <= rtol * float(other.norm()) + 1e-7


def test_no_rank_goes_on_before_all_are_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first fault would close connections while others still connect: gloo's message in place of the fault."""
    for name, value in {"RANK": "0", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    done: list[str] = []
    for called in ("init_process_group", "barrier", "destroy_process_group"):
        note = functools.partial(lambda called, *_, **__: done.append(called), called)
        monkeypatch.setattr(torch.distributed, called, note)
    with distributed.join(on_gpu=False):
        done.append("work")
    assert done == ["init_process_group", "barrier", "work", "destroy_process_group"]


@pytest.fixture(scope="module")
def alone() -> dict:
    trainer = Trainer(make_config(NORM_FREE), torch.device("cpu"), Precision("fp32", ""))
    images = torch.randint(0, 256, (8, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    for _ in range(2):
        trainer.step(images)
    parameters = [p for network in trainer.networks.values() for p in network.parameters()]
    return {"gradients": [p.grad for p in parameters], "parameters": [p.detach() for p in parameters]}


@pytest.mark.parametrize("processes", [2, 4])
def test_gradients_are_equal_on_all_ranks_and_those_of_one_process(processes: int, alone: dict, tmp_path: Path) -> None:
    for ranks in zip(*run_steps(tmp_path / "n", processes, NORM_FREE), strict=True):
        for other in ranks[1:]:
            for key in ("gradients", "parameters"):
                assert all(torch.equal(*pair) for pair in zip(other[key], ranks[0][key], strict=True))
            assert not torch.equal(other["own"], ranks[0]["own"]), "each rank must have images of its own"
        assert_close(ranks[0]["gradients"], alone["gradients"], 2e-3)
        assert_close(ranks[0]["parameters"], alone["parameters"], 1e-3)


def losses(folder: Path) -> list[list[float]]:
    lines = [json.loads(line) for line in (folder / "stats.jsonl").read_text().splitlines()]
    return [[line[key] for key in ("step", "d_loss", "g_loss", "penalty")] for line in lines]


def config_file(folder: Path, **changes: object) -> Path:
    values = {**NORM_FREE, "device": "cpu", "steps": 6, "log_every": 1, "checkpoint_every": 3, **changes}
    file = folder / "config.yml"
    file.write_text("".join(f"{key}: {value}\n" for key, value in values.items()))
    return file


@pytest.mark.long
def test_two_processes_train_as_one_does_and_resume_as_one(tmp_path: Path) -> None:
    values = {**NORM_FREE, "device": "cpu", "steps": 6, "log_every": 1, "checkpoint_every": 3}
    train(make_config({**values, "run_dir": str(tmp_path / "one")}))
    file = config_file(tmp_path, run_dir=tmp_path / "two")
    words = ["-m", "gan_trainer.cli", "--config", str(file)]
    # The first half by torchrun itself.
    command = torchrun(2, *words, "steps=3")
    done = subprocess.run(command, env=trainer_environment(), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    resumed = "".join(forked.run_ranks(2, [*words, "steps=6"], trainer_environment(), PATIENCE))
    for said, verb, step in ((done.stdout, "starts", 3), (resumed, "resumes after step 3", 6)):
        assert said.count(f"train-gan: {verb} on 2 processes, fp32") == 1
        assert said.count(f"step {step}/{step} ") == 1, "one rank prints"
    assert [line[0] for line in losses(tmp_path / "two")] == [1, 2, 3, 4, 5, 6]
    for two, one in zip(losses(tmp_path / "two"), losses(tmp_path / "one"), strict=True):
        assert two == pytest.approx(one, rel=1e-3)
    assert [path.name for path in list_checkpoints(tmp_path / "two")] == [
        "checkpoint-0000000006.pt",
        "checkpoint-0000000003.pt",
    ]
    # Two processes' checkpoint is one's: any number may go on with it.
    one, two = (kept_state(tmp_path / name)["generator"] for name in ("one", "two"))
    assert_close(list(two.values()), list(one.values()), 1e-3)


def test_signal_to_torchrun_saves_one_checkpoint(tmp_path: Path) -> None:
    file = config_file(tmp_path, run_dir=tmp_path / "run", steps=10**6, checkpoint_every=10**6, log_every=5)
    command = torchrun(2, "-m", "gan_trainer.cli", "--config", str(file))
    output: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, env=trainer_environment(), **output) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("step 10/"):
                break
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
    assert kept_state(tmp_path / "run")["step"] >= 10


ONE_FAILS = """
import sys, torch
from gan_trainer.config import make_config
from gan_trainer.engine.compiled import compile_networks
from gan_trainer.engine.loop import Trainer
from gan_trainer.parallel.distributed import join
from gan_trainer.precision import Precision
torch.set_num_threads(1)
with join(on_gpu=False) as ranks:
    def compiler(function):
        if ranks.rank == 1:
            raise RuntimeError("no compiler on this node")
        return lambda *inputs: function(*inputs)
    config = make_config({**eval(sys.argv[1]), "compile": "on"})
    trainer = Trainer(config, torch.device("cpu"), Precision("fp32", ""), ranks)
    lines = compile_networks(trainer, compiler)
    for _ in range(2):
        trainer.step(torch.zeros(4, 3, 32, 32, dtype=torch.uint8))
    replaced = "forward" in vars(trainer.networks["generator"])
    torch.save([lines, trainer.watch.losses, replaced], f"{sys.argv[2]}/{ranks.rank}.pt")
"""


def test_a_compiler_that_fails_on_one_rank_leaves_none_waiting(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(ONE_FAILS)
    words = [str(tmp_path / "steps.py"), repr(NORM_FREE), str(tmp_path)]
    forked.run_ranks(2, words, trainer_environment(), PATIENCE)
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1))
    assert first[0] == [f"{name} runs eagerly: compiling failed on another process" for name in PARTS]
    assert second[0] == [f"{name} runs eagerly: RuntimeError: no compiler on this node" for name in PARTS]
    # Both take the same path, and train.
    assert first[2] == second[2] and bool(torch.isfinite(first[1]).all() and torch.isfinite(second[1]).all())


PARTS = ("generator", "discriminator", "gradient penalty")
