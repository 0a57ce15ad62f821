"""The default configuration on scikit-learn's 1,797 digits: what the averaged generator is worth as it is drawn.

Its distance to the data is compared with that of the same weights whose batch-norm statistics are estimated here by
code of its own, and with what was drawn of the same runs before the average had a ramp and statistics of its own
(BEFORE). Only sizes differ from the defaults, for a processor: 32 pixels (the digits have 8) and 16 channels.

One seed takes 8 minutes of one core; DIGITS_SEEDS=1,2,3 chooses among these.
"""

from __future__ import annotations

import copy
import gzip
import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from gan_trainer import cli
from gan_trainer.data.images import FolderImages
from gan_trainer.engine.distance import FixedFeatures, kernel_distance
from gan_trainer.inference.trained import Trained, images_of, load_trained, make_noise
from gan_trainer.runs.checkpoint import load_checkpoint
from PIL import Image
from torch import nn

STEPS, COUNT, SIZE = 2000, 1797, 32
# Distances at that step, by seed: measured with the trainer of that time, and with ema_rampup=0 and the training
# network's statistics, which draw the same.
BEFORE = {1: 17.626, 2: 31.588, 3: 18.743}
SEEDS = [int(seed) for seed in os.environ.get("DIGITS_SEEDS", "1").split(",")]
# Of the noise for statistics, far from that of any picture.
ESTIMATED_FROM = 7_000_000


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As PNG files of 8 x 8 pixels; `tests/run.py digits` has downloaded the wheel that holds them."""
    with (
        zipfile.ZipFile(os.environ["DIGITS_WHEEL"]) as wheel,
        wheel.open("sklearn/datasets/data/digits.csv.gz") as file,
    ):
        rows = np.loadtxt(io.BytesIO(gzip.decompress(file.read())), delimiter=",")
    assert len(rows) == COUNT
    folder = tmp_path_factory.mktemp("digits")
    for number, row in enumerate(rows):
        Image.fromarray((row[:64].reshape(8, 8) * (255 / 16)).astype(np.uint8)).save(folder / f"{number:04}.png")
    return folder


def with_statistics(trained: Trained, network: nn.Module) -> Trained:
    return trained._replace(generator=network.eval())


def estimated(trained: Trained) -> Trained:
    """By 100 batches of 64 in training mode, as plain means."""
    network = copy.deepcopy(trained.generator)
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.reset_running_stats()
            layer.momentum = None
    network.train()
    with torch.no_grad():
        for first in range(ESTIMATED_FROM, ESTIMATED_FROM + 6400, 64):
            network(make_noise(list(range(first, first + 64)), trained.noise_shape))
    return with_statistics(trained, network)


@pytest.mark.parametrize("seed", SEEDS)
def test_it_is_drawn_with_statistics_of_its_own(seed: int, digits: Path, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    config = tmp_path / "c.yml"
    config.write_text(f"data: {digits}\nrun_dir: {tmp_path / 'run'}\nimage_size: {SIZE}\nchannels: 16\n")
    assert cli.main(["--config", str(config), f"steps={STEPS}", f"seed={seed}", "log_every=200", "num_workers=0"]) == 0
    images = FolderImages(str(digits), SIZE, 0)
    features = FixedFeatures()
    real = features(torch.stack([images[index] for index in range(COUNT)]))
    state = load_checkpoint(tmp_path / "run")
    assert state is not None and state["step"] == STEPS
    drawn = load_trained(tmp_path / "run")
    live = copy.deepcopy(drawn.generator)
    live.load_state_dict(state["generator"])
    borrowed = copy.deepcopy(drawn.generator)
    for own, other in zip(borrowed.buffers(), live.buffers(), strict=True):
        own.copy_(other)
    rows = {
        "as drawn": drawn,
        "statistics estimated here": estimated(drawn),
        "statistics of the network in training": with_statistics(drawn, borrowed),
        "the network in training itself": with_statistics(drawn, live),
    }
    found = {}
    for name, trained in rows.items():
        fake = images_of(trained.generator, make_noise(list(range(COUNT)), trained.noise_shape))
        found[name] = kernel_distance(real, features(fake))
    print(f"\nseed {seed}: " + ", ".join(f"{name} {value:.3f}" for name, value in found.items()))
    assert found["as drawn"] <= 1.2 * found["statistics estimated here"]
    assert found["as drawn"] <= BEFORE[seed] / 4
