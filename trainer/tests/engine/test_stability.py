"""Numbers that are none: seen, left out, located, and reacted to as configured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import TINY

from gan_trainer.config import make_config
from gan_trainer.engine.loop import Trainer
from gan_trainer.engine.optimizers import gradient_norm, guarded_step
from gan_trainer.engine.reaction import react
from gan_trainer.engine.stability import TrainingError, diagnose, first_bad_layer
from gan_trainer.engine.state import capture_state, restore_state
from gan_trainer.models.networks import build
from gan_trainer.precision import Precision
from gan_trainer.tasks import gan

CPU, FP32 = torch.device("cpu"), Precision("fp32", "")
NAN = float("nan")


def trainer_for(**changes: object) -> Trainer:
    return Trainer(make_config({**TINY, "max_bad_steps": 5, **changes}), CPU, FP32)


def step(trainer: Trainer, seed: int) -> None:
    images = torch.randint(0, 256, (4, 3, 32, 32), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)
    trainer.step(images)


def poison(monkeypatch: pytest.MonkeyPatch, bad_calls: set[int]) -> None:
    """The discriminator's loss is NaN in these of its calls."""
    real = gan.discriminator_loss
    calls: list[int] = []

    def broken(*arguments: Any) -> torch.Tensor:
        calls.append(1)
        return real(*arguments) * (NAN if len(calls) in bad_calls else 1.0)

    monkeypatch.setattr(gan, "discriminator_loss", broken)


def parameters(trainer: Trainer) -> list[torch.Tensor]:
    return [tensor.detach().clone() for tensor in trainer.networks["discriminator"].parameters()]


def test_update_with_bad_gradients_is_left_out_and_the_next_one_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_for(on_nonfinite="skip")
    poison(monkeypatch, {2})
    step(trainer, 1)
    before = parameters(trainer)
    step(trainer, 2)
    assert all(torch.equal(*pair) for pair in zip(before, parameters(trainer), strict=True))
    assert torch.isnan(trainer.losses[0]) and torch.isfinite(trainer.losses[1])
    step(trainer, 3)
    assert not all(torch.equal(*pair) for pair in zip(before, parameters(trainer), strict=True))
    note = react(trainer)
    assert note == (
        "loss or gradients not finite: first in step 2, noticed in step 3, fp32, 1 of 3 steps; "
        "their updates were left out"
    )
    assert trainer.statistics()["updates_left_out"] == 1
    assert react(trainer) == "", "each is told once"


def test_bad_steps_are_numbered_from_the_start_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_for(on_nonfinite="skip")
    poison(monkeypatch, {5, 6})
    for seed in range(3):
        step(trainer, seed)
    react(trainer), trainer.statistics()
    for seed in range(3, 7):
        step(trainer, seed)
    assert "first in step 5, noticed in step 7, fp32, 2 of 4 steps" in react(trainer)
    # No line of statistics between two looks, as with checkpoints closer than lines.
    step(trainer, 8)
    poison(monkeypatch, {1})
    step(trainer, 9)
    assert "first in step 9, noticed in step 9, fp32, 1 of 6 steps" in react(trainer)


def test_learning_rates_are_halved_and_stay_so_after_a_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_for(on_nonfinite="lower_lr")
    poison(monkeypatch, {1, 3})
    step(trainer, 1)
    full = trainer.statistics()["lr_generator"]
    step(trainer, 2)
    step(trainer, 3)
    assert react(trainer).endswith("learning rates now times 0.5")
    step(trainer, 4)
    assert trainer.statistics()["lr_generator"] == pytest.approx(full / 2)
    other = trainer_for(on_nonfinite="lower_lr")
    restore_state(other, capture_state(trainer))
    step(other, 5)
    assert other.statistics()["lr_generator"] == pytest.approx(full / 2) and other.bad_steps == 1


@pytest.mark.parametrize(("policy", "bad", "stops"), [("stop", 1, True), ("skip", 5, False), ("skip", 6, True)])
def test_too_many_bad_steps_stop_the_run(policy: str, bad: int, stops: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_for(on_nonfinite=policy)
    poison(monkeypatch, set(range(1, bad + 1)))
    for seed in range(7):
        step(trainer, seed)
    if stops:
        with pytest.raises(
            TrainingError, match=f"first in step 1, noticed in step 7, fp32, {bad} of 7 steps; .*input: "
        ):
            react(trainer)
    else:
        assert react(trainer)


def test_gradient_that_is_no_number_under_a_finite_loss_is_seen() -> None:
    """sqrt has an infinite slope at 0: the loss looks well, and Adam would not survive it."""
    trainer = trainer_for()
    before = parameters(trainer)
    for parameter in trainer.networks["discriminator"].parameters():
        parameter.register_hook(lambda gradient: gradient * float("inf"))
    step(trainer, 1)
    assert torch.isfinite(trainer.losses).all()
    assert all(torch.equal(*pair) for pair in zip(before, parameters(trainer), strict=True))
    with pytest.raises(TrainingError, match="gradients not finite: discriminator.stages.0.0.weight and "):
        react(trainer)


@pytest.mark.parametrize("where", ["input", "parameters", "activations", "nowhere"])
def test_diagnosis_names_the_place(where: str) -> None:
    torch.manual_seed(0)
    generator, discriminator = build(make_config({**TINY, "model": "residual"}))
    real, noise = torch.zeros(2, 3, 32, 32), torch.randn(2, 8)
    if where == "input":
        real[0, 0, 0, 0] = NAN
    if where == "parameters":
        generator.get_parameter("start.bias").data[3] = NAN
    if where == "activations":
        # Finite, and too large for what comes of it.
        discriminator.get_parameter("stages.1.second.weight").data.fill_(3e38)
        real.fill_(0.5)
    networks = {"generator": generator, "discriminator": discriminator}
    inputs = {"generator": (noise,), "discriminator": (real,)}
    text = diagnose(networks, {"images": real, "noise": noise}, inputs)
    assert ("input: not finite" in text) == (where == "input")
    assert ("parameters not finite: generator.start.bias and 0 more" in text) == (where == "parameters")
    assert ("discriminator.stages.1.second first" in text) == (where == "activations")
    assert ("activations: finite in the last batch" in text) == (where == "nowhere")


def test_looking_for_a_layer_leaves_no_hooks() -> None:
    discriminator = build(make_config(TINY)).discriminator
    assert first_bad_layer(discriminator, torch.full((2, 3, 32, 32), NAN)) == "stages.0.0"
    assert all(not module._forward_hooks for module in discriminator.modules())


def test_clipping_scales_all_gradients_to_the_norm() -> None:
    weights = [torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(1))]
    for weight, gradient in zip(weights, ([3.0, 0.0], [4.0]), strict=True):
        weight.grad = torch.tensor(gradient)
    assert float(gradient_norm(weights, 0.0)) == pytest.approx(5.0)
    assert float(gradient_norm(weights, 1.0)) == pytest.approx(5.0)
    assert float(gradient_norm(weights, 0.0)) == pytest.approx(1.0, rel=1e-4)


def test_clipping_is_in_the_step() -> None:
    """Adam forgets the size of a gradient, so this looks at what Adam was given."""
    trainer = trainer_for(clip_grad_norm=1e-3)
    step(trainer, 1)
    for network in (trainer.networks["generator"], trainer.networks["discriminator"]):
        assert float(gradient_norm(network.parameters(), 0.0)) <= 1.001e-3


def test_fused_optimizer_decides_by_itself() -> None:
    """The same verdict that runs on a GPU: the fused optimizer of the CPU reads it in the same way."""
    weight = torch.nn.Parameter(torch.ones(3))
    try:
        optimizer = torch.optim.Adam([weight], 0.1, fused=True)
    except RuntimeError:
        pytest.skip("this torch has a fused optimizer on GPUs only")
    weight.grad = torch.full((3,), NAN)
    guarded_step(optimizer, torch.tensor(False))
    assert torch.equal(weight, torch.ones(3))
    weight.grad = torch.ones(3)
    guarded_step(optimizer, torch.tensor(True))
    assert torch.allclose(weight, torch.full((3,), 0.9))


def test_accumulated_gradients_equal_those_of_the_whole_batch() -> None:
    found = []
    for accumulate in (1, 2, 4):
        values = {**TINY, "model": "r3gan", "loss": "relativistic", "r1_gamma": 1.0, "r2_gamma": 1.0, "batch_size": 8}
        trainer = Trainer(make_config({**values, "accumulate": accumulate, "lr_scaling": "none"}), CPU, FP32)
        trainer.step(torch.arange(8 * 3 * 32 * 32).remainder(251).to(torch.uint8).reshape(8, 3, 32, 32))
        gradients = [p.grad for net in trainer.networks.values() for p in net.parameters() if p.grad is not None]
        found.append((trainer.watch.losses, gradients))
    for losses, gradients in found[1:]:
        assert torch.allclose(losses, found[0][0], rtol=1e-4)
        assert all(torch.allclose(a, b, rtol=1e-3, atol=1e-6) for a, b in zip(gradients, found[0][1], strict=True))


def test_lazy_penalty_comes_every_so_many_steps() -> None:
    trainer = trainer_for(model="residual", r1_gamma=10.0, penalty_every=3)
    seen = []
    for seed in range(6):
        step(trainer, seed)
        seen.append(float(trainer.watch.losses[2]) > 0)
    assert seen == [False, False, True] * 2
    assert trainer.statistics()["penalty"] > 0


@pytest.mark.filterwarnings("ignore:.*GradScaler is enabled")
def test_penalties_stay_in_float32_beside_float16() -> None:
    trainer = Trainer(make_config({**TINY, "r1_gamma": 1.0}), CPU, Precision("fp16", ""))
    task: Any = trainer.task
    assert task.penalties.precision.name == "fp32" and not task.penalties.share_logits
    task = Trainer(make_config(TINY), CPU, Precision("bf16", "")).task
    assert task.penalties.share_logits


def test_bf16_and_fp32_agree_on_the_penalty(tmp_path: Path) -> None:
    found = []
    for name in ("fp32", "bf16"):
        values = {**TINY, "model": "residual", "r1_gamma": 1.0, "r2_gamma": 1.0}
        trainer = Trainer(make_config(values), CPU, Precision(name, ""))
        step(trainer, 1)
        found.append(trainer.watch.losses)
    assert torch.allclose(found[0], found[1], rtol=0.05)
