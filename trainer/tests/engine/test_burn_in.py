"""R3GAN's schedule: rates, penalties, beta2 and average go from their start to their values by half a cosine."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conftest import TINY

from gan_trainer.config import ConfigError, make_config
from gan_trainer.engine.loop import Trainer
from gan_trainer.engine.schedule import average_decay, burn_in, learning_rate, second_beta
from gan_trainer.engine.state import capture_state, restore_state
from gan_trainer.precision import Precision

CPU, FP32 = torch.device("cpu"), Precision("fp32", "")
IMAGES = torch.randint(0, 256, (4, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
R3GAN = {"model": "r3gan", "loss": "relativistic", "r1_gamma": 0.2, "r2_gamma": 0.2, "lr_scaling": "none"}


def trainer_for(**changes: Any) -> Trainer:
    return Trainer(make_config({**TINY, **R3GAN, "device": "cpu", "steps": 50, **changes}), CPU, FP32)


@pytest.mark.parametrize(
    ("step", "done"), [(1, 0.0), (6, 0.5), (11, 1.0), (500, 1.0)], ids=["first", "middle", "end", "after"]
)
def test_it_moves_all_of_them_alike(step: int, done: float) -> None:
    config = make_config({"burn_in_steps": 10, "beta2": 0.99, "lr_scaling": "none", "ema_decay": 0.99, "steps": 1000})
    assert burn_in(config, step) == pytest.approx(done)
    assert learning_rate(config, 1e-4, step) == pytest.approx(1e-4 * (4 - 3 * done))
    assert second_beta(config, step) == pytest.approx(0.9 + 0.09 * done)
    # The half-life is in proportion.
    assert average_decay(config, step) == pytest.approx(0.99 ** (1 / done) if done else 0.0)


def test_without_it_nothing_moves() -> None:
    config = make_config({"lr_scaling": "none", "ema_rampup": 0.0})
    for step in (1, 7, 1000):
        assert learning_rate(config, 1e-4, step) == 1e-4 and second_beta(config, step) == config.beta2
        assert average_decay(config, step) == config.ema_decay and burn_in(config, step) == 1.0


def penalty_of_first_step(**changes: Any) -> float:
    trainer = trainer_for(**changes)
    trainer.step(IMAGES)
    return float(trainer.watch.losses[2])


def test_the_first_penalty_is_ten_times_as_strong() -> None:
    plain, raised = penalty_of_first_step(), penalty_of_first_step(burn_in_steps=10)
    assert plain > 0 and raised == pytest.approx(10 * plain, rel=1e-4)


def test_the_optimizers_and_the_average_follow() -> None:
    trainer = trainer_for(burn_in_steps=4, beta2=0.99)
    seen = []
    for _ in range(6):
        trainer.step(IMAGES)
        seen.append(trainer.optimizers["discriminator"].param_groups[0]["betas"][1])
        if trainer.steps_done == 1:
            pairs = zip(trainer.average.parameters(), trainer.networks["generator"].parameters(), strict=True)
            assert all(torch.equal(average, weight) for average, weight in pairs)
    assert seen[0] == 0.9 and seen == sorted(seen) and seen[4] == seen[5] == pytest.approx(0.99)
    assert trainer.optimizers["generator"].param_groups[0]["lr"] == pytest.approx(1e-4)


def test_a_resumed_run_goes_on_in_it() -> None:
    straight, first = trainer_for(burn_in_steps=6), trainer_for(burn_in_steps=6)
    for _ in range(5):
        straight.step(IMAGES)
    for _ in range(3):
        first.step(IMAGES)
    second = trainer_for(burn_in_steps=6)
    restore_state(second, capture_state(first))
    for _ in range(2):
        second.step(IMAGES)
    assert torch.equal(straight.watch.losses, second.watch.losses)


def test_a_recorded_step_cannot_follow_it() -> None:
    with pytest.raises(ConfigError, match="cuda_graphs: true records beta2 and gamma once"):
        make_config({"cuda_graphs": True, "burn_in_steps": 10})
