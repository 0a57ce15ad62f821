"""A task that is no GAN: it trains, resumes, is drawn, exported and measured by the same engine."""

from __future__ import annotations

import json
from pathlib import Path

import forked
import pytest
import torch
from conftest import PATIENCE, TINY, kept_state, trainer_environment

from gan_trainer import cli
from gan_trainer.bench import tables
from gan_trainer.bench.tables import bench
from gan_trainer.config import ConfigError, make_config
from gan_trainer.engine.compiled import compile_networks
from gan_trainer.engine.loop import Trainer
from gan_trainer.engine.train import train
from gan_trainer.precision import Precision
from gan_trainer.runs.samples import generate

CPU, FP32 = torch.device("cpu"), Precision("fp32", "")
SMALL = {**TINY, "task": "flow", "flow_steps": 2, "device": "cpu", "steps": 4, "log_every": 1, "checkpoint_every": 2}


def losses(folder: Path) -> list[list]:
    lines = [json.loads(line) for line in (folder / "stats.jsonl").read_text().splitlines()]
    return [[line["step"], line["loss"]] for line in lines]


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("straight")
    train(make_config({**SMALL, "run_dir": str(folder), "distance_every": 4, "distance_images": 8}))
    return folder


def test_it_leaves_what_a_gan_leaves(straight: Path) -> None:
    line = json.loads((straight / "stats.jsonl").read_text().splitlines()[0])
    assert {"step", "loss", "lr_velocity", "loss_scale", "images_per_s"} <= set(line) and "d_loss" not in line
    state = kept_state(straight)
    assert {"velocity", "velocity_optimizer", "average", "scaler"} <= set(state) and "generator" not in state
    assert (straight / "samples/step-0000000004.png").exists() and (straight / "best.pt").exists()
    assert set(json.loads((straight / "memory.json").read_text())) == {"networks", "velocity", "update"}


def test_a_resumed_flow_equals_the_straight_one(straight: Path, tmp_path: Path) -> None:
    train(make_config({**SMALL, "run_dir": str(tmp_path), "steps": 2}))
    train(make_config({**SMALL, "run_dir": str(tmp_path)}))
    assert losses(tmp_path) == losses(straight)
    first, second = kept_state(straight), kept_state(tmp_path)
    assert all(torch.equal(first["average"][name], second["average"][name]) for name in first["average"])


def test_parts_of_a_batch_give_the_gradients_of_the_whole() -> None:
    images = torch.randint(0, 256, (4, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    found = []
    for parts in (1, 2):
        trainer = Trainer(make_config({**SMALL, "accumulate": parts}), CPU, FP32)
        # Its last layers begin at 0: after one update all of them have gradients.
        for _ in range(2):
            trainer.step(images)
        found.append([weight.grad for weight in trainer.networks["velocity"].parameters()])
    for whole, summed in zip(*found, strict=True):
        assert torch.allclose(whole, summed, rtol=1e-3, atol=1e-6)


def test_it_learns_where_the_images_are() -> None:
    """All images are one grey: after a while what is drawn is near it, and before it was noise."""
    settings = {"lr_generator": 1e-2, "lr_scaling": "none", "flow_steps": 4, "ema_decay": 0.9, "batch_size": 8}
    trainer = Trainer(make_config({**SMALL, **settings}), CPU, FP32)
    grey = torch.full((8, 3, 32, 32), 192, dtype=torch.uint8)

    def spread() -> float:
        images = generate(trainer.task.sampler(trainer.average), 8, trainer.task.noise_shape(), seed=1)
        return float((images.float() - 192).abs().mean())

    before = spread()
    for _ in range(80):
        trainer.step(grey)
    assert before > 60 and spread() < before / 3


def test_it_is_compiled_as_a_network_of_the_task() -> None:
    trainer = Trainer(make_config({**SMALL, "compile": "on"}), CPU, FP32)
    assert compile_networks(trainer, lambda function: lambda *words: function(*words)) == [
        "velocity is compiled, equal to eager mode within 0.001"
    ]
    trainer = Trainer(make_config({**SMALL, "compile": "on"}), CPU, FP32)
    lines = compile_networks(trainer, lambda function: lambda *words: function(*words) + 1)
    assert lines[0].startswith("velocity runs eagerly: compiled code differs")


def test_it_is_drawn_and_exported(straight: Path, tmp_path: Path) -> None:
    config = ["--config", str(straight / "config.yml"), f"run_dir={straight}"]
    assert cli.main(["sample", *config, "--seeds", "0-3", "--output", str(tmp_path / "grid.png")]) == 0
    assert cli.main(["export", *config, "--formats", "torchscript", "--output", str(tmp_path / "out")]) == 0
    loaded = torch.jit.load(str(tmp_path / "out/generator.torchscript.pt"))
    assert loaded(torch.randn(3, 3, 32, 32)).shape == (3, 3, 32, 32)


@pytest.mark.long
def test_it_is_exported_in_the_forms_that_are_traced_with_every_loop(straight: Path, tmp_path: Path) -> None:
    config = ["--config", str(straight / "config.yml"), f"run_dir={straight}"]
    assert cli.main(["export", *config, "--formats", "torch_export,onnx", "--output", str(tmp_path)]) == 0


@pytest.mark.long
def test_the_bench_measures_it_without_the_rungs_that_are_a_gans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROUNDS", 1)
    report = bench(make_config({**SMALL, "steps": 2}), CPU, lambda line: None, steps=1)
    ladder = {row["name"]: row["images_per_s"] for row in report["ladder"]}
    assert ladder["plain fp32 loop"] is None and ladder["+ the trainer's step, which watches every loss"] > 0
    assert all(row["images_per_s"] > 0 for row in report["batch"])


@pytest.mark.parametrize(("key", "value"), [("r1_gamma", 1.0), ("model", "r3gan"), ("loss", "hinge")])
def test_what_is_a_gans_is_refused(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"{key}: .* is for task gan"):
        make_config({"task": "flow", key: value})


def test_two_processes_train_it_as_one_does(tmp_path: Path) -> None:
    values = {**SMALL, "batch_size": 8}
    train(make_config({**values, "run_dir": str(tmp_path / "one")}))
    (tmp_path / "c.yml").write_text("".join(f"{key}: {value}\n" for key, value in values.items()))
    words = ["-m", "gan_trainer.cli", "--config", str(tmp_path / "c.yml"), f"run_dir={tmp_path / 'two'}"]
    forked.run_ranks(2, words, trainer_environment(), PATIENCE)
    for two, one in zip(losses(tmp_path / "two"), losses(tmp_path / "one"), strict=True):
        assert two == pytest.approx(one, rel=1e-3)
