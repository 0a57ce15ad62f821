# SPDX-License-Identifier: Apache-2.0
"""Augmentation of what the discriminator sees, real and generated images alike, so that a few hundred images last
longer. It is differentiable, and each image has its own random numbers, which the caller draws.

diff  colours, a shift and a cut-out for every image (DiffAugment, Zhao et al. 2020)
ada   flips, shifts, scales, rotations and colours, each for the part `strength` of the images (Karras et al. 2020,
      without their noise and cut-out, and bilinear instead of their wavelet filter)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

# Random numbers of one image, and ada's transformations: each has a gate and up to two numbers.
NUMBERS = 36
SHIFT = 1 / 8
DIFF_BRIGHTNESS, DIFF_CUT = 0.5, 0.5
SCALE_SPREAD, BRIGHTNESS_SPREAD, CONTRAST_SPREAD, SATURATION_SPREAD = 0.2, 0.2, 0.5, 1.0


def diff_augment(images: Tensor, numbers: Tensor) -> Tensor:
    """Images (N, 3, S, S) of [-1, 1], each changed by its row of `numbers` (N, NUMBERS), uniform in [0, 1)."""
    values = numbers[:, :, None, None, None]
    images = images.float() + (values[:, 0] - 0.5) * 2 * DIFF_BRIGHTNESS
    grey = images.mean(dim=1, keepdim=True)
    images = grey + (images - grey) * 2 * values[:, 1]
    level = images.mean(dim=(1, 2, 3), keepdim=True)
    images = level + (images - level) * (values[:, 2] + 0.5)
    size = images.shape[-1]
    shift = (numbers[:, 3:5] * (2 * SHIFT * size + 1)).floor() - SHIFT * size
    straight = torch.eye(2, device=images.device).expand(len(images), 2, 2)
    matrix = torch.cat((straight, shift[:, :, None] * 2 / size), dim=2)
    grid = affine_grid(matrix, list(images.shape), align_corners=False)
    images = grid_sample(images, grid, mode="nearest", padding_mode="zeros", align_corners=False)
    place = torch.arange(size, device=images.device)
    # The middle of the cut-out lies anywhere in the image, of an even one also behind the last pixel.
    cut = int(size * DIFF_CUT + 0.5)
    first = (numbers[:, 5:7] * (size + 1 - cut % 2)).floor()[:, :, None] - cut // 2
    inside = (place >= first) & (place < first + cut)
    hole = inside[:, 0, :, None] & inside[:, 1, None, :]
    return images * ~hole[:, None]


def ada_augment(images: Tensor, numbers: Tensor, strength: Tensor) -> Tensor:
    """The same by `strength`, a number in [0, 1] on the device; at 0 every image is left as it is."""
    draws = Draws(numbers, strength)
    matrix, moved = geometry(draws, images.shape[-1])
    grid = affine_grid(matrix, list(images.shape), align_corners=False)
    images = images.float()
    sampled = grid_sample(images, grid, mode="bilinear", padding_mode="reflection", align_corners=False)
    images = torch.where(moved[:, None, None, None], sampled, images)
    mixing, offset = colours(draws)
    return torch.einsum("nij,njhw->nihw", mixing, images) + offset[:, None, None, None]


class Draws:
    """The numbers of each image, taken three at a time: a gate, and two values."""

    def __init__(self, numbers: Tensor, strength: Tensor) -> None:
        self.numbers, self.strength, self.taken = numbers, strength, 0

    def next(self) -> tuple[Tensor, Tensor, Tensor]:
        """Which images are changed (N, bool), and two uniform values (N,)."""
        gate, first, second = self.numbers[:, self.taken : self.taken + 3].unbind(1)
        self.taken += 3
        return gate < self.strength, first, second


def normal(uniform: Tensor) -> Tensor:
    return torch.erfinv((uniform * 2 - 1).clamp(-0.9999, 0.9999)) * math.sqrt(2.0)


def affine(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> Tensor:
    """(N, 2, 2) of the rows' elements (N,)."""
    return torch.stack((torch.stack(first, 1), torch.stack(second, 1)), 1)


def rotation(angle: Tensor) -> Tensor:
    return affine((angle.cos(), -angle.sin()), (angle.sin(), angle.cos()))


def geometry(draws: Draws, size: int) -> tuple[Tensor, Tensor]:
    """Where each pixel is taken from, (N, 2, 3) as affine_grid wants it, and which images move at all (N,)."""
    one = torch.ones_like(draws.numbers[:, 0])
    zero, moved = torch.zeros_like(one), torch.zeros_like(one, dtype=torch.bool)

    def when(gate: Tensor, value: Tensor, otherwise: Tensor) -> Tensor:
        nonlocal moved
        moved = moved | gate
        return torch.where(gate, value, otherwise)

    gate, first, _ = draws.next()
    flip = when(gate, torch.where(first < 0.5, -one, one), one)
    gate, first, _ = draws.next()
    quarters = when(gate, (first * 4).floor() * (math.pi / 2), zero)
    gate, first, second = draws.next()
    whole = [when(gate, ((value * 2 - 1) * SHIFT * size).round() * 2 / size, zero) for value in (first, second)]
    gate, first, _ = draws.next()
    scale = when(gate, torch.exp2(normal(first) * SCALE_SPREAD), one)
    gate, first, _ = draws.next()
    angle = when(gate, (first * 2 - 1) * math.pi, zero)
    gate, first, _ = draws.next()
    narrow = when(gate, torch.exp2(normal(first) * SCALE_SPREAD), one)
    gate, first, second = draws.next()
    part = [when(gate, normal(value) * SHIFT * 2, zero) for value in (first, second)]
    square = affine((flip, zero), (zero, one)) @ rotation(quarters)
    stretched = affine((scale * narrow, zero), (zero, scale / narrow)) @ rotation(angle)
    shift = torch.stack([near + far for near, far in zip(whole, part)], 1)
    return torch.cat((square @ stretched, shift[:, :, None]), dim=2), moved


def colours(draws: Draws) -> tuple[Tensor, Tensor]:
    """How each image's channels are mixed, (N, 3, 3), and what is added to them (N,)."""
    one = torch.ones_like(draws.numbers[:, 0])
    zero = torch.zeros_like(one)
    device = one.device
    eye = torch.eye(3, device=device)
    axis = torch.full((3, 3), 1 / 3, device=device)
    # The cross product with the axis of grey, for Rodrigues' formula.
    cross = (eye.roll(1, 0) - eye.roll(-1, 0)) / math.sqrt(3.0)
    gate, first, _ = draws.next()
    brightness = torch.where(gate, normal(first) * BRIGHTNESS_SPREAD, zero)
    gate, first, _ = draws.next()
    contrast = torch.where(gate, torch.exp2(normal(first) * CONTRAST_SPREAD), one)[:, None, None]
    gate, first, _ = draws.next()
    turned = torch.where(gate & (first < 0.5), one, zero)[:, None, None]
    gate, first, _ = draws.next()
    hue = torch.where(gate, (first * 2 - 1) * math.pi, zero)[:, None, None]
    gate, first, _ = draws.next()
    saturation = torch.where(gate, torch.exp2(normal(first) * SATURATION_SPREAD), one)[:, None, None]
    mixing = (eye - 2 * axis * turned) * contrast
    mixing = (axis + (eye - axis) * hue.cos() + cross * hue.sin()) @ mixing
    return (axis + (eye - axis) * saturation) @ mixing, brightness
