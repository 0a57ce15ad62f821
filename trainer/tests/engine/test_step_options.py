"""What a configuration adds to a step: mirrored images, an average that reaches back less at the start."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conftest import TINY

from gan_trainer.config import ConfigError, make_config
from gan_trainer.engine.loop import Trainer, mirrored
from gan_trainer.engine.schedule import average_decay
from gan_trainer.engine.state import capture_state, restore_state
from gan_trainer.parallel.distributed import ALONE, Ranks
from gan_trainer.precision import Precision
from gan_trainer.runs.drift import DriftError, check_drift

CPU, FP32 = torch.device("cpu"), Precision("fp32", "")
# Left half black, right half white: which way it is can be seen.
HALF = torch.cat([torch.zeros(8, 3, 32, 16), torch.full((8, 3, 32, 16), 255.0)], dim=3).to(torch.uint8)


def trainer_for(ranks: Ranks = ALONE, **changes: Any) -> tuple[Trainer, list[torch.Tensor]]:
    """A trainer, and the images that its update is given."""
    trainer, seen = Trainer(make_config({**TINY, "batch_size": 8, **changes}), CPU, FP32, ranks), []
    update = trainer.update

    def noted(batch: dict, rare: bool) -> None:
        seen.append(batch["images"])
        update(batch, rare)

    trainer.update = noted
    return trainer, seen


def ways(images: torch.Tensor) -> list[bool]:
    """Whether each image of HALF is mirrored; what is neither fails."""
    left = images[:, :, :, 0].mean(dim=(1, 2))
    assert torch.equal(left.abs(), torch.ones(len(images)))
    return (left > 0).tolist()


def test_about_half_of_the_images_are_mirrored_and_others_in_each_step() -> None:
    trainer, seen = trainer_for(flip=True)
    for _ in range(12):
        trainer.step(HALF)
    each = [ways(images) for images in seen]
    assert 0.3 < sum(map(sum, each)) / 96 < 0.7
    assert len(set(map(tuple, each))) > 6


def test_without_it_no_image_and_no_noise_changes() -> None:
    trainer, seen = trainer_for()
    trainer.step(HALF)
    assert not any(ways(seen[0]))
    expected = torch.randn((8, 8), generator=torch.Generator().manual_seed(0))
    assert trainer.last_batch is not None and torch.equal(trainer.last_batch["noise"], expected)


def test_mirroring_changes_nothing_but_the_side() -> None:
    images = torch.rand(4, 3, 8, 8).to(memory_format=torch.channels_last)
    found = mirrored(images, torch.tensor([True, False, True, False]))
    assert torch.equal(found[0], images[0].flip(2)) and torch.equal(found[1], images[1])
    assert found.is_contiguous(memory_format=torch.channels_last)


def test_ranks_mirror_the_images_that_one_process_would(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, whole = trainer_for(flip=True)
    alone.step(HALF)
    parts = []
    for rank in (0, 1):
        monkeypatch.setattr("gan_trainer.engine.loop.data_parallel", lambda network, ranks, stream: network)
        trainer, seen = trainer_for(Ranks(rank=rank, world=2), flip=True)
        trainer.step(HALF[:4])
        parts += ways(seen[0])
    assert parts == ways(whole[0])


def test_a_resumed_run_mirrors_on_as_one_that_was_never_stopped() -> None:
    straight, seen = trainer_for(flip=True)
    for _ in range(4):
        straight.step(HALF)
    first, _ = trainer_for(flip=True)
    for _ in range(2):
        first.step(HALF)
    second, resumed = trainer_for(flip=True)
    restore_state(second, capture_state(first))
    for _ in range(2):
        second.step(HALF)
    assert all(torch.equal(own, other) for own, other in zip(seen[2:], resumed))


@pytest.mark.parametrize(
    ("step", "rampup", "decay"),
    [
        (1, 0.0, 0.999),
        # Half of what the average holds is of the last 5 % of the steps.
        (20, 0.05, 0.5),
        (200, 0.05, 0.5**0.1),
        (10**6, 0.05, 0.999),
        (1, 0.05, 0.5**20),
        # As in StyleGAN2-ADA's default, where nobody says otherwise.
        (200, -1.0, 0.5**0.1),
        (13_000, -1.0, 0.5 ** (1 / 650)),
        (14_000, -1.0, 0.999),
    ],
)
def test_the_average_reaches_back_a_part_of_the_run(step: int, rampup: float, decay: float) -> None:
    assert average_decay(make_config({"ema_rampup": rampup}), step) == pytest.approx(decay)


def test_a_short_run_has_an_average_that_has_left_its_start() -> None:
    """0.999 holds nine tenths of the random start after 100 steps; the default ramp a thousandth."""
    shares = []
    for settings in ({"ema_rampup": 0.0}, {}):
        config, kept = make_config(settings), 1.0
        for step in range(1, 101):
            kept *= average_decay(config, step)
        shares.append(kept)
    assert shares[0] > 0.9 and shares[1] < 1e-3


def test_a_burn_in_is_the_only_ramp_where_no_other_is_named() -> None:
    config = make_config({"burn_in_steps": 10})
    assert average_decay(config, 11) == config.ema_decay


def test_the_trainer_averages_by_that_decay() -> None:
    trainer, _ = trainer_for(ema_rampup=0.05, lr_generator=0.01)
    before = [weight.clone() for weight in trainer.average.parameters()]
    trainer.step(HALF)
    new = list(trainer.networks["generator"].parameters())
    for average, start, weight in zip(trainer.average.parameters(), before, new):
        assert torch.allclose(average, weight + (start - weight) * 0.5**20, atol=1e-6)


@pytest.mark.parametrize(("key", "value"), [("flip", True), ("ema_rampup", 0.05)])
def test_with_them_it_is_another_experiment(key: str, value: object) -> None:
    saved = dict(vars(make_config(TINY)))
    with pytest.raises(DriftError, match=f"{key} was .* and is {value}"):
        check_drift(saved, make_config({**TINY, key: value}), allowed=False)


def test_a_ramp_out_of_range_is_refused() -> None:
    for value in (1.5, -0.5, -2.0):
        with pytest.raises(ConfigError, match=f"ema_rampup: {value} is out of range"):
            make_config({"ema_rampup": value})
