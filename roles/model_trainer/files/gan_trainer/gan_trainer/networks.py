# SPDX-License-Identifier: Apache-2.0
"""DCGAN (Radford et al. 2016) for square images of 32, 64 or 128 pixels; the discriminator ends in logits."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def stages(image_size: int) -> int:
    """How often 4 pixels double to `image_size`."""
    return image_size.bit_length() - 3


class Generator(nn.Module):
    """Noise (N, latent_dim) to images (N, 3, S, S) in [-1, 1]."""

    def __init__(self, image_size: int, latent_dim: int, channels: int) -> None:
        super().__init__()
        width = channels << (stages(image_size) - 1)
        layers = [nn.ConvTranspose2d(latent_dim, width, 4, bias=False), nn.BatchNorm2d(width), nn.ReLU(True)]
        while width > channels:
            layers += [nn.ConvTranspose2d(width, width // 2, 4, 2, 1, bias=False), nn.BatchNorm2d(width // 2)]
            layers += [nn.ReLU(True)]
            width //= 2
        self.layers = nn.Sequential(*layers, nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh())
        self.apply(initialise)

    def forward(self, noise: Tensor) -> Tensor:
        return self.layers(noise[:, :, None, None])


class Discriminator(nn.Module):
    """Images (N, 3, S, S) in [-1, 1] to logits (N,): positive means "looks real"."""

    def __init__(self, image_size: int, channels: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, channels, 4, 2, 1), nn.LeakyReLU(0.2, True)]
        width = channels
        for _ in range(stages(image_size) - 1):
            layers += [nn.Conv2d(width, width * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(width * 2)]
            layers += [nn.LeakyReLU(0.2, True)]
            width *= 2
        self.layers = nn.Sequential(*layers, nn.Conv2d(width, 1, 4))
        self.apply(initialise)

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images).flatten()


def initialise(module: nn.Module) -> None:
    """The paper's start: weights N(0, 0.02), batch-norm scales N(1, 0.02)."""
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)


@torch.no_grad()
def update_average(average: nn.Module, model: nn.Module, decay: float) -> None:
    """Move an averaged copy of the model: parameters by the decay, batch-norm statistics as they are."""
    for mean, value in zip(average.parameters(), model.parameters()):
        mean.lerp_(value, 1.0 - decay)
    for mean, value in zip(average.buffers(), model.buffers()):
        mean.copy_(value)
