"""A run that an earlier release began goes on, with the numbers that it would have had there.

checkpoint-before-tasks.pt is step 3 of 6 of EARLIER, made before there were tasks; the losses are that release's.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from conftest import TINY, kept_state

from gan_trainer.config import make_config
from gan_trainer.engine.check import check
from gan_trainer.engine.train import train
from gan_trainer.inference.trained import load_trained
from gan_trainer.runs.drift import DriftError

FILE = Path(__file__).with_name("checkpoint-before-tasks.pt")
EARLIER = {**TINY, "latent_dim": 2, "device": "cpu", "steps": 6, "log_every": 2, "r1_gamma": 1.0, "penalty_every": 2}
# step, d_loss, g_loss, penalty; the mean of steps 3 and 4 begins before the checkpoint.
LOSSES = [
    [4, 1.361718773841858, 0.7166187763214111, 0.2683166563510895],
    [6, 1.3682115077972412, 0.7237913608551025, 0.24835501611232758],
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    shutil.copy(FILE, tmp_path / "checkpoint-0000000003.pt")
    return tmp_path


def test_it_goes_on_as_it_would_have(run: Path) -> None:
    assert "task" not in torch.load(FILE, weights_only=True)["config"]
    train(make_config({**EARLIER, "run_dir": str(run)}))
    lines = [json.loads(line) for line in (run / "stats.jsonl").read_text().splitlines()]
    found = [[line[key] for key in ("step", "d_loss", "g_loss", "penalty")] for line in lines]
    for line, expected in zip(found, LOSSES, strict=True):
        assert line == pytest.approx(expected, rel=1e-4)
    # Its average reaches back as far as there; a run that begins now has a ramp.
    assert kept_state(run)["config"]["ema_rampup"] == 0.0
    assert "ema_rampup: 0.0" in (run / "config.yml").read_text()
    train(make_config({**EARLIER, "run_dir": str(run / "new"), "steps": 1}))
    assert kept_state(run / "new")["config"]["ema_rampup"] == 0.05


@pytest.mark.parametrize("kept", [0.0, 0.05, 0.3])
def test_a_run_keeps_the_ramp_with_which_it_began_until_another_is_named(tmp_path: Path, kept: float) -> None:
    given = {**TINY, "device": "cpu", "run_dir": str(tmp_path), "steps": 1}
    train(make_config({**given, "ema_rampup": kept}))
    later = make_config({**given, "steps": 2})
    assert not any("ema" in line for line in check(later, "auto", 1))
    train(later, resume="changed")
    assert kept_state(tmp_path)["config"]["ema_rampup"] == kept
    with pytest.raises(DriftError, match=f"ema_rampup was {kept} and is 0.1"):
        train(make_config({**given, "steps": 3, "ema_rampup": 0.1}))


def test_its_generator_draws(run: Path) -> None:
    trained = load_trained(run)
    assert trained.step == 3 and trained.generator(torch.zeros(2, *trained.noise_shape)).shape == (2, 3, 32, 32)


@pytest.mark.parametrize(("key", "value"), [("task", "flow"), ("flip", True), ("options", {"depth": 3})])
def test_another_experiment_is_still_refused_where_the_checkpoint_does_not_know_the_key(
    run: Path, key: str, value: object
) -> None:
    settings = {**EARLIER, "run_dir": str(run), key: value}
    if key == "task":
        settings = {name: item for name, item in settings.items() if name not in ("r1_gamma", "penalty_every")}
    with pytest.raises(DriftError, match=f"{key}"):
        train(make_config(settings))
