"""Networks and images of somebody's own package, which the trainer knows by a name alone."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from conftest import PACKAGE, TINY

from gan_trainer.config import ConfigError, make_config
from gan_trainer.data.census import describe
from gan_trainer.data.loader import make_dataset
from gan_trainer.errors import UsageError
from gan_trainer.models.networks import build
from gan_trainer.runs.checkpoint import load_checkpoint

Run = Callable[..., subprocess.CompletedProcess]
SOURCE = """
import torch
from torch import nn

class Generator(nn.Module):
    def __init__(self, latent, size):
        super().__init__()
        self.size, self.layer = size, nn.Linear(latent, 3 * size * size)
    def forward(self, noise):
        return torch.tanh(self.layer(noise)).view(-1, 3, self.size, self.size)

class Discriminator(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = nn.Linear(3 * size * size, 1)
    def forward(self, images):
        return self.layer(images.flatten(1)).squeeze(1)

def build(config):
    return Generator(config.latent_dim, config.image_size), Discriminator(config.image_size)

def small(config):
    return Generator(config.latent_dim, 16), Discriminator(config.image_size)

def columns(config):
    class Columns(Discriminator):
        def forward(self, images):
            return self.layer(images.flatten(1))
    return Generator(config.latent_dim, config.image_size), Columns(config.image_size)

def single(config):
    return Generator(config.latent_dim, config.image_size)

class Stripes:
    def __init__(self, size, kind=torch.uint8):
        self.size, self.kind = size, kind
    def __len__(self):
        return 24
    def __getitem__(self, index):
        return torch.full((3, self.size, self.size), index, dtype=self.kind)

def make(config):
    return Stripes(config.image_size)

def floats(config):
    return Stripes(config.image_size, torch.float32)

def half(config):
    return Stripes(config.image_size // 2)

def nothing(config):
    return []

def broken(config):
    return 1 / 0

number = 7
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the package mine, importable here and in what a test starts."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/__init__.py").write_text("")
    (tmp_path / "mine/parts.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("mine", "mine.parts"):
        monkeypatch.delitem(__import__("sys").modules, name, raising=False)
    return tmp_path


def test_own_networks_and_images_train_resume_and_draw(own: Path, run_trainer: Run) -> None:
    values = {**TINY, "model": "mine.parts:build", "data": "mine.parts:make", "device": "cpu", "num_workers": 1}
    values |= {"run_dir": str(own / "run"), "checkpoint_every": 2, "batch_size": 8}
    (own / "c.yml").write_text("".join(f"{key}: {value}\n" for key, value in values.items()))
    env = {"PYTHONPATH": f"{PACKAGE}:{own}"}
    for steps in (2, 4):
        done = run_trainer("-m", "gan_trainer.cli", "--config", str(own / "c.yml"), f"steps={steps}", env=env)
        assert done.returncode == 0, done.stderr
        assert "data: 24 images from mine.parts:make" in done.stdout + done.stderr
    assert "resumes after step 2" in done.stdout + done.stderr
    state = load_checkpoint(own / "run")
    assert state is not None and state["step"] == 4
    drawn = ("sample", "--config", str(own / "c.yml"), "--output", str(own / "grid.png"))
    done = run_trainer("-m", "gan_trainer.cli", *drawn, env=env)
    assert done.returncode == 0 and (own / "grid.png").stat().st_size > 100, done.stderr


def test_own_networks_get_the_configuration(own: Path) -> None:
    networks = build(make_config({**TINY, "model": "mine.parts:build"}))
    assert networks.generator(torch.zeros(2, 8)).shape == (2, 3, 32, 32)
    assert networks.generator.training and networks.discriminator.training


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mine.parts:small", "model: mine.parts:small: the generator gives (2, 3, 16, 16), expected (2, 3, 32, 32)"),
        ("mine.parts:columns", "model: mine.parts:columns: the discriminator gives (2, 1), expected (2,)"),
        ("mine.parts:single", "model: mine.parts:single: expected two networks, generator and discriminator"),
        ("mine.parts:missing", "model: mine.parts:missing: mine.parts has no missing"),
        ("mine.parts:number", "model: mine.parts:number: number cannot be called"),
        ("mine.parts:broken", "model: mine.parts:broken: ZeroDivisionError: division by zero"),
        ("nobody.here:build", "model: nobody.here:build: No module named 'nobody'; install its package"),
    ],
)
def test_networks_that_do_not_fit_are_named(own: Path, name: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        build(make_config({**TINY, "model": name}))
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mine.parts:floats", "data: mine.parts:floats: image 0 is torch.float32 (3, 32, 32), expected torch.uint8"),
        ("mine.parts:half", "data: mine.parts:half: image 0 is torch.uint8 (3, 16, 16), expected torch.uint8 (3, 32"),
        ("mine.parts:nothing", "data: mine.parts:nothing: there is no image"),
        ("mine.parts:number", "data: mine.parts:number: number cannot be called"),
        ("mine.parts:broken", "data: mine.parts:broken: ZeroDivisionError"),
        ("nobody.here:make", "data: nobody.here:make: No module named 'nobody'"),
    ],
)
def test_images_that_do_not_fit_are_named_before_the_training(own: Path, name: str, words: str) -> None:
    config = make_config({**TINY, "data": name})
    for look in (describe, make_dataset):
        with pytest.raises(UsageError) as caught:
            look(config)
        assert str(caught.value).startswith(words)


@pytest.mark.parametrize("value", ["dcgann", "a/b:c", "a.b:", ":c", "a:b:c", "a b:c", "1a:b"])
def test_what_is_no_name_of_a_function_is_no_model(value: str) -> None:
    with pytest.raises(ConfigError, match="model: .* allowed: dcgan, residual, r3gan, or package.module:function"):
        make_config({"model": value})


def test_own_images_are_kept_in_no_cache() -> None:
    with pytest.raises(ConfigError, match="cache_dir: '/x' is for a folder of images"):
        make_config({"data": "mine.parts:make", "cache_dir": "/x"})


def test_activation_checkpointing_is_for_the_trainers_own_networks(own: Path) -> None:
    with pytest.raises(UsageError, match="activation_checkpointing: true is for dcgan, residual and r3gan"):
        build(make_config({**TINY, "model": "mine.parts:build", "activation_checkpointing": True}))
