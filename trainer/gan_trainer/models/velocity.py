# SPDX-License-Identifier: Apache-2.0
"""A small U-Net (Ronneberger et al. 2015) that knows the time, for flow matching."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, interpolate, silu

# The coarsest map, and how much wider than the finest it may be.
COARSEST, WIDEST, GROUPS = 8, 8, 8


class TimedBlock(nn.Module):
    """Two convolutions beside a skip; the time moves what is between them. Begins as its skip."""

    def __init__(self, before: int, after: int, time: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(math.gcd(GROUPS, maps), maps) for maps in (before, after))
        self.first, self.second = nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1)
        self.shift = nn.Linear(time, after)
        self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()
        for parameter in self.second.parameters():
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        branch = self.first(silu(self.norms[0](x))) + self.shift(time)[:, :, None, None]
        return self.skip(x) + self.second(silu(self.norms[1](branch)))


class VelocityNetwork(nn.Module):
    """Images (N, 3, S, S) between noise and data, and their time (N,) or (1,) in [0, 1], to a velocity (N, 3, S, S)."""

    frequencies: Tensor

    def __init__(self, image_size: int, channels: int) -> None:
        super().__init__()
        halvings = int(math.log2(image_size // COARSEST))
        maps = [channels * min(2**level, WIDEST) for level in range(halvings + 1)]
        width = channels * 4
        self.register_buffer("frequencies", torch.exp(torch.linspace(0.0, math.log(1000.0), channels)))
        self.time = nn.Sequential(nn.Linear(2 * channels, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.start = nn.Conv2d(3, maps[0], 3, padding=1)
        self.down = nn.ModuleList(TimedBlock(fine, coarse, width) for fine, coarse in zip([maps[0], *maps], maps))
        self.middle = TimedBlock(maps[-1], maps[-1], width)
        upwards = list(zip(maps[::-1], [*maps[-2::-1], maps[0]]))
        self.up = nn.ModuleList(TimedBlock(2 * coarse, fine, width) for coarse, fine in upwards)
        self.end = nn.Conv2d(maps[0], 3, 3, padding=1)

    def forward(self, images: Tensor, time: Tensor) -> Tensor:
        angles = time[:, None] * self.frequencies
        known = self.time(torch.cat((angles.sin(), angles.cos()), dim=1))
        x, passed = self.start(images), []
        for number, block in enumerate(self.down):
            x = block(avg_pool2d(x, 2) if number else x, known)
            passed.append(x)
        x = self.middle(x, known)
        for number, block in enumerate(self.up):
            x = block(torch.cat((interpolate(x, scale_factor=2.0) if number else x, passed.pop()), dim=1), known)
        return self.end(x)
