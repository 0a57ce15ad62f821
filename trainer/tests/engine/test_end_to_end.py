"""A training on a folder of images that gets measurably closer to them, and one that is killed fifty times."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import kept_state
from torch import Tensor

from gan_trainer.config import Config, make_config
from gan_trainer.data.images import FolderImages, SyntheticImages
from gan_trainer.engine.loop import Trainer
from gan_trainer.engine.train import train
from gan_trainer.precision import Precision
from gan_trainer.runs.samples import generate, save_png

Run = Callable[..., subprocess.CompletedProcess]
IMAGES = 256


def features(images: Tensor) -> Tensor:
    """(N, 24) in float64: what random filters see of uint8 images (N, 3, 32, 32), at two scales."""
    random = torch.Generator().manual_seed(7)
    pixels, found = images.double() / 127.5 - 1.0, []
    for _ in range(2):
        filters = torch.randn(12, 3, 5, 5, generator=random, dtype=torch.float64) / 75**0.5
        found.append(torch.relu(torch.nn.functional.conv2d(pixels, filters, stride=2)).mean(dim=(2, 3)))
        pixels = torch.nn.functional.avg_pool2d(pixels, 2)
    return torch.cat(found, dim=1)


def frechet_distance(first: Tensor, second: Tensor) -> float:
    """Between normal distributions fitted to two sets of features, as FID measures it."""
    means = (first.mean(0) - second.mean(0)).square().sum()
    one, two = torch.cov(first.T), torch.cov(second.T)
    # The eigenvalues of a product of covariances are not negative; rounding makes some of them a little so.
    mixed = torch.linalg.eigvals(one @ two).real.clamp_min(0).sqrt().sum()
    return float(means + one.trace() + two.trace() - 2 * mixed)


def distance(generator: torch.nn.Module, config: Config, real: Tensor) -> float:
    return frechet_distance(features(generate(generator, IMAGES, config.latent_dim, seed=99)), features(real))


def test_frechet_distance_is_that_of_known_distributions() -> None:
    random = torch.Generator().manual_seed(0)
    first = torch.randn(20_000, 3, generator=random, dtype=torch.float64)
    assert frechet_distance(first, first) == pytest.approx(0, abs=1e-9)
    # |mean|^2 = 3 * 2^2; each variance from 1 to 9 adds (3 - 1)^2.
    assert frechet_distance(first, 3 * first.flip(0) + 2) == pytest.approx(12 + 12, rel=0.05)


@pytest.mark.long
def test_training_on_a_folder_halves_the_distance_to_its_images(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    synthetic = SyntheticImages(32, IMAGES, seed=3)
    for index in range(IMAGES):
        save_png(synthetic[index], folder / f"{index:04}.{('png', 'webp')[index % 2]}")
    config = make_config(
        {
            **{"data": str(folder), "run_dir": str(tmp_path / "run"), "device": "cpu", "image_size": 32},
            **{"channels": 8, "latent_dim": 16, "batch_size": 16, "num_workers": 1, "cache_dir": str(tmp_path / "c")},
            **{"lr_generator": 2e-3, "lr_discriminator": 2e-3, "ema_decay": 0.95, "tensorboard": False},
            **{"steps": 300, "lr_schedule": "cosine", "warmup_steps": 10, "log_every": 25},
        }
    )
    images: Any = FolderImages(str(folder), 32, 0)
    real = torch.stack([images[index] for index in range(IMAGES)])
    trainer = Trainer(config, torch.device("cpu"), Precision("fp32", ""))
    start = distance(trainer.average, config, real)
    train(config)
    trainer.average.load_state_dict(kept_state(tmp_path / "run")["average"])
    end = distance(trainer.average, config, real)
    print(f"distance {start:.4f} at the start, {end:.4f} at the end")
    assert end < start / 2


# Each round is a forked child, which saves the seconds that importing torch would take; the training is whole.
KILLED = """
import os, random, signal, sys, time
from pathlib import Path
import torch
# Imported by the first optimizer, in each child anew if not here.
import torch._dynamo
from gan_trainer.runs.checkpoint import list_checkpoints, load_checkpoint
from gan_trainer.config import make_config
from gan_trainer.engine.train import train

torch.set_num_threads(1)
folder, moments = Path(sys.argv[1]), random.Random(0)
values = dict(image_size=32, channels=4, latent_dim=8, batch_size=2, synthetic_images=8, num_workers=0, steps=10**6)
values.update(run_dir=str(folder), device="cpu", checkpoint_every=1, log_every=2, sample_count=1, tensorboard=False)
step, unfinished = 0, 0
for round in range(50):
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        train(make_config(values))
    wanted, deadline = step + 1 + round % 3, time.monotonic() + 300
    while not any(int(path.stem[-10:]) >= wanted for path in list_checkpoints(folder)):
        assert time.monotonic() < deadline, f"round {round}: no step {wanted}"
        time.sleep(0.0005)
    time.sleep(moments.uniform(0, 0.03))
    # Every other kill hits the writing itself, however long a step takes beside it.
    while round % 2 and not list(folder.glob("*.tmp")):
        assert time.monotonic() < deadline, f"round {round}: nothing is written"
        time.sleep(0.0002)
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    unfinished += bool(list(folder.glob("*.tmp")))
    newest = torch.load(list_checkpoints(folder)[0], weights_only=True)
    assert newest["step"] >= wanted and load_checkpoint(folder)["step"] == newest["step"]
    step = newest["step"]
print(step, unfinished)
"""


@pytest.mark.long
def test_fifty_kills_leave_a_loadable_checkpoint_every_time(run_trainer: Run, tmp_path: Path) -> None:
    done = run_trainer("-c", KILLED, str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert "cannot be read" not in done.stderr
    step, unfinished = map(int, done.stdout.split())
    assert step >= 50 and unfinished > 0, "no kill hit the writing of a checkpoint, so this shows nothing"
