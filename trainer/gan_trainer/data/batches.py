# SPDX-License-Identifier: Apache-2.0
"""Which images are in which step."""

from __future__ import annotations

from typing import Iterator

import numpy as np

from ..parallel.distributed import ALONE, Ranks
from .images import DataError


class Batches:
    """Index lists for steps `start` to `end`: a new order in every epoch, a pure function of seed and step.

    So the step alone is the sampler's position: a resumed run continues with exactly the batch that an uninterrupted
    one would have had. A global batch is cut into one slice for each rank, so the images of a step do not depend on the
    number of GPUs. Images that remain after an epoch's last full batch are left out of that epoch.
    """

    def __init__(self, images: int, batch_size: int, seed: int, start: int, end: int, ranks: Ranks = ALONE) -> None:
        self.images, self.batch_size, self.seed = images, batch_size, seed
        self.start, self.end, self.ranks = start, end, ranks
        if batch_size > images:
            raise DataError(f"batch_size: {batch_size} is more than the {images} images; allowed: 1 to {images}")

    def __len__(self) -> int:
        return self.end - self.start

    def __iter__(self) -> Iterator[list[int]]:
        per_epoch = self.images // self.batch_size
        order: np.ndarray = np.empty(0, dtype=int)
        order_epoch = -1
        for step in range(self.start, self.end):
            epoch, position = divmod(step, per_epoch)
            if epoch != order_epoch:
                order, order_epoch = np.random.default_rng((self.seed, epoch)).permutation(self.images), epoch
            whole = order[position * self.batch_size : (position + 1) * self.batch_size]
            yield self.ranks.part(whole).tolist()
