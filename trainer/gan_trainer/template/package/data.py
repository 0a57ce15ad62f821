"""The images: `make(config)` gives a sequence, read by data workers. Here they are squares, made up one by one."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gan_trainer.config import Config


class Squares:
    """len(), and [i] is a uint8 tensor (3, S, S), the same each time."""

    def __init__(self, count: int, size: int) -> None:
        self.count, self.size = count, size

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        random = np.random.default_rng(index)
        image = torch.full((3, self.size, self.size), 255, dtype=torch.uint8)
        left, top = random.integers(0, self.size // 2, 2).tolist()
        colour = torch.from_numpy(random.integers(0, 200, (3, 1, 1)).astype(np.uint8))
        image[:, top : top + self.size // 2, left : left + self.size // 2] = colour
        return image


def make(config: Config) -> Squares:
    return Squares(int(config.options.get("images", 2000)), config.image_size)
