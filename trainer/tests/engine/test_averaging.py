"""The averaged network draws with statistics of its own, whoever asks, and asking changes nothing else."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import TINY, kept_state
from torch import Tensor, nn

from gan_trainer import cli
from gan_trainer.config import make_config
from gan_trainer.engine.loop import Trainer
from gan_trainer.engine.state import capture_state, restore_state
from gan_trainer.engine.train import train
from gan_trainer.inference.trained import load_trained
from gan_trainer.models.averaging import LARGEST_PASS, averaged_copy, estimate_statistics
from gan_trainer.precision import choose_precision
from gan_trainer.runs.samples import generate

CPU = torch.device("cpu")
# Quick enough for the average to be another network than the one in training.
QUICK = {**TINY, "lr_generator": 2e-3, "ema_decay": 0.97, "batch_size": 16}


def trained_for(steps: int, **settings: object) -> Trainer:
    trainer = Trainer(make_config({**QUICK, **settings}), CPU, choose_precision("fp32", None))
    random = torch.Generator().manual_seed(1)
    labels = (torch.arange(16) % trainer.config.classes,) if trainer.config.classes else ()
    for _ in range(steps):
        trainer.step(torch.randint(0, 256, (16, 3, 32, 32), generator=random, dtype=torch.uint8), *labels)
    return trainer


def norms(network: nn.Module) -> list[Any]:
    return [layer for layer in network.modules() if isinstance(layer, nn.BatchNorm2d)]


def exact_statistics(network: nn.Module, *inputs: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Mean and variance before each batch norm in one large pass, each normalised by itself."""
    found, network = [], copy.deepcopy(network).train()

    def look(layer: nn.Module, arguments: tuple[Tensor]) -> None:
        found.append((arguments[0].mean((0, 2, 3)), arguments[0].var((0, 2, 3))))

    for layer in norms(network):
        layer.register_forward_pre_hook(look)
    with torch.no_grad():
        network(*inputs)
    return found


@pytest.mark.parametrize("classes", [0, 2])
def test_its_statistics_are_those_of_its_own_activations(classes: int) -> None:
    trainer = trained_for(60, classes=classes, data="some.own:data" if classes else "synthetic")
    labels = (torch.arange(2000) % classes,) if classes else ()
    exact = exact_statistics(trainer.average, torch.randn(2000, 8), *labels)
    own, borrowed = norms(trainer.average), norms(trainer.networks["generator"])

    def apart(layers: list[Any]) -> float:
        return max(float((layer.running_var / var - 1).abs().max()) for layer, (_, var) in zip(layers, exact))

    assert apart(own) < 0.25 and apart(borrowed) > 2 * apart(own)


def test_asking_changes_nothing_else_and_is_done_once_a_step() -> None:
    asked, silent = trained_for(3), trained_for(3)
    first = [buffer.clone() for buffer in asked.average.buffers()]
    random = torch.random.get_rng_state()
    assert asked.average is asked.average and not asked.average.training
    assert all(torch.equal(one, other) for one, other in zip(first, asked.average.buffers(), strict=True))
    assert torch.equal(random, torch.random.get_rng_state())
    for trainer in (asked, silent):
        trainer.step(torch.zeros(16, 3, 32, 32, dtype=torch.uint8))
    for name, network in asked.networks.items():
        for one, other in zip(network.state_dict().values(), silent.networks[name].state_dict().values(), strict=True):
            assert torch.equal(one, other)


def test_a_checkpoint_keeps_them_and_a_resumed_run_draws_the_same() -> None:
    first, second = trained_for(5), trained_for(0)
    state = capture_state(first)
    restore_state(second, copy.deepcopy(state))
    for one, other in zip(state["average"].values(), second.average.state_dict().values(), strict=True):
        assert torch.equal(one, other)


def test_what_an_earlier_release_saved_is_estimated_anew_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    config = make_config(
        {**QUICK, "run_dir": str(tmp_path / "run"), "device": "cpu", "steps": 30, "synthetic_images": 64}
    )
    train(config)
    state = kept_state(tmp_path / "run")
    right = load_trained(tmp_path / "run")
    capsys.readouterr()
    # As it was: the average's buffers are the generator's, and nothing says whose they are.
    file = next((tmp_path / "run").glob("checkpoint-*30.pt"))
    for name in state["average"]:
        if "running" in name or "num_batches" in name:
            state["average"][name] = state["generator"][name].clone()
    del state["average_statistics"]
    torch.save(state, file)
    again = load_trained(tmp_path / "run")
    assert "estimated anew" in capsys.readouterr().err
    for one, other in zip(right.generator.buffers(), again.generator.buffers(), strict=True):
        assert torch.allclose(one.float(), other.float(), rtol=1e-4, atol=1e-6)
    config_file = tmp_path / "c.yml"
    config_file.write_text("\n".join(f"{key}: {value}" for key, value in {**QUICK, "device": "cpu"}.items()))
    words = ["--config", str(config_file), f"run_dir={tmp_path / 'run'}", "synthetic_images=64", "steps=31"]
    assert cli.main(words) == 0
    assert "begun by an earlier release" in capsys.readouterr().out
    assert cli.main([*words[:-1], "steps=32"]) == 0
    assert "earlier release" not in capsys.readouterr().out


class OfAnyKind(nn.Module):
    """What networks have besides batch norm: shared layers, instance norm, spectral norm, a buffer of their own."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 3 * 16))
        self.shared, self.single = nn.BatchNorm2d(3), nn.InstanceNorm2d(3, track_running_stats=True)
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, noise: Tensor) -> Tensor:
        x = self.start(noise).unflatten(1, (3, 4, 4))
        if self.training:
            self.seen.lerp_(x.mean((0, 2, 3)), 0.5)
        return self.single(self.shared(self.shared(x * 3) + 5))


def test_layers_of_other_kinds_are_estimated_too() -> None:
    network: Any = averaged_copy(OfAnyKind())
    network.requires_grad_(False)
    network.start.bias.fill_(2.0)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    estimate_statistics(network, network, (8,), None, 64, 0)
    x = network.start(torch.randn(4000, 8)).unflatten(1, (3, 4, 4)) * 3
    once = nn.functional.batch_norm(x, None, None, network.shared.weight, network.shared.bias, True) + 5
    # The mean over its two calls in each pass.
    expected = (x.mean((0, 2, 3)) + once.mean((0, 2, 3))) / 2
    assert torch.allclose(network.shared.running_mean, expected, atol=0.2)
    assert network.single.running_var.sub(1).abs().max() < 0.2 and network.single.running_mean.abs().max() < 0.2
    assert network.seen.sub(2).abs().max() < 0.2
    vectors = "start.parametrizations.weight.0._u"
    assert not torch.equal(network.state_dict()[vectors], before[vectors])
    assert [layer.momentum for layer in (network.shared, network.single)] == [0.1, 0.1]
    assert not any(layer._forward_pre_hooks for layer in (network.shared, network.single))


def test_layers_that_wait_for_other_processes_wait_for_nobody() -> None:
    """SyncBatchNorm in training mode exchanges sums with all processes; only the first one draws."""
    model: Any = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Unflatten(1, (2, 4, 1)), nn.BatchNorm2d(2)))
    average: Any = averaged_copy(model)
    assert isinstance(model[1], nn.SyncBatchNorm) and not isinstance(average[1], nn.SyncBatchNorm)
    estimate_statistics(average, average, (8,), None, 64, 0)
    assert average[1].running_mean.abs().max() < 0.1
    assert model.state_dict().keys() == average.state_dict().keys()


def test_a_full_card_gets_fewer_images_at_a_time() -> None:
    network = nn.Sequential(nn.BatchNorm1d(8))
    sizes: list[int] = []

    def sampler(noise: Tensor) -> Tensor:
        sizes.append(len(noise))
        if len(noise) > 16:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return network(noise)

    given: Any = sampler
    estimate_statistics(network, given, (8,), None, 1000, 0)
    assert sizes[:3] == [LARGEST_PASS, 32, 16] and set(sizes[2:]) == {16}
    layer: Any = network[0]
    assert layer.running_mean.abs().max() < 0.3


def test_nothing_is_estimated_where_training_moves_no_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow's path takes many passes, and its buffer is a constant."""
    monkeypatch.setattr("gan_trainer.engine.loop.estimate_statistics", lambda *_: pytest.fail("estimated"))
    trainer = trained_for(2, task="flow", image_size=32)
    generate(trainer.task.sampler(trainer.average), 1, trainer.task.noise_shape(), 0)
