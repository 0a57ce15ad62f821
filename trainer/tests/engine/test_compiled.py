"""torch.compile is trusted only after it agreed with eager mode; whatever it does wrong, eager mode runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from conftest import TINY

from gan_trainer.config import make_config
from gan_trainer.engine.compiled import choose_compile, compare, compile_networks, farther
from gan_trainer.engine.loop import Trainer
from gan_trainer.models.networks import build
from gan_trainer.parallel.distributed import Ranks
from gan_trainer.precision import Precision

CPU, FP32 = torch.device("cpu"), Precision("fp32", "")
IMAGES = torch.randint(0, 256, (4, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def trainer_for(**changes: object) -> Trainer:
    values = {**TINY, "model": "residual", "r1_gamma": 1.0, "compile": "on", **changes}
    return Trainer(make_config(values), CPU, FP32)


@pytest.mark.parametrize(
    ("wanted", "capability", "on"),
    [
        ("auto", (7, 0), False),
        ("auto", (7, 5), False),
        ("auto", (8, 0), True),
        ("auto", (9, 0), True),
        ("auto", None, False),
        ("on", (7, 0), True),
        ("on", None, True),
        ("off", (9, 0), False),
    ],
)
def test_compile_is_off_on_volta_unless_asked_for(wanted: str, capability: tuple | None, on: bool) -> None:
    assert choose_compile(wanted, capability)[0] is on
    assert choose_compile(wanted, capability)[1]


def losses(trainer: Trainer) -> torch.Tensor:
    for _ in range(2):
        trainer.step(IMAGES)
    return trainer.watch.losses


def test_what_agrees_runs_compiled_and_trains_the_same() -> None:
    """A compiler that counts its calls stands for one that is right."""
    calls: list[str] = []

    def counting(function: Callable) -> Callable:
        def compiled(*arguments: torch.Tensor) -> torch.Tensor:
            calls.append(getattr(function, "__qualname__", "penalty"))
            return function(*arguments)

        return compiled

    trainer = trainer_for()
    lines = compile_networks(trainer, counting)
    assert [line.split(" is compiled, equal to eager mode within ")[0] for line in lines] == [
        "generator",
        "discriminator",
        "gradient penalty",
    ]
    calls.clear()
    found = losses(trainer)
    names = ["ResidualGenerator.forward", "ResidualDiscriminator.forward", "ResidualDiscriminator.forward", "penalty"]
    assert calls == [*names, "ResidualDiscriminator.forward"] * 2
    assert torch.allclose(found, losses(trainer_for()), rtol=1e-5)


def test_silently_wrong_double_backward_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As pytorch issue 91469 was: the penalty's value is right, the gradient that flows from it is not."""

    def wrong(function: Callable) -> Callable:
        if not isinstance(function, partial):
            return function
        return lambda images: function(images) + 0 * function(images).detach() + Wrong.apply(function(images))

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, value: torch.Tensor) -> torch.Tensor:
            return torch.zeros_like(value)

        @staticmethod
        def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * 0.5

    trainer = trainer_for()
    line = compile_networks(trainer, wrong)[2]
    assert line.startswith("gradient penalty runs eagerly: compiled code differs from eager mode by 0.5")
    task: Any = trainer.task
    assert task.penalties.compiled is None
    assert torch.allclose(losses(trainer), losses(trainer_for()), rtol=1e-5)


def test_network_that_compiles_wrongly_or_not_at_all_runs_eagerly() -> None:
    def failing(function: Callable) -> Callable:
        def compiled(*arguments: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("InductorError: sympy\nis at a loss")

        return compiled

    def zeros(function: Callable) -> Callable:
        return lambda batch: function(batch) * 0

    for compiler, reason in (
        (failing, "RuntimeError: InductorError: sympy is at a loss"),
        (zeros, "differs from eager"),
    ):
        trainer = trainer_for()
        lines = compile_networks(trainer, compiler)
        assert len(lines) == 3 and all("runs eagerly: " in line and reason in line for line in lines)
        assert torch.allclose(losses(trainer), losses(trainer_for()), rtol=1e-6)


def test_check_leaves_the_network_as_it_was() -> None:
    discriminator = build(make_config(TINY)).discriminator
    before = {name: tensor.clone() for name, tensor in discriminator.state_dict().items()}
    assert compare(discriminator, discriminator, discriminator, [torch.randn(4, 3, 32, 32)], FP32) == ""
    assert all(torch.equal(before[name], tensor) for name, tensor in discriminator.state_dict().items())
    assert all(parameter.grad is None for parameter in discriminator.parameters())


@pytest.mark.skipif(sys.version_info < (3, 10), reason="the tracer of old releases knows no inner gradients")
@pytest.mark.long
def test_real_tracer_agrees_also_on_the_penalty() -> None:
    """Dynamo and AOTAutograd, which could not differentiate twice; the code generator behind them takes a minute."""
    trainer = trainer_for(channels=4)
    lines = compile_networks(trainer, partial(torch.compile, backend="aot_eager"))
    assert all("is compiled" in line for line in lines), lines
    assert torch.allclose(losses(trainer), losses(trainer_for(channels=4)), rtol=1e-4)


def scaled(by: float) -> Callable:
    """A compiler whose code is off by this factor, in values and gradients."""
    return lambda function: lambda *batch: function(*batch) * by


class Alike(Ranks):
    """Ranks that all find the same, and note what they are asked."""

    asked: list

    def largest(self, values: torch.Tensor) -> torch.Tensor:
        getattr(self, "asked", []).append(float(values[0]))
        return values


@pytest.mark.parametrize("model", ["dcgan", "residual", "r3gan"])
def test_bfloat16_is_no_excuse_for_six_percent(model: str) -> None:
    """Half precision is judged by its own distance from float32, not by a limit that is wide enough for any network."""
    torch.manual_seed(0)
    network = build(make_config({**TINY, "model": model})).discriminator
    images, bf16 = torch.rand(4, 3, 32, 32) * 2 - 1, Precision("bf16", "")
    assert compare(network, network, network, [images], bf16) == ""
    fault = compare(network, network, scaled(1.06)(network), [images], bf16)
    assert fault.startswith("compiled code differs from float32 by 0.") and "eager mode by 0.0" in fault


def test_one_wrong_gradient_among_many_is_seen() -> None:
    exact = [torch.ones(8) for _ in range(60)]
    usual = [values * 1.01 for values in exact]
    assert farther(usual, usual, exact) == ""
    assert "differs from float32 by 0.05, eager mode by 0.01" in farther([exact[0] * 1.05, *usual[1:]], usual, exact)
    assert farther([values * float("nan") for values in exact], usual, exact) != ""


def test_a_compiler_that_raises_itself_is_agreed_upon() -> None:
    """Else this process would leave, and the others would wait in the agreement for ten minutes."""

    def absent(function: Callable) -> Callable:
        raise RuntimeError("torch.compile is not supported on Python 3.14+")

    trainer = trainer_for()
    asked: list[float] = []
    trainer.ranks = Alike()
    trainer.ranks.asked = asked
    lines = compile_networks(trainer, absent)
    assert len(lines) == 3 and all(
        "runs eagerly: RuntimeError: torch.compile is not supported" in line for line in lines
    )
    assert asked == [1.0, 1.0, 1.0]


def test_a_network_that_talks_to_the_others_is_not_compiled() -> None:
    """SyncBatchNorm waits for every process in its forward pass; one that fails to compile would never come."""
    trainer = trainer_for(model="dcgan", r1_gamma=0.0)
    trainer.networks["generator"] = torch.nn.SyncBatchNorm.convert_sync_batchnorm(trainer.networks["generator"])
    trainer.ranks = Alike(world=2)
    seen: list[str] = []

    def note(function: Any) -> Any:
        seen.append(function.__self__.__class__.__name__)
        return function

    told = compile_networks(trainer, note)
    assert told[0] == "generator runs eagerly: its batch norm takes statistics over 2 processes"
    assert len(seen) == 1 and told[1].startswith("discriminator is compiled")
