# SPDX-License-Identifier: Apache-2.0
"""Grids of generated images, always from the same noise, so that a row of them shows the training's progress."""

from __future__ import annotations

import math
from pathlib import Path
from typing import IO, Sequence

import torch
from PIL import Image
from torch import Tensor, nn


def to_uint8(images: Tensor) -> Tensor:
    """Images in [-1, 1] to uint8, rounded; what lies outside is cut."""
    return images.float().mul(127.5).add(128.0).clamp(0, 255).to(torch.uint8)


@torch.no_grad()
def generate(
    generator: nn.Module, count: int, shape: int | Sequence[int], seed: int, batch: int = 64, classes: int = 0
) -> Tensor:
    """uint8 (count, 3, S, S) on the CPU from noise (count, *shape); a function of the weights and the seed, `batch`
    images at a time. With classes each image has the next one, over and over.
    """
    device = next(generator.parameters()).device
    noise = torch.randn(count, *sizes(shape), generator=torch.Generator().manual_seed(seed)).to(device)
    inputs = [noise, *(labels.to(device) for labels in class_of_each(count, classes))]
    return torch.cat([to_uint8(generator(*parts)).cpu() for parts in zip(*(one.split(batch) for one in inputs))])


def class_of_each(count: int, classes: int) -> tuple[Tensor, ...]:
    """The second input of what draws: int64 (count,), the classes over and over; nothing where there are none."""
    return (torch.arange(count) % classes,) if classes else ()


def sizes(shape: int | Sequence[int]) -> tuple[int, ...]:
    """The shape of one image's noise; a number is the length of a vector."""
    return (shape,) if isinstance(shape, int) else tuple(shape)


def grid_batch(image_size: int) -> int:
    """Images of a grid at a time: as many pixels as 16 of 64 pixels, beside a training that has filled the card."""
    return max(1, 16 * 64**2 // image_size**2)


def make_grid(images: Tensor, kinds: int = 1) -> Tensor:
    """(N, 3, S, S) in rows of about the square root of N: (3, rows * S, columns * S), the rest black.

    kinds: classes that the images have in turn; a column then has one class, if there are two rows of them.
    """
    count, _, height, width = images.shape
    columns = math.ceil(math.sqrt(count))
    if 1 < kinds <= count // 2:
        columns = kinds * max(1, round(columns / kinds))
    rows = math.ceil(count / columns)
    grid = images.new_zeros(rows * columns, 3, height, width)
    grid[:count] = images
    return grid.unflatten(0, (rows, columns)).permute(2, 0, 3, 1, 4).reshape(3, rows * height, columns * width)


def save_png(image: Tensor, file: IO[bytes] | Path) -> None:
    """uint8 (3, H, W) as a PNG file."""
    Image.fromarray(image.permute(1, 2, 0).contiguous().numpy()).save(file, format="PNG")
