"""Losses against values computed by hand, precision by hardware, networks."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from gan_trainer.config import make_config
from gan_trainer.models.losses import discriminator_loss, functional_gradient_penalty, generator_loss, gradient_penalty
from gan_trainer.models.networks import build, update_average
from gan_trainer.precision import PrecisionError, autocast, choose_precision, make_scaler, set_tf32

LN3 = math.log(3.0)


@pytest.mark.parametrize(
    ("kind", "real", "fake", "d_loss", "g_loss"),
    [
        ("nonsaturating", [0.0], [0.0], 2 * math.log(2), math.log(2)),
        # sigmoid(ln 3) = 3/4: -ln(3/4) twice; the generator sees D(fake) = 1/4.
        ("nonsaturating", [LN3], [-LN3], 2 * math.log(4 / 3), math.log(4)),
        ("nonsaturating", [LN3, 0.0], [LN3, 0.0], (math.log(4 / 3) + 2 * math.log(2) + math.log(4)) / 2, None),
        ("hinge", [0.0], [0.0], 2.0, 0.0),
        ("hinge", [0.5, 2.0], [-2.0, 0.5], 0.25 + 0.75, 0.75),
        ("relativistic", [5.0], [5.0], math.log(2), math.log(2)),
        # Pair by pair: differences of ln 3 and 0, the generator's with the opposite sign.
        (
            "relativistic",
            [LN3 + 1, 7.0],
            [1.0, 7.0],
            (math.log(4 / 3) + math.log(2)) / 2,
            (math.log(4) + math.log(2)) / 2,
        ),
    ],
)
def test_losses_are_those_computed_by_hand(
    kind: str, real: list, fake: list, d_loss: float, g_loss: float | None
) -> None:
    real_logits, fake_logits = torch.tensor(real), torch.tensor(fake)
    assert float(discriminator_loss(kind, real_logits, fake_logits)) == pytest.approx(d_loss, rel=1e-6)
    if g_loss is not None:
        logits = (fake_logits, real_logits) if kind == "relativistic" else (fake_logits,)
        assert float(generator_loss(kind, *logits)) == pytest.approx(g_loss, rel=1e-6)


def square_sum(images: torch.Tensor) -> torch.Tensor:
    """A discriminator whose slope is known: 2 * weight * pixel."""
    return (images.square() * WEIGHT).sum(dim=(1, 2, 3))


WEIGHT = torch.tensor(3.0, requires_grad=True)


@pytest.mark.parametrize("functional", [False, True])
def test_gradient_penalty_and_its_gradient_are_those_computed_by_hand(functional: bool) -> None:
    images = torch.tensor([1.0, 2.0]).reshape(2, 1, 1, 1).expand(2, 3, 1, 1).clone().requires_grad_(True)
    WEIGHT.grad = None
    value = (
        functional_gradient_penalty(square_sum, images) if functional else gradient_penalty(square_sum(images), images)
    )
    # |2 w x|^2 / 2 over 3 channels, mean of x = 1 and x = 2: 2 w^2 * 3 * (1 + 4) / 2 = 15 w^2.
    assert float(value.detach()) == pytest.approx(15 * 9)
    value.backward()
    assert WEIGHT.grad is not None and float(WEIGHT.grad) == pytest.approx(30 * 3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_confident_half_precision_logits_stay_finite_and_teach(dtype: torch.dtype) -> None:
    logits = torch.tensor([60_000.0, -60_000.0], dtype=dtype, requires_grad=True)
    d_loss = discriminator_loss("nonsaturating", -logits, logits)
    g_loss = generator_loss("nonsaturating", logits)
    (d_loss + g_loss).backward()
    assert d_loss.dtype == g_loss.dtype == torch.float32
    assert torch.isfinite(d_loss) and torch.isfinite(g_loss)
    assert logits.grad is not None and torch.isfinite(logits.grad).all()


@pytest.mark.parametrize(
    ("wanted", "capability", "name"),
    [
        ("auto", (9, 0), "bf16"),
        ("auto", (8, 0), "bf16"),
        ("auto", (7, 5), "fp16"),
        ("auto", (7, 0), "fp16"),
        ("auto", (6, 1), "fp32"),
        ("auto", None, "fp32"),
        ("fp32", (9, 0), "fp32"),
        ("fp16", (9, 0), "fp16"),
        ("fp16", (6, 0), "fp16"),
        ("bf16", (8, 6), "bf16"),
        ("bf16", None, "bf16"),
        ("bf16", (7, 5), None),
        ("bf16", (7, 0), None),
        ("fp16", None, None),
        ("tf32", (8, 0), "tf32"),
        ("tf32", (7, 0), None),
        ("tf32", None, None),
    ],
)
def test_precision_follows_the_hardware_and_is_never_emulated_on_a_gpu(
    wanted: str, capability: tuple, name: str
) -> None:
    if name is None:
        with pytest.raises(PrecisionError, match=f"^precision: {wanted} needs"):
            choose_precision(wanted, capability)
        return
    chosen = choose_precision(wanted, capability)
    assert chosen.name == name and chosen.because


@pytest.mark.parametrize("name", ["fp32", "bf16"])
def test_only_float16_is_scaled(name: str) -> None:
    assert not make_scaler(choose_precision(name, (9, 0))).is_enabled()


@pytest.mark.skipif(torch.cuda.is_available(), reason="the scaler warns only where there is no GPU")
def test_float16_has_a_scaler() -> None:
    with pytest.warns(UserWarning, match="GradScaler is enabled, but CUDA is not available"):
        make_scaler(choose_precision("fp16", (7, 0)))


def test_v100_is_told_why() -> None:
    chosen = choose_precision("auto", (7, 0))
    assert "7.0" in chosen.because and "bfloat16 only by emulation" in chosen.because


def test_fp32_means_all_bits_also_in_convolutions() -> None:
    for name, allowed in (("fp32", False), ("bf16", True), ("tf32", True), ("fp32", False)):
        set_tf32(choose_precision(name, (8, 0)))
        assert torch.backends.cudnn.allow_tf32 is allowed
        assert torch.get_float32_matmul_precision() == ("high" if allowed else "highest")


@pytest.mark.parametrize(
    ("name", "dtype"), [("tf32", torch.float32), ("fp32", torch.float32), ("bf16", torch.bfloat16)]
)
def test_autocast_is_on_every_path(name: str, dtype: torch.dtype, recwarn: pytest.WarningsRecorder) -> None:
    with autocast(choose_precision(name, (8, 0)), "cpu"):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype
    assert not recwarn.list


@pytest.mark.parametrize("model", ["dcgan", "residual", "r3gan"])
@pytest.mark.parametrize("size", [32, 64, 128, 256])
def test_networks_have_the_shapes_they_promise(model: str, size: int) -> None:
    generator, discriminator = build(make_config({"model": model, "image_size": size, "latent_dim": 16, "channels": 4}))
    with torch.no_grad():
        images = generator(torch.randn(2, 16))
        logits = discriminator(images)
        assert images.shape == (2, 3, size, size) and logits.shape == (2,)
        # Of 740 draws of each network, the spread was 0.05 to 1.9, its logarithm about normal: its middle 0.55, one
        # standard deviation 0.4, for the two that end without tanh. A factor of 7 above the middle is 4.9 of them.
        assert 0.01 < images.std() < 4 and logits.abs().max() < 20, "a start that can be trained"
        layers: Any = discriminator
        last = layers.stages[-1] if model == "dcgan" else layers.verdict
        last.bias.fill_(50.0)
        assert discriminator(images).min() > 1, "logits, not probabilities"


@pytest.mark.parametrize("model", ["dcgan", "residual", "r3gan"])
def test_networks_reach_1024_pixels(model: str) -> None:
    config = make_config({"model": model, "image_size": 1024, "latent_dim": 8, "channels": 4, "batch_size": 1})
    with torch.device("meta"):
        generator, discriminator = build(config)
        images = generator(torch.empty(1, 8))
        assert images.shape == (1, 3, 1024, 1024) and discriminator(images).shape == (1,)


@pytest.mark.parametrize("model", ["dcgan", "residual", "r3gan"])
def test_activation_checkpointing_keeps_less_and_changes_no_gradient(model: str) -> None:
    gradients, kept = [], []
    for recompute in (False, True):
        torch.manual_seed(0)
        values = {"model": model, "image_size": 64, "channels": 4, "activation_checkpointing": recompute}
        discriminator = build(make_config(values)).discriminator
        images = torch.randn(4, 3, 64, 64, requires_grad=True)
        saved: list[int] = []

        def keep(values: torch.Tensor, saved: list[int] = saved) -> torch.Tensor:
            saved.append(values.numel())
            return values

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
            logits = discriminator(images)
        kept.append(sum(saved))
        # The penalty differentiates twice through what was recomputed.
        (logits.mean() + gradient_penalty(logits, images)).backward()
        gradients.append([parameter.grad for parameter in discriminator.parameters()])
    assert all(torch.allclose(one, other, rtol=1e-4, atol=1e-7) for one, other in zip(*gradients, strict=True))
    assert kept[1] < kept[0] * 0.6


def test_average_moves_by_its_decay() -> None:
    average, model = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    average.weight.data.fill_(1.0)
    model.weight.data.fill_(2.0)
    update_average(average, model, 0.75)
    assert average.weight.item() == pytest.approx(1.25)
