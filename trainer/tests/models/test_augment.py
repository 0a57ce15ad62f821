"""Augmentation of what the discriminator sees: what it does to images, gradients, and to a training."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conftest import TINY

from gan_trainer.config import ConfigError, make_config
from gan_trainer.engine.loop import Trainer
from gan_trainer.engine.state import capture_state, restore_state
from gan_trainer.models.augment import NUMBERS, ada_augment, colours, diff_augment, geometry
from gan_trainer.models.augment import Draws as draws_of
from gan_trainer.parallel.distributed import Ranks
from gan_trainer.precision import Precision

CPU, FP32 = torch.device("cpu"), Precision("fp32", "")


def pictures(count: int) -> torch.Tensor:
    return torch.rand(count, 3, 32, 32, generator=torch.Generator().manual_seed(1)) * 2 - 1


def numbers(count: int) -> torch.Tensor:
    return torch.rand(count, NUMBERS, generator=torch.Generator().manual_seed(2))


def test_no_strength_leaves_every_bit() -> None:
    images = pictures(8)
    assert torch.equal(ada_augment(images, numbers(8), torch.tensor(0.0)), images)


@pytest.mark.parametrize("strength", [0.1, 0.5, 1.0])
def test_each_transformation_takes_its_part_of_the_images(strength: float) -> None:
    gates = draws_of(numbers(4000), torch.tensor(strength))
    parts = [float(gates.next()[0].float().mean()) for _ in range(12)]
    assert all(part == pytest.approx(strength, abs=0.04) for part in parts)


def test_all_numbers_are_there_and_none_is_used_twice() -> None:
    draws = draws_of(numbers(4), torch.tensor(1.0))
    geometry(draws, 32)
    colours(draws)
    assert draws.taken == NUMBERS


def test_full_strength_changes_every_image_and_keeps_its_scale() -> None:
    images = pictures(64)
    found = ada_augment(images, numbers(64), torch.tensor(1.0))
    assert found.shape == images.shape and torch.isfinite(found).all()
    assert bool(((found - images).flatten(1).abs().amax(1) > 0.05).all()) and float(found.abs().mean()) < 3.0


def test_a_flip_is_a_flip() -> None:
    chosen = torch.ones(1, NUMBERS)
    # Only the first gate is open, and its number says to flip.
    chosen[0, 0], chosen[0, 1] = 0.0, 0.1
    images = pictures(1)
    assert torch.allclose(ada_augment(images, chosen, torch.tensor(0.5)), images.flip(3), atol=1e-5)


def test_turned_hues_keep_the_grey() -> None:
    """Rotating and stretching colours about the axis of grey leaves grey pixels grey."""
    chosen = torch.ones(1, NUMBERS)
    for gate in (30, 33):
        chosen[0, gate], chosen[0, gate + 1] = 0.0, 0.8
    grey = torch.linspace(-1, 1, 32).expand(1, 3, 32, 32)
    assert torch.allclose(ada_augment(grey, chosen, torch.tensor(0.5)), grey, atol=1e-5)
    coloured = torch.cat([grey[:, :1], -grey[:, :2]], dim=1)
    assert not torch.allclose(ada_augment(coloured, chosen, torch.tensor(0.5)), coloured, atol=0.1)


def test_diff_cuts_shifts_and_recolours() -> None:
    middle = torch.full((1, NUMBERS), 0.5)
    images = pictures(1)
    found = diff_augment(images, middle)
    # No change of colour, no shift, and the middle half of both edges is cut out.
    assert bool((found[:, :, 9:24, 9:24] == 0).all())
    assert torch.allclose(found[:, :, :8, :], images[:, :, :8, :], atol=1e-5)
    shifted = middle.clone()
    shifted[0, 3] = 0.999
    assert torch.allclose(diff_augment(images, shifted)[:, :, 0, :28], images[:, :, 0, 4:], atol=1e-5)
    assert bool((diff_augment(images, shifted)[:, :, :, 28:] == 0).all())


@pytest.mark.parametrize("kind", ["diff", "ada"])
def test_gradients_reach_the_pixels(kind: str) -> None:
    images = pictures(4).requires_grad_(True)
    found = diff_augment(images, numbers(4)) if kind == "diff" else ada_augment(images, numbers(4), torch.tensor(1.0))
    (slope,) = torch.autograd.grad(found.square().sum(), images)
    assert bool((slope.flatten(1).abs().amax(1) > 0).all())


def trainer_for(ranks: Ranks | None = None, **changes: Any) -> Trainer:
    return Trainer(make_config({**TINY, "device": "cpu", **changes}), CPU, FP32, *([ranks] if ranks else []))


def augmentation(trainer: Trainer) -> Any:
    """What a Task in general has not, and that of a GAN has."""
    task: Any = trainer.task
    return task.augmentation


def discriminator(trainer: Trainer) -> Any:
    """Any, since PyTorch types the parts of a network as Tensor or Module."""
    return trainer.networks["discriminator"]


IMAGES = torch.randint(0, 256, (4, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


@pytest.mark.parametrize("kind", ["diff", "ada"])
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_the_discriminator_never_sees_an_image_as_it_is(kind: str, penalty: float) -> None:
    trainer = trainer_for(augment=kind, model="residual", r1_gamma=penalty, r2_gamma=penalty)
    augmentation(trainer).strength.fill_(1.0)
    seen: list[torch.Tensor] = []
    trainer.networks["discriminator"].register_forward_pre_hook(lambda module, given: seen.append(given[0].detach()))
    trainer.step(IMAGES)
    real, fake, learning = seen
    assert trainer.last_batch is not None
    images = trainer.last_batch["images"]
    assert bool(((real - images).flatten(1).abs().amax(1) > 0.01).all())
    # Other numbers for each, and both fakes are of the same images.
    assert not torch.allclose(fake, learning) and bool(torch.isfinite(trainer.watch.losses).all())
    weights = trainer.networks["generator"].parameters()
    assert all(weight.grad is not None and bool(weight.grad.abs().sum() > 0) for weight in weights)


@pytest.mark.parametrize(("sign", "strength"), [(5.0, 0.5), (-5.0, 0.0)])
def test_ada_grows_with_a_sure_discriminator_and_falls_with_another(sign: float, strength: float) -> None:
    """4 steps of 4 images are a quarter of the 64 in which the strength may go from 0 to 1."""
    trainer = trainer_for(augment="ada", augment_images=64, model="residual")
    augmentation(trainer).strength.fill_(0.25)
    discriminator(trainer).verdict.bias.data.fill_(sign)
    for _ in range(3):
        trainer.step(IMAGES)
    assert float(augmentation(trainer).strength) == 0.25
    trainer.step(IMAGES)
    assert float(augmentation(trainer).strength) == strength
    assert trainer.statistics()["augment"] == strength


def test_a_step_of_nans_leaves_ada_a_number() -> None:
    trainer = trainer_for(augment="ada", augment_images=64)
    discriminator(trainer).stages[0][0].weight.data.fill_(float("nan"))
    for _ in range(4):
        trainer.step(IMAGES)
    assert float(augmentation(trainer).strength) == 0.0


def test_a_resumed_run_augments_on_as_one_that_was_never_stopped() -> None:
    settings: dict[str, Any] = {"augment": "ada", "augment_images": 50, "model": "residual"}
    straight, first = trainer_for(**settings), trainer_for(**settings)
    for trainer in (straight, first):
        discriminator(trainer).verdict.bias.data.fill_(5.0)
    for _ in range(6):
        first.step(IMAGES)
    second = trainer_for(**settings)
    restore_state(second, capture_state(first))
    for _ in range(4):
        second.step(IMAGES)
    for _ in range(10):
        straight.step(IMAGES)
    assert float(augmentation(second).strength) == float(augmentation(straight).strength) > 0.2
    assert torch.equal(second.watch.losses, straight.watch.losses)


def test_without_it_no_number_is_drawn() -> None:
    assert set(trainer_for().task.draw(2, torch.Generator())) == {"noise"}


def test_a_flow_has_no_discriminator_to_augment_for() -> None:
    with pytest.raises(ConfigError, match="augment: 'ada' is for task gan"):
        make_config({"task": "flow", "augment": "ada"})


@pytest.mark.parametrize("place", [0.0, 0.2, 0.5, 0.8, 0.999])
def test_diff_cuts_out_half_of_each_edge(place: float) -> None:
    """As DiffAugment does: 16 of 32 pixels where they all lie inside; at an edge what is left of them."""
    chosen = torch.full((1, NUMBERS), 0.5)
    chosen[0, 5:7] = place
    hole = diff_augment(torch.full((1, 3, 32, 32), 0.7), chosen)[0, 0] == 0
    middle = int(place * 33)
    assert int(hole.any(0).sum()) == int(hole.any(1).sum()) == len(range(max(0, middle - 8), min(32, middle + 8)))
