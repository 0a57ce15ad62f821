# SPDX-License-Identifier: Apache-2.0
"""Networks that know the class of an image: a generator that is told it, a discriminator that projects on it."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch import cat as concatenate


class OfClass(nn.Module):
    """noise (N, latent_dim) and classes (N,) to images: a vector learnt for each class is put behind the noise."""

    def __init__(self, generator: nn.Module, classes: int, latent_dim: int) -> None:
        super().__init__()
        self.generator, self.classes = generator, nn.Embedding(classes, latent_dim)

    def forward(self, noise: Tensor, labels: Tensor) -> Tensor:
        return self.generator(concatenate((noise, self.classes(labels)), dim=1))


class Projected(nn.Module):
    """Images and classes (N,) to logits (N,): the verdict without a class, and the product of the features' sum with a
    vector learnt for the class (projection, Miyato and Koyama 2018)."""

    def __init__(self, discriminator: Any, classes: int) -> None:
        """`discriminator` has `features`, which gives maps (N, width, 4, 4), and `judge`, which gives their logits."""
        super().__init__()
        width: int = discriminator.width
        self.discriminator, self.classes = discriminator, nn.Embedding(classes, width)
        # In units of the verdict's own spread at the start: 4 x 4 places are summed.
        nn.init.normal_(self.classes.weight, 0.0, 1.0 / (16 * width) ** 0.5)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        features = self.discriminator.features(images)
        return self.discriminator.judge(features) + (self.classes(labels) * features.sum(dim=(2, 3))).sum(dim=1)
