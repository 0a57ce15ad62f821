"""Classes: from the names of folders to a generator that draws the one that is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from conftest import TINY
from PIL import Image

from gan_trainer import cli
from gan_trainer.config import Config, ConfigError, make_config
from gan_trainer.data.census import describe
from gan_trainer.data.images import DataError
from gan_trainer.data.loader import make_dataset, open_loader
from gan_trainer.engine.compiled import compile_networks
from gan_trainer.engine.loop import Trainer
from gan_trainer.engine.train import train
from gan_trainer.errors import UsageError
from gan_trainer.models.networks import build
from gan_trainer.precision import Precision
from gan_trainer.runs.samples import generate

CPU, FP32 = torch.device("cpu"), Precision("fp32", "")
GREYS = {"dark": 30, "light": 220}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for name, grey in GREYS.items():
        (folder / name / "deeper").mkdir(parents=True)
        for number in range(6):
            place = folder / name / ("deeper" if number % 2 else ".")
            Image.new("RGB", (32, 32), (grey + number,) * 3).save(place / f"{number}.png")
    return folder


def config_for(folder: Path, **changes: object) -> Config:
    return make_config({**TINY, "data": str(folder), "classes": 2, "device": "cpu", "max_bad_images": 10, **changes})


def test_the_folders_name_the_classes_at_any_depth(data: Path) -> None:
    config = config_for(data)
    dataset = make_dataset(config)
    assert len(dataset) == 12
    for image, label in (dataset[index] for index in range(12)):
        assert (int(image.float().mean()) > 128) == bool(label)
    assert "data: classes: 0 dark, 1 light" in describe(config)


@pytest.mark.parametrize("workers", [0, 2])
def test_images_and_classes_stay_together(data: Path, workers: int) -> None:
    with open_loader(config_for(data, num_workers=workers, steps=6), 0, False) as loader:
        seen = [(images, labels) for images, labels in loader]
    assert len(seen) == 6
    for images, labels in seen:
        assert labels.dtype == torch.int64 and (images.float().mean(dim=(1, 2, 3)) > 128).tolist() == labels.tolist()


def test_an_unreadable_image_gives_way_to_one_with_its_own_class(tmp_path: Path, data: Path) -> None:
    for name, grey in GREYS.items():
        (tmp_path / name).mkdir()
        Image.new("RGB", (32, 32), (grey,) * 3).save(tmp_path / name / "b.png")
    # The next readable file after it is of the other class.
    (tmp_path / "dark/c.png").write_bytes(b"no image")
    image, label = make_dataset(config_for(tmp_path))[1]
    assert label == 1 and float(image.float().mean()) > 128


def test_a_wrong_number_of_classes_is_told_with_the_right_one(data: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="classes: 3, but .* has 2 folders of images: dark, light") as refused:
        make_dataset(config_for(data, classes=3))
    assert str(refused.value).endswith("Set classes=2, or classes=0 to train all as one kind")
    (tmp_path / "kinds").symlink_to(data)
    with pytest.raises(DataError, match="has 1 folder of images: .*. Set data to the folder in which each kind has"):
        make_dataset(config_for(tmp_path, classes=3))
    Image.new("RGB", (8, 8)).save(tmp_path / "loose.png")
    with pytest.raises(DataError, match="loose.png is not in the folder of a class.* set classes=0"):
        make_dataset(config_for(tmp_path, classes=1))


@pytest.mark.parametrize("changes", [{"data": "synthetic"}, {"data": "x/{0..3}.tar"}, {"cache_dir": "/x"}])
def test_what_has_no_classes_is_refused(data: Path, changes: dict) -> None:
    with pytest.raises(ConfigError, match="classes"):
        config_for(data, **changes)
    with pytest.raises(ConfigError, match="classes: 2 is for task gan"):
        config_for(data, task="flow")


@pytest.mark.parametrize("model", ["dcgan", "residual", "r3gan"])
def test_both_networks_know_the_class(data: Path, model: str) -> None:
    generator, discriminator = build(config_for(data, model=model))
    noise, images = torch.randn(4, 8), torch.rand(4, 3, 32, 32)
    first, second = torch.zeros(4, dtype=torch.int64), torch.ones(4, dtype=torch.int64)
    if model == "r3gan":
        # Its branches begin at 0, its skips do not.
        assert generator.eval()(noise, first).shape == (4, 3, 32, 32)
    assert not torch.equal(generator.eval()(noise, first), generator(noise, second))
    assert not torch.equal(discriminator.eval()(images, first), discriminator(images, second))
    assert discriminator(images, first).shape == (4,)


@pytest.mark.parametrize("changes", [{"r1_gamma": 1.0, "r2_gamma": 1.0, "loss": "relativistic"}, {"accumulate": 2}])
def test_penalties_parts_and_compiled_code_get_the_classes(data: Path, changes: dict) -> None:
    config = config_for(data, model="residual", compile="on", **changes)
    images = torch.randint(0, 256, (4, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    labels, found = torch.tensor([0, 1, 1, 0]), []
    for compiler in (None, lambda function: lambda *words: function(*words)):
        trainer = Trainer(config, CPU, FP32)
        if compiler:
            assert all("is compiled" in line for line in compile_networks(trainer, compiler))
        for _ in range(2):
            trainer.step(images, labels)
        found.append(trainer.watch.losses.clone())
    assert torch.allclose(found[0], found[1], rtol=1e-4) and bool(torch.isfinite(found[0]).all())
    assert all(weight.grad is not None for net in trainer.networks.values() for weight in net.parameters())


@pytest.mark.long
def test_the_generator_learns_which_is_which(data: Path) -> None:
    rates = {"lr_generator": 2e-3, "lr_discriminator": 2e-3, "lr_scaling": "none", "beta1": 0.0, "ema_decay": 0.9}
    config = config_for(data, model="residual", r1_gamma=1.0, batch_size=8, **rates)
    trainer = Trainer(config, CPU, FP32)
    dataset = make_dataset(config)
    images = torch.stack([dataset[index][0] for index in (0, 1, 2, 3, 6, 7, 8, 9)])
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    for _ in range(120):
        trainer.step(images, labels)
    drawn = generate(trainer.average, 16, 8, seed=0, classes=2).float().mean(dim=(1, 2, 3))
    dark, light = drawn[0::2], drawn[1::2]
    assert float(light.min()) > float(dark.max()) and float(light.mean() - dark.mean()) > 60


def test_a_run_resumes_draws_measures_and_exports(data: Path, tmp_path: Path) -> None:
    values = {"run_dir": str(tmp_path / "run"), "distance_every": 4, "distance_images": 8, "checkpoint_every": 2}
    values["model"] = "residual"
    for steps in (2, 4):
        train(config_for(data, **values, steps=steps))
    assert (tmp_path / "run/best.pt").exists()
    words = ["--config", str(tmp_path / "run/config.yml")]
    for name, more in {"a": ["--classes", "1"], "b": ["--classes", "0"], "c": ["--classes", "1"]}.items():
        assert cli.main(["sample", *words, "--seeds", "0-3", *more, "--output", str(tmp_path / f"{name}.png")]) == 0
    pictures = {name: (tmp_path / f"{name}.png").read_bytes() for name in "abc"}
    assert pictures["a"] == pictures["c"] != pictures["b"]
    assert cli.main(["sample", *words, "--classes", "2"]) == 2
    assert cli.main(["export", *words, "--formats", "torchscript,torch_export,onnx"]) == 0
    loaded = torch.jit.load(str(tmp_path / "run/export/generator.torchscript.pt"))
    assert loaded(torch.zeros(3, 8), torch.tensor([0, 1, 1])).shape == (3, 3, 32, 32)
    with pytest.raises(UsageError, match="classes"):
        train(config_for(data, **values, classes=1))
