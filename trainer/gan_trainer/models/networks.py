# SPDX-License-Identifier: Apache-2.0
"""Three pairs of networks for square images of 32 to 1024 pixels; every discriminator ends in logits.

dcgan     Radford et al. 2016: transposed convolutions and batch norm.
residual  Mescheder et al. 2018: residual blocks without any normalisation, made for the penalty R1.
r3gan     Huang et al. 2024: grouped inverted bottlenecks, no normalisation, made for the relativistic loss, R1 and R2.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, interpolate, leaky_relu
from torch.utils.checkpoint import checkpoint

from ..config import Config
from ..own import OwnError, call, is_own
from .conditional import OfClass, Projected

SLOPE = 0.2
SMALLEST = 4
# No layer is wider than this many times the one next to the image.
WIDEST = 16


class Networks(NamedTuple):
    """generator: noise (N, latent_dim) to images (N, 3, S, S) in [-1, 1], for r3gan and residual not clipped to it.
    discriminator: such images to logits (N,); positive means "looks real"."""

    generator: nn.Module
    discriminator: nn.Module


def build(config: Config) -> Networks:
    """Both networks on the CPU, initialised from torch's random numbers. Raises OwnError for a package's function."""
    if is_own(config.model):
        return build_own(config)
    pairs = {
        "dcgan": (DcganGenerator, DcganDiscriminator),
        "residual": (ResidualGenerator, ResidualDiscriminator),
        "r3gan": (R3ganGenerator, R3ganDiscriminator),
    }
    generator, discriminator = pairs[config.model]
    sizes = (config.image_size, config.channels)
    # With classes the generator's noise is as long again: the second half tells the class.
    latent = config.latent_dim * (2 if config.classes else 1)
    networks = Networks(generator(*sizes, latent), discriminator(*sizes))
    stages: Any
    for stages in (networks.generator.stages, networks.discriminator.stages):
        stages.recompute = config.activation_checkpointing
    if config.classes:
        generator_of = OfClass(networks.generator, config.classes, config.latent_dim)
        return Networks(generator_of, Projected(networks.discriminator, config.classes))
    return networks


def build_own(config: Config) -> Networks:
    """The networks of `package.module:function`, which gets the configuration; tried once for their shapes."""
    name, images = f"model: {config.model}", (2, 3, config.image_size, config.image_size)
    if config.activation_checkpointing:
        raise OwnError(f"activation_checkpointing: true is for dcgan, residual and r3gan; {name} does its own")
    made = call("model", config.model, config)
    if not (isinstance(made, tuple) and len(made) == 2 and all(isinstance(part, nn.Module) for part in made)):
        raise OwnError(f"{name}: expected two networks, generator and discriminator")
    networks = Networks(*made)
    labels = (torch.zeros(2, dtype=torch.int64),) if config.classes else ()
    for part, network, example, expected in (
        ("generator", networks.generator, torch.zeros(2, config.latent_dim), images),
        ("discriminator", networks.discriminator, torch.zeros(images), (2,)),
    ):
        # Statistics of batch norm stay as they were.
        with torch.no_grad():
            given = tuple(network.eval()(example, *labels).shape)
        network.train()
        if given != expected:
            raise OwnError(f"{name}: the {part} gives {given}, expected {expected}")
    return networks


def widths(image_size: int, channels: int, last: int) -> list[int]:
    """Feature maps at `last` pixels, at half of that, and so on down to 4 pixels."""
    halvings = int(math.log2(last // SMALLEST))
    return [min(channels << step, channels * WIDEST) for step in range(halvings + 1)]


class Stages(nn.Sequential):
    """A sequence with activation checkpointing: where `recompute` is set, only what lies between two stages is kept for
    the backward pass, and a stage runs again when its gradients are wanted. Batch norm then counts a batch twice in its
    running statistics, with which nothing is drawn (averaging.py)."""

    recompute = False

    def forward(self, x: Tensor) -> Tensor:
        return self.first(x, len(self))

    def first(self, x: Tensor, count: int) -> Tensor:
        """What comes of the first `count` stages."""
        for stage in list(self)[:count]:
            if self.recompute and torch.is_grad_enabled():
                x = checkpoint(stage, x, use_reentrant=False, preserve_rng_state=False)
            else:
                x = stage(x)
        return x


class DcganGenerator(nn.Module):
    def __init__(self, image_size: int, channels: int, latent_dim: int) -> None:
        super().__init__()
        narrow_to_wide = widths(image_size, channels, image_size // 2)
        wide_to_narrow = narrow_to_wide[::-1]
        stages = [self.stage(nn.ConvTranspose2d(latent_dim, wide_to_narrow[0], SMALLEST, bias=False))]
        for wide, narrow in zip(wide_to_narrow, wide_to_narrow[1:]):
            stages.append(self.stage(nn.ConvTranspose2d(wide, narrow, 4, 2, 1, bias=False)))
        self.stages = Stages(*stages, nn.Sequential(nn.ConvTranspose2d(channels, 3, 4, 2, 1), nn.Tanh()))
        self.apply(initialise_dcgan)

    @staticmethod
    def stage(convolution: nn.ConvTranspose2d) -> nn.Sequential:
        return nn.Sequential(convolution, nn.BatchNorm2d(convolution.out_channels), nn.ReLU(True))

    def forward(self, noise: Tensor) -> Tensor:
        return self.stages(noise[:, :, None, None])


class DcganDiscriminator(nn.Module):
    def __init__(self, image_size: int, channels: int) -> None:
        super().__init__()
        maps = widths(image_size, channels, image_size // 2)
        stages = [nn.Sequential(nn.Conv2d(3, channels, 4, 2, 1), nn.LeakyReLU(SLOPE, True))]
        for narrow, wide in zip(maps, maps[1:]):
            convolution = nn.Conv2d(narrow, wide, 4, 2, 1, bias=False)
            stages.append(nn.Sequential(convolution, nn.BatchNorm2d(wide), nn.LeakyReLU(SLOPE, True)))
        self.stages, self.width = Stages(*stages, nn.Conv2d(maps[-1], 1, SMALLEST)), maps[-1]
        self.apply(initialise_dcgan)

    def features(self, images: Tensor) -> Tensor:
        """The last maps (N, width, 4, 4), which the verdict is of."""
        return self.stages.first(images, len(self.stages) - 1)

    def judge(self, features: Tensor) -> Tensor:
        return self.stages[-1](features).flatten()

    def forward(self, images: Tensor) -> Tensor:
        return self.judge(self.features(images))


def initialise_dcgan(module: nn.Module) -> None:
    """The paper's start: weights N(0, 0.02), batch-norm scales N(1, 0.02)."""
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)


def resample(x: Tensor, change: int) -> Tensor:
    """Twice the size for change 1, half of it for -1, the same for 0."""
    if change > 0:
        return interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
    return avg_pool2d(x, 2) if change < 0 else x


class ResidualBlock(nn.Module):
    """Resample, then add a tenth of two convolutions: without normalisation a small branch keeps the start stable."""

    def __init__(self, before: int, after: int, change: int) -> None:
        super().__init__()
        self.change = change
        self.first, self.second = nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1)
        self.skip = nn.Conv2d(before, after, 1, bias=False) if before != after else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = resample(x, self.change)
        branch = self.second(leaky_relu(self.first(leaky_relu(x, SLOPE)), SLOPE))
        return self.skip(x) + 0.1 * branch


class R3ganBlock(nn.Module):
    """Resample, then residual blocks that widen, mix in groups of 8 maps with 3x3 kernels, and narrow again."""

    DEPTH, EXPANSION, GROUP = 2, 2, 8

    def __init__(self, before: int, after: int, change: int) -> None:
        super().__init__()
        self.change = change
        self.skip = nn.Conv2d(before, after, 1, bias=False) if before != after else nn.Identity()
        wide = after * self.EXPANSION
        groups = wide // self.GROUP if wide % self.GROUP == 0 else 1
        self.branches = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(after, wide, 1),
                nn.LeakyReLU(SLOPE),
                nn.Conv2d(wide, wide, 3, padding=1, groups=groups),
                nn.LeakyReLU(SLOPE),
                nn.Conv2d(wide, after, 1, bias=False),
            )
            for _ in range(self.DEPTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.skip(resample(x, self.change))
        for branch in self.branches:
            x = x + branch(x)
        return x


class ResidualGenerator(nn.Module):
    """Noise to a map of 4 x 4, then one block for each size."""

    Block: type = ResidualBlock

    def __init__(self, image_size: int, channels: int, latent_dim: int) -> None:
        super().__init__()
        maps = widths(image_size, channels, image_size)[::-1]
        self.start = nn.Linear(latent_dim, maps[0] * SMALLEST**2)
        blocks = [self.Block(maps[0], maps[0], 0)]
        blocks += [self.Block(wide, narrow, 1) for wide, narrow in zip(maps, maps[1:])]
        self.stages = Stages(*blocks)
        self.colours = nn.Conv2d(maps[-1], 3, 1)
        initialise_residual(self)

    def forward(self, noise: Tensor) -> Tensor:
        return self.colours(self.stages(self.start(noise).unflatten(1, (-1, SMALLEST, SMALLEST))))


class ResidualDiscriminator(nn.Module):
    """One block for each size down to 4 x 4, then a linear verdict."""

    Block: type = ResidualBlock

    def __init__(self, image_size: int, channels: int) -> None:
        super().__init__()
        maps = widths(image_size, channels, image_size)
        self.colours = nn.Conv2d(3, maps[0], 1)
        blocks = [self.Block(narrow, wide, -1) for narrow, wide in zip(maps, maps[1:])]
        self.stages = Stages(*blocks, self.Block(maps[-1], maps[-1], 0))
        self.verdict, self.width = nn.Linear(maps[-1] * SMALLEST**2, 1), maps[-1]
        initialise_residual(self)

    def features(self, images: Tensor) -> Tensor:
        """The last maps (N, width, 4, 4), which the verdict is of."""
        return self.stages(self.colours(images))

    def judge(self, features: Tensor) -> Tensor:
        return self.verdict(features.flatten(1)).flatten()

    def forward(self, images: Tensor) -> Tensor:
        return self.judge(self.features(images))


class R3ganGenerator(ResidualGenerator):
    Block = R3ganBlock


class R3ganDiscriminator(ResidualDiscriminator):
    Block = R3ganBlock


def initialise_residual(network: nn.Module) -> None:
    """Variance-preserving start (He et al. 2015). In R3GAN's branches it is scaled down by their number and the last
    layer is 0 (Fixup, Zhang et al. 2019), so that a deep network without any normalisation begins as its skips."""
    for name, module in network.named_modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            straight = name.endswith(("start", "skip", "colours", "verdict"))
            nn.init.kaiming_normal_(module.weight, SLOPE, nonlinearity="linear" if straight else "leaky_relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    # PyTorch types what a ModuleList holds as Module; a branch is a sequence of layers.
    blocks = [block for block in network.modules() if isinstance(block, R3ganBlock)]
    branches: list[Any] = [branch for block in blocks for branch in block.branches]
    for branch in branches:
        with torch.no_grad():
            # Three layers in a branch: L ** (-1 / (2 * 3 - 2)).
            branch[0].weight.mul_(len(branches) ** -0.25)
            branch[2].weight.mul_(len(branches) ** -0.25)
        nn.init.zeros_(branch[-1].weight)


@torch.no_grad()
def update_average(average: nn.Module, model: nn.Module, decay: float) -> None:
    """Move the parameters of an averaged copy (EMA) towards the model's; its statistics: averaging.py."""
    move_average(list(average.parameters()), list(model.parameters()), decay)


@torch.no_grad()
def move_average(average: list[nn.Parameter], model: list[nn.Parameter], decay: float) -> None:
    torch._foreach_lerp_(cast("list[Tensor]", average), cast("list[Tensor]", model), 1.0 - decay)
