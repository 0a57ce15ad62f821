# SPDX-License-Identifier: Apache-2.0
"""Fréchet inception distance (Heusel et al. 2017) between the data and the averaged generator, by torchmetrics.

The feature network is a file that the user brings: nothing is downloaded. It is TorchScript, takes uint8 images
(N, 3, S, S) of the data's size, scales them itself and gives features (N, F). The inception-2015-12-05.pt that is
published with StyleGAN2-ADA and StyleGAN3 is such a file; distances by another network compare with each other only.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..config import Config
from ..data.loader import make_dataset, open_loader
from ..errors import UsageError
from .trained import Trained, images_of, make_noise

# torchmetrics holds covariances in float64: 4096 features are two matrices of 128 MiB.
MAX_FEATURES = 4096


class FeatureNetwork(nn.Module):
    """The user's network as torchmetrics wants it: uint8 images (N, 3, S, S) to float32 features (N, num_features)."""

    def __init__(self, file: str | Path, image_size: int, device: torch.device) -> None:
        super().__init__()
        path = Path(file)
        if not path.is_file():
            raise UsageError(
                f"features: {str(path)!r} is not a file. FID needs a feature network as TorchScript, for example "
                "inception-2015-12-05.pt as published with StyleGAN3; nothing is downloaded"
            )
        try:
            self.network = torch.jit.load(str(path), map_location=device).eval()
        # A file that is something else may raise anything.
        except Exception as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise UsageError(f"features: {path} cannot be loaded as TorchScript: {first}") from error
        names = [argument.name for argument in self.network.forward.schema.arguments]
        self.arguments = {"return_features": True} if "return_features" in names else {}
        example = torch.zeros(2, 3, image_size, image_size, dtype=torch.uint8, device=device)
        try:
            found = self(example)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1]
            raise UsageError(f"features: {path} does not take uint8 images {tuple(example.shape)}: {reason}") from error
        if found.ndim != 2 or len(found) != 2 or not 1 <= found.shape[1] <= MAX_FEATURES:
            raise UsageError(
                f"features: {path} gives {tuple(found.shape)} for 2 images; expected (2, F), F at most {MAX_FEATURES}"
            )
        self.num_features = found.shape[1]

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        return self.network(images, **self.arguments).float()


def measure_fid(
    trained: Trained, config: Config, network: FeatureNetwork, images: int, device: torch.device
) -> dict[str, Any]:
    """`fid` of `images` generated images (seeds 0, 1, ...) against as many of config.data, or all if it has fewer, each
    once. Tar shards do not say how many they have, and begin again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchmetrics.image.fid import FrechetInceptionDistance
    metric = FrechetInceptionDistance(feature=network).to(device)
    config = replace(
        config,
        image_size=trained.config.image_size,
        classes=trained.config.classes,
        steps=-(-images // config.batch_size),
    )
    generator = trained.generator.to(device)
    chosen = None if config.data.endswith(".tar") else each_once(config, images)
    done, known = 0, [torch.zeros(0, dtype=torch.int64)]
    with open_loader(config, 0, pin_memory=device.type == "cuda", chosen=chosen) as batches:
        for batch in batches:
            real, labels = (batch, None) if isinstance(batch, Tensor) else batch
            real = real[: images - done].to(device)
            if labels is not None:
                known.append(labels[: len(real)])
            metric.update(real, real=True)
            done += len(real)
    # With classes as many of each are generated as the data has.
    classes = torch.cat(known)
    for first in range(0, images, config.batch_size):
        seeds = list(range(first, min(images, first + config.batch_size)))
        own = classes[torch.tensor(seeds) % len(classes)] if len(classes) else None
        fake = images_of(generator, make_noise(seeds, trained.noise_shape), labels=own)
        metric.update(fake.to(device), real=False)
    found = {"fid": float(metric.compute()), "images": images, "real_images": done}
    return {**found, "num_features": network.num_features, "step": trained.step}


def each_once(config: Config, images: int) -> list[list[int]]:
    """Batches of at most `images` of the data, chosen by the seed, none of them twice. Raises UsageError for one."""
    there = len(make_dataset(config))
    if there < 2:
        raise UsageError(f"data: {config.data}: a distance needs two images or more, there is {there}")
    # The order of a training's first epoch.
    order = np.random.default_rng((config.seed, 0)).permutation(there)[:images].tolist()
    return [order[first : first + config.batch_size] for first in range(0, len(order), config.batch_size)]
