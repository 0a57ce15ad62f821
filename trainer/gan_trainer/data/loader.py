# SPDX-License-Identifier: Apache-2.0
"""From the configuration to a loader of uint8 batches (N, 3, S, S).

They stay uint8 until the device normalises them (prefetch.py), so only a quarter of float32's bytes are copied.
"""

from __future__ import annotations

import multiprocessing
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Callable, Iterator

import torch
from torch.utils.data import DataLoader, IterableDataset, default_collate

from ..config import Config
from ..own import is_own
from ..parallel.distributed import ALONE, Ranks
from .batches import Batches
from .cache import CachedImages, cache_file, wait_for_cache, write_cache
from .images import DataError, FolderImages, LabelledImages, OwnImages, SyntheticImages
from .workers import default_workers, prepare_worker

CPU = torch.device("cpu")

__all__ = ["DataError", "FolderImages", "SyntheticImages", "make_dataset", "open_loader"]


def make_dataset(
    config: Config,
    ranks: Ranks = ALONE,
    start: int = 0,
    workers: int = 0,
    prepare: Callable[[int], None] | None = None,
) -> Any:
    """The images that `data` names, a `torch.utils.data.Dataset` with a length or, of tar shards, an iterable one (see
    `shards.ShardImages`): PyTorch has no type for a data set with a length. With cache_dir the first process of each
    node decodes them, and the others wait."""
    if config.data == "synthetic":
        return SyntheticImages(config.image_size, config.synthetic_images, config.seed)
    if config.data.endswith(".tar"):
        # Imported here, since no other kind of data needs the library.
        from .shards import ShardImages

        return ShardImages(config, ranks, start)
    if is_own(config.data):
        return OwnImages(config)
    if config.classes:
        given = (config.image_size, config.max_bad_images, config.background, config.classes)
        return LabelledImages(config.data, *given)
    folder = FolderImages(config.data, config.image_size, config.max_bad_images, config.background)
    if not config.cache_dir:
        return folder
    if ranks.local_rank == 0:
        write_cache(folder, Path(config.cache_dir), config.max_bad_images, workers, prepare)
    else:
        wait_for_cache(folder, Path(config.cache_dir))
    ranks.wait()
    return CachedImages(cache_file(folder, Path(config.cache_dir)), config.image_size)


def collate(batch: Any) -> Any:
    """A batch that came as one stays one, images or images and classes; a list of pairs becomes two tensors."""
    return default_collate(batch) if isinstance(batch, list) else batch


@contextmanager
def open_loader(
    config: Config,
    start: int,
    pin_memory: bool,
    ranks: Ranks = ALONE,
    device: torch.device = CPU,
    chosen: list[list[int]] | None = None,
) -> Iterator[DataLoader]:
    """This rank's batches of uint8 images (N, 3, S, S) on the CPU for the steps after `start`, N = batch_size / ranks;
    with classes pairs of images and classes (N,). `chosen` are the images of each batch instead of a training's.

    Leaving the block lets the workers end. Raises DataError.
    """
    ending = multiprocessing.Event()
    prepare = partial(prepare_worker, ending)
    workers = config.num_workers if config.num_workers >= 0 else default_workers(device, ranks)
    dataset = make_dataset(config, ranks, start, workers, prepare)
    order: dict[str, Any] = {}
    streamed: Any = dataset if isinstance(dataset, IterableDataset) else None
    if streamed is not None:
        workers = min(workers, streamed.most_workers())
        order["batch_size"] = None
    else:
        # A worker would only pass on what is already in the memory map, at the cost of a copy.
        workers = workers if config.num_workers > 0 or not isinstance(dataset, CachedImages) else 0
        if chosen is None:
            order["batch_sampler"] = Batches(len(dataset), config.batch_size, config.seed, start, config.steps, ranks)
        else:
            order["batch_sampler"] = chosen
        order["collate_fn"] = collate
    if workers:
        # persistent_workers: the end of an epoch must not restart processes; here, one pass is the whole training run.
        order.update(prefetch_factor=config.prefetch_factor, persistent_workers=True, worker_init_fn=prepare)
    # A separate random generator: the training run's numbers stay those of an uninterrupted one.
    order.update(generator=torch.Generator().manual_seed(config.seed))
    try:
        yield DataLoader(dataset, num_workers=workers, pin_memory=pin_memory, **order)
    finally:
        ending.set()
