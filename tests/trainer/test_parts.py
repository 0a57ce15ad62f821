"""Losses against values computed by hand, precision by hardware, networks, data."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from gan_trainer.config import make_config
from gan_trainer.data import Batches, DataError, FolderImages, SyntheticImages, open_loader
from gan_trainer.losses import discriminator_loss, generator_loss
from gan_trainer.networks import Discriminator, Generator, update_average
from gan_trainer.precision import PrecisionError, autocast, choose_precision, make_scaler
from PIL import Image

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
    ],
)
def test_losses_are_those_computed_by_hand(
    kind: str, real: list, fake: list, d_loss: float, g_loss: float | None
) -> None:
    assert float(discriminator_loss(kind, torch.tensor(real), torch.tensor(fake))) == pytest.approx(d_loss, rel=1e-6)
    if g_loss is not None:
        assert float(generator_loss(kind, torch.tensor(fake))) == pytest.approx(g_loss, rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_confident_half_precision_logits_stay_finite_and_teach(dtype: torch.dtype) -> None:
    logits = torch.tensor([60_000.0, -60_000.0], dtype=dtype, requires_grad=True)
    d_loss = discriminator_loss("nonsaturating", -logits, logits)
    g_loss = generator_loss("nonsaturating", logits)
    (d_loss + g_loss).backward()
    assert d_loss.dtype == g_loss.dtype == torch.float32
    assert torch.isfinite(d_loss) and torch.isfinite(g_loss) and torch.isfinite(logits.grad).all()


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


@pytest.mark.parametrize(("name", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_autocast_is_on_every_path(name: str, dtype: torch.dtype, recwarn: pytest.WarningsRecorder) -> None:
    with autocast(choose_precision(name, None), "cpu"):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype
    assert not recwarn.list


@pytest.mark.parametrize("size", [32, 64, 128])
def test_networks_have_the_shapes_they_promise(size: int) -> None:
    generator, discriminator = Generator(size, 16, 4), Discriminator(size, 4)
    images = generator(torch.randn(3, 16))
    assert images.shape == (3, 3, size, size) and images.abs().max() <= 1
    assert discriminator(images).shape == (3,)
    with torch.no_grad():
        discriminator.layers[-1].bias.fill_(50.0)
    assert discriminator(images).min() > 1, "logits, not probabilities"


def test_average_moves_by_its_decay() -> None:
    average, model = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    average.weight.data.fill_(1.0)
    model.weight.data.fill_(2.0)
    update_average(average, model, 0.75)
    assert average.weight.item() == pytest.approx(1.25)


def test_synthetic_images_are_a_function_of_seed_and_index() -> None:
    first, again, other = SyntheticImages(32, 8, 0), SyntheticImages(32, 8, 0), SyntheticImages(32, 8, 1)
    assert first[3].dtype == torch.uint8 and first[3].shape == (3, 32, 32)
    assert torch.equal(first[3], again[3])
    assert not torch.equal(first[3], first[4]) and not torch.equal(first[3], other[3])


def test_batches_cover_an_epoch_once_and_resume_in_its_middle() -> None:
    batches = list(Batches(images=10, batch_size=3, seed=5, start=0, end=9))
    for epoch in range(3):
        seen = [index for batch in batches[epoch * 3 : epoch * 3 + 3] for index in batch]
        assert len(set(seen)) == 9 and set(seen) < set(range(10))
    assert batches[:3] != batches[3:6]
    assert list(Batches(10, 3, 5, start=4, end=9)) == batches[4:]
    assert list(Batches(10, 3, 6, start=0, end=9)) != batches


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sub = tmp_path / "images" / "deeper"
    sub.mkdir(parents=True)
    Image.new("RGB", (60, 40), (255, 0, 0)).save(sub / "a.png")
    Image.new("L", (40, 90), 128).save(sub / "b.JPG")
    Image.new("RGBA", (33, 33), (0, 0, 255, 128)).save(sub / "c.webp", lossless=True)
    Image.new("P", (8, 8)).save(sub / "d.png")
    (sub / "notes.txt").write_text("no image")
    return tmp_path / "images"


def test_folder_of_mixed_images(folder: Path) -> None:
    images = FolderImages(str(folder), 32, max_bad=0)
    assert len(images) == 4
    assert all(images[index].shape == (3, 32, 32) and images[index].dtype == torch.uint8 for index in range(4))
    assert images[0].float().mean(dim=(1, 2)).tolist() == [255.0, 0.0, 0.0]


def test_unreadable_images_are_named_replaced_and_counted_once(folder: Path, capfd: pytest.CaptureFixture) -> None:
    whole = (folder / "deeper" / "b.JPG").read_bytes()
    (folder / "deeper" / "b.JPG").write_bytes(whole[: len(whole) // 2])
    (folder / "deeper" / "c.webp").write_bytes(b"")
    images = FolderImages(str(folder), 32, max_bad=2)
    last = images[3]
    for _ in range(2):
        assert torch.equal(images[1], last)
    errors = capfd.readouterr().err
    assert errors.count("b.JPG: cannot be read as an image") == errors.count("c.webp: cannot be read as an image") == 1
    with pytest.raises(DataError, match="2 unreadable images, the last .*c.webp; allowed: 1"):
        FolderImages(str(folder), 32, max_bad=1)[1]


def test_folder_without_one_readable_image_ends(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(DataError, match="1 unreadable images"):
        FolderImages(str(tmp_path), 32, max_bad=10)[0]


@pytest.mark.parametrize(
    ("data", "message"), [("empty", "holds no file"), ("none", "is no folder"), ("few", "more than the 4")]
)
def test_data_that_cannot_be_trained_on(data: str, message: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    folder.rename(tmp_path / "few")
    config = make_config({"data": str(tmp_path / data), "batch_size": 8, "num_workers": 0})
    with pytest.raises(DataError, match=message), open_loader(config, 0, pin_memory=False):
        pass
