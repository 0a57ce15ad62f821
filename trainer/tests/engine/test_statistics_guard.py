"""One step that overflows must not outlive itself in batch norm's running statistics, for any of the networks."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import pytest
import torch
from conftest import TINY

from gan_trainer.config import make_config
from gan_trainer.engine.loop import Trainer
from gan_trainer.engine.state import capture_state, restore_state
from gan_trainer.engine.statistics_guard import RunningStatistics
from gan_trainer.precision import choose_precision
from gan_trainer.runs.samples import generate

CPU = torch.device("cpu")
# Steps after the one that overflows: until then the networks draw images that differ.
AFTER = {"dcgan": 50, "residual": 20, "r3gan": 20}


def trainer_of(model: str, **settings: object) -> Trainer:
    config = make_config({**TINY, "model": model, "on_nonfinite": "skip", "ema_decay": 0.9, "seed": 3, **settings})
    return Trainer(config, CPU, choose_precision("fp32", None))


def images(step: int) -> torch.Tensor:
    return torch.randint(0, 256, (4, 3, 32, 32), generator=torch.Generator().manual_seed(step), dtype=torch.uint8)


def steps(trainer: Trainer, count: int) -> None:
    for _ in range(count):
        trainer.step(images(trainer.steps_done))


def overflow(trainer: Trainer, where: str, value: float) -> None:
    """A step in which a layer's output leaves the range of numbers, as in float16; the weights stay as they are."""

    def burst(module: torch.nn.Module, arguments: object, output: torch.Tensor) -> torch.Tensor:
        return output * value

    network = trainer.networks[where]
    first = next(
        module for module in network.modules() if isinstance(module, (torch.nn.ConvTranspose2d, torch.nn.Conv2d))
    )
    hook = first.register_forward_hook(burst)
    steps(trainer, 1)
    hook.remove()


@functools.cache
def whole_of(model: str) -> Trainer:
    """What has trained as long without an overflow. Nobody steps it further."""
    whole = trainer_of(model)
    steps(whole, 6 + AFTER[model])
    return whole


def spread(trainer: Trainer) -> float:
    """Standard deviation between images of the averaged generator, in steps of 8 bits."""
    return float(generate(trainer.average, 16, trainer.config.latent_dim, 1).float().std(dim=0).mean())


def floating_buffers(network: torch.nn.Module) -> list[torch.Tensor]:
    return [buffer for buffer in network.buffers() if buffer.is_floating_point()]


@pytest.mark.parametrize(
    ("model", "where", "value"),
    [
        *itertools.product(["dcgan"], ["generator"], [float("inf"), float("nan"), 1e38]),
        ("dcgan", "discriminator", float("inf")),
        ("residual", "generator", float("inf")),
        ("r3gan", "generator", float("inf")),
    ],
)
def test_a_step_that_overflows_is_forgotten(model: str, where: str, value: float) -> None:
    hurt = trainer_of(model)
    steps(hurt, 5)
    overflow(hurt, where, value)
    steps(hurt, AFTER[model])
    assert_as_varied(hurt, whole_of(model))


@pytest.mark.parametrize(
    ("model", "resumed"),
    [("dcgan", "before the overflow"), ("residual", "right after it"), ("r3gan", "right after it"), ("dcgan", "later")],
)
def test_so_it_is_in_a_run_that_was_resumed(model: str, resumed: str) -> None:
    """The checkpoint has neither the step nor what it would have left behind."""
    hurt = trainer_of(model)
    steps(hurt, 5)
    if resumed == "before the overflow":
        hurt = resume(hurt)
    overflow(hurt, "generator", float("inf"))
    if resumed == "right after it":
        hurt = resume(hurt)
    steps(hurt, AFTER[model] // 2)
    if resumed == "later":
        hurt = resume(hurt)
    steps(hurt, AFTER[model] // 2)
    assert hurt.steps_done == whole_of(model).steps_done
    assert_as_varied(hurt, whole_of(model))


def test_without_the_guard_the_difference_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above could not fail if 50 steps healed it."""
    monkeypatch.setattr(RunningStatistics, "settle", lambda self, good: None)
    hurt, whole = trainer_of("dcgan"), whole_of("dcgan")
    steps(hurt, 5)
    overflow(hurt, "generator", float("inf"))
    steps(hurt, AFTER["dcgan"])
    with pytest.raises(AssertionError):
        assert_as_varied(hurt, whole)


def resume(trainer: Trainer) -> Trainer:
    """Another process that goes on with its checkpoint."""
    fresh = trainer_of(trainer.config.model)
    restore_state(fresh, capture_state(trainer))
    return fresh


def assert_as_varied(hurt: Trainer, whole: Trainer) -> None:
    """Samples and running statistics of the averaged generator are as in the run without the overflow."""
    for network in (*hurt.networks.values(), hurt.average):
        for name, tensor in network.state_dict().items():
            assert torch.isfinite(tensor.float()).all(), name
    for mine, theirs in zip(floating_buffers(hurt.average), floating_buffers(whole.average), strict=True):
        assert float((mine - theirs).abs().max()) <= 0.5 * float(theirs.abs().max()) + 0.5
    assert spread(hurt) == pytest.approx(spread(whole), rel=0.5) and spread(hurt) > 1.0


def test_statistics_of_a_good_step_are_kept_to_the_last_bit() -> None:
    """The guard changes nothing where nothing overflows."""
    trainer = trainer_of("dcgan")
    # PyTorch types the parts of a network as Tensor or Module.
    generator: Any = trainer.networks["generator"]
    kept = generator.stages[0][1]
    inputs: list[torch.Tensor] = []
    handle = kept.register_forward_pre_hook(lambda module, arguments: inputs.append(arguments[0].detach().clone()))
    reference: Any = torch.nn.BatchNorm2d(kept.num_features)
    steps(trainer, 3)
    handle.remove()
    for batch in inputs:
        reference(batch)
    assert torch.equal(kept.running_mean, reference.running_mean)
    assert torch.equal(kept.running_var, reference.running_var)


def test_a_resumed_run_guards_its_own_statistics() -> None:
    first = trainer_of("dcgan")
    steps(first, 6)
    second = trainer_of("dcgan")
    restore_state(second, capture_state(first))
    overflow(second, "generator", float("inf"))
    for mine, theirs in zip(*(floating_buffers(own.networks["generator"]) for own in (second, first)), strict=True):
        assert torch.equal(mine, theirs)


def test_a_checkpoint_with_ruined_statistics_is_repaired_and_says_so(capsys: pytest.CaptureFixture) -> None:
    """As versions before 0.2 left them: the weights are sound, and 50 steps teach the statistics anew."""
    first = trainer_of("dcgan")
    steps(first, 6)
    state = capture_state(first)
    for network in ("generator", "average"):
        state[network] = {k: v.clone() for k, v in state[network].items()}
        for name, tensor in state[network].items():
            if "running" in name:
                tensor.fill_(float("nan"))
    second = trainer_of("dcgan")
    restore_state(second, state)
    assert "running statistics" in capsys.readouterr().err
    steps(second, 50)
    steps(first, 50)
    assert all(torch.isfinite(buffer).all() for buffer in floating_buffers(second.average))
    assert spread(second) == pytest.approx(spread(first), rel=0.5)


def test_gradients_that_overflow_leave_finite_statistics_and_the_weights() -> None:
    """They come after a sound forward pass."""
    trainer = trainer_of("dcgan")
    steps(trainer, 2)

    def burst(gradient: torch.Tensor) -> torch.Tensor:
        return gradient * float("inf")

    weight = next(trainer.networks["generator"].parameters())
    handle = weight.register_hook(burst)
    weights = weight.detach().clone()
    steps(trainer, 1)
    handle.remove()
    assert torch.equal(weight, weights)
    assert all(torch.isfinite(buffer).all() for buffer in floating_buffers(trainer.networks["generator"]))
