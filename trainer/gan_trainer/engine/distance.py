# SPDX-License-Identifier: Apache-2.0
"""How far the averaged generator's images are from the data during training; the closest generator is kept.

A kernel distance (Binkowski et al. 2018) or a Frechet distance, on features of a fixed network whose weights come from
a seed, or of one that the user names: nothing is downloaded, and nothing is learnt. Its values compare with each other
on one data set and image size; they are neither FID nor published KID.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..config import Config
from ..data.loader import make_dataset
from ..inference.fid import FeatureNetwork
from ..inference.trained import images_of, make_noise
from ..models.averaging import MARK
from ..runs.checkpoint import CheckpointError, check_sums, save_best
from ..runs.samples import grid_batch
from ..safe_files import open_own
from ..tasks import Task

WIDTHS = (32, 64, 128)
FEATURE_SEED, FEATURE_SIZE = 0, 64
# Seeds of the generated images, beyond those that people use for samples.
FIRST_SEED = 1_000_000
BEST = "best.pt"


class FixedFeatures(nn.Module):
    """uint8 images (N, 3, S, S) to float32 (N, F): mean and spread of the channels of random convolutions, by scale."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(FEATURE_SEED)
        sizes = zip((3, *WIDTHS), WIDTHS)
        weights = [torch.randn(out, into, 3, 3, generator=generator) / math.sqrt(9 * into / 2) for into, out in sizes]
        for number, weight in enumerate(weights):
            self.register_buffer(f"weight{number}", weight)

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        layer = functional.adaptive_avg_pool2d(images.float() / 127.5 - 1.0, min(FEATURE_SIZE, images.shape[-1]))
        found = []
        for number in range(len(WIDTHS)):
            layer = functional.relu(functional.conv2d(layer, getattr(self, f"weight{number}"), stride=2, padding=1))
            flat = layer.flatten(2)
            found += [flat.mean(2), flat.std(2)]
        return torch.cat(found, dim=1)


def kernel_distance(real: Tensor, fake: Tensor) -> float:
    """The unbiased squared maximum mean discrepancy of features (N, F) and (M, F), by the kernel (x.y / F + 1) ** 3.

    In units of the real features' own mean and spread; about 0 for two sets of the same kind, possibly negative.
    """
    real, fake = real.double(), fake.double()
    middle, width = real.mean(0), real.std(0).clamp_min(1e-6)
    real, fake = (real - middle) / width, (fake - middle) / width

    def kernel(one: Tensor, other: Tensor) -> Tensor:
        return (one @ other.T / one.shape[1] + 1.0) ** 3

    def within(values: Tensor) -> Tensor:
        own = kernel(values, values)
        return (own.sum() - own.diagonal().sum()) / (len(values) * (len(values) - 1))

    return float(within(real) + within(fake) - 2.0 * kernel(real, fake).mean())


def frechet_distance(real: Tensor, fake: Tensor) -> float:
    """Between normal distributions fitted to the features (N, F) and (M, F), as Frechet inception distance computes it.

    Biased upwards if there are few images, but equally so throughout a run.
    """
    real, fake = real.double(), fake.double()
    one, other = torch.cov(real.T), torch.cov(fake.T)
    values, vectors = torch.linalg.eigh(one)
    root = vectors @ torch.diag(values.clamp_min(0.0).sqrt()) @ vectors.T
    shared = torch.linalg.eigvalsh(root @ other @ root).clamp_min(0.0).sqrt().sum()
    apart = (real.mean(0) - fake.mean(0)).square().sum()
    return max(0.0, float(apart + one.trace() + other.trace() - 2.0 * shared))


MEASURES = {"kernel": kernel_distance, "frechet": frechet_distance}


class Distance:
    """Measures a run's generator on `device` and keeps the closest in run_dir/best.pt, also across a resume."""

    def __init__(self, config: Config, folder: Path, device: torch.device) -> None:
        self.config, self.folder, self.device = config, folder, device
        file = config.distance_features
        self.network = FeatureNetwork(file, config.image_size, device) if file else FixedFeatures().to(device)
        self.measure = MEASURES[config.distance]
        # Values of another kind cannot be compared with these.
        self.kind = f"{config.distance} {Path(file).name}".strip()
        self.real: Tensor | None = None
        # With classes, as many of each are generated as were measured.
        self.labels: Tensor | None = None
        self.best = self.kept()

    def kept(self) -> float:
        """The distance of the generator in best.pt; infinite if there is none, or a damaged one, which is replaced.

        CheckpointError if it is whole and somebody else's.
        """
        file = self.folder / BEST
        try:
            check_sums(file)
        # A damaged file may raise anything.
        except Exception:
            return math.inf
        try:
            state = torch.load(file, map_location="cpu", weights_only=True)
            return float(state["distance"]) if state.get("kind", "kernel") == self.kind else math.inf
        except Exception as error:
            raise CheckpointError(
                f"{file}: this trainer did not write it, and would replace it by its closest generator; "
                "move it away, or set distance_every: 0"
            ) from error

    def after(self, task: Task, average: nn.Module, step: int) -> float:
        """The distance after `step`, added to distance.jsonl; the generator is kept if no other was closer."""
        if self.real is None:
            images, self.labels = real_images(self.config)
            self.real = self.features(images)
        count = self.config.distance_images if self.labels is None else len(self.labels)
        seeds = list(range(FIRST_SEED, FIRST_SEED + count))
        noise = make_noise(seeds, task.noise_shape())
        fake = images_of(task.sampler(average), noise, grid_batch(self.config.image_size), self.labels)
        value = self.between(self.real, self.features(fake))
        line = {"step": step, "distance": value if math.isfinite(value) else None}
        # The folder belongs to a whole group: a link in place of the file is not followed.
        descriptor = open_own(self.folder / "distance.jsonl", os.O_WRONLY | os.O_APPEND)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        if value < self.best:
            state: dict[str, Any] = {"average": average.state_dict(), "config": asdict(self.config), MARK: "own"}
            save_best(self.folder / BEST, {**state, "step": step, "distance": value, "kind": self.kind})
            self.best = value
        return value

    def between(self, real: Tensor, fake: Tensor) -> float:
        """NaN if features are not finite."""
        return self.measure(real, fake) if bool(torch.isfinite(fake).all()) else math.nan

    def features(self, images: Tensor) -> Tensor:
        """(N, F) on the CPU, as many images at a time as a grid has."""
        parts = images.split(grid_batch(self.config.image_size))
        return torch.cat([self.network(part.to(self.device)).cpu() for part in parts])


def real_images(config: Config) -> tuple[Tensor, Tensor | None]:
    """uint8 (N, 3, S, S): distance_images of the data, evenly over all of them; of tar shards the first. And their
    classes (N,), where there are."""
    dataset = make_dataset(config)
    if config.data.endswith(".tar"):
        images: list[Tensor] = []
        for batch in dataset:
            images += list(batch)
            if len(images) >= config.distance_images:
                break
        return torch.stack(images[: config.distance_images]), None
    count = min(len(dataset), config.distance_images)
    found = [dataset[index * len(dataset) // count] for index in range(count)]
    if config.classes:
        return torch.stack([image for image, _ in found]), torch.tensor([label for _, label in found])
    return torch.stack(found), None
