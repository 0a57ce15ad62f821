# SPDX-License-Identifier: Apache-2.0
"""Images as uint8 tensors (3, S, S): the device normalises them, so a quarter of float32's bytes travel there."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from contextlib import contextmanager
from functools import partial
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Iterator

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from . import CPUS_AT_START
from .config import Config
from .errors import UsageError
from .run_folder import STOP_SIGNALS

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
MAX_WORKERS = 8


class DataError(UsageError):
    """The images cannot be used; the text names folder or file."""


class SyntheticImages(Dataset):
    """Soft discs of random place, size and colour; image i is the same everywhere and always."""

    def __init__(self, size: int, count: int, seed: int) -> None:
        self.size, self.count, self.seed = size, count, seed
        axis = np.linspace(-1.0, 1.0, size, dtype=np.float32)
        self.y, self.x = np.meshgrid(axis, axis, indexing="ij")

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        random = np.random.default_rng((self.seed, index))
        centre = random.uniform(-0.4, 0.4, 2)
        radius = random.uniform(0.3, 0.6)
        colours = random.integers(0, 256, (2, 3, 1, 1))
        distance = np.hypot(self.y - centre[0], self.x - centre[1])
        inside = 1.0 / (1.0 + np.exp((distance - radius) * 20.0))
        pixels = colours[0] * inside + colours[1] * (1.0 - inside)
        return torch.from_numpy(pixels.astype(np.uint8))


class FolderImages(Dataset):
    """All JPEG, PNG and WebP files below a folder, cut to their middle square and scaled.

    An unreadable file is named on stderr and replaced by the next one; more than `max_bad` of them in one worker raise
    DataError.
    """

    def __init__(self, folder: str, size: int, max_bad: int) -> None:
        if not Path(folder).is_dir():
            raise DataError(f"data: {folder!r} is no folder; give a folder of images or 'synthetic'")
        self.files = sorted(path for path in Path(folder).rglob("*") if path.suffix.lower() in SUFFIXES)
        self.size, self.max_bad, self.bad = size, max_bad, set()
        if not self.files:
            raise DataError(f"data: {folder!r} holds no file ending in {', '.join(SUFFIXES)}")

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor:
        while True:
            path = self.files[index]
            try:
                return self.read(path)
            except (OSError, ValueError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError) as error:
                self.count_bad(path, error)
                index = (index + 1) % len(self.files)

    def read(self, path: Path) -> Tensor:
        with Image.open(path) as image:
            # Lets the JPEG decoder skip detail that scaling down would drop.
            image.draft("RGB", (self.size, self.size))
            edge = min(image.size)
            left, top = (image.width - edge) // 2, (image.height - edge) // 2
            box = (left, top, left + edge, top + edge)
            square = image.convert("RGB").resize((self.size, self.size), Image.BILINEAR, box)
        return torch.from_numpy(np.array(square)).permute(2, 0, 1).contiguous()

    def count_bad(self, path: Path, error: Exception) -> None:
        if path not in self.bad:
            self.bad.add(path)
            print(f"train-gan: {path}: cannot be read as an image: {error}", file=sys.stderr, flush=True)
        if len(self.bad) > self.max_bad or len(self.bad) == len(self.files):
            raise DataError(f"data: {len(self.bad)} unreadable images, the last {path}; allowed: {self.max_bad}")


class Batches:
    """Index lists for steps `start` to `end`: a new order in every epoch, a pure function of seed and step.

    So a resumed run goes on with the very batch that an uninterrupted one would have had.
    """

    def __init__(self, images: int, batch_size: int, seed: int, start: int, end: int) -> None:
        self.images, self.batch_size, self.seed, self.start, self.end = images, batch_size, seed, start, end
        if batch_size > images:
            raise DataError(f"batch_size: {batch_size} is more than the {images} images; allowed: 1 to {images}")

    def __len__(self) -> int:
        return self.end - self.start

    def __iter__(self) -> Iterator[list[int]]:
        per_epoch = self.images // self.batch_size
        order, order_epoch = [], -1
        for step in range(self.start, self.end):
            epoch, position = divmod(step, per_epoch)
            if epoch != order_epoch:
                order, order_epoch = np.random.default_rng((self.seed, epoch)).permutation(self.images).tolist(), epoch
            yield order[position * self.batch_size : (position + 1) * self.batch_size]


def prepare_worker(ending: Event, worker: int) -> None:
    """Undo in a data worker what it inherits to its harm, and leave it to the trainer when to end."""
    # OpenMP may have tied its parent to one core.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, CPUS_AT_START)
    # systemd and Slurm signal every process of a job, but the trainer still needs its workers: it saves first, and a
    # worker's death would tear it out of that. multiprocessing itself ends workers with SIGTERM, after `ending`.
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: ending.is_set() and os._exit(0))


def make_dataset(config: Config) -> Dataset:
    if config.data == "synthetic":
        return SyntheticImages(config.image_size, config.synthetic_images, config.seed)
    return FolderImages(config.data, config.image_size, config.max_bad_images)


@contextmanager
def open_loader(config: Config, start: int, pin_memory: bool) -> Iterator[DataLoader]:
    """Batches of uint8 images (N, 3, S, S) for the steps from `start` on; leaving the block lets the workers end."""
    dataset = make_dataset(config)
    ending = multiprocessing.Event()
    try:
        yield DataLoader(
            dataset,
            batch_sampler=Batches(len(dataset), config.batch_size, config.seed, start, config.steps),
            num_workers=config.num_workers if config.num_workers >= 0 else min(len(CPUS_AT_START) - 1, MAX_WORKERS),
            pin_memory=pin_memory,
            worker_init_fn=partial(prepare_worker, ending),
        )
    finally:
        ending.set()
