# SPDX-License-Identifier: Apache-2.0
"""WebDataset tar shards: large sequential reads, for image sets that would be slow as small files."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Iterator

import numpy as np
import torch
import webdataset
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from ..parallel.distributed import Ranks
from .image_files import SUFFIXES
from .images import BadImages, DataError
from .pixels import decode_into
from .tar_samples import TarSamples

if TYPE_CHECKING:
    from ..config import Config

# Encoded images from which the next one is drawn: shards are read from front to back.
SHUFFLE_BUFFER = 512


def list_shards(data: str) -> list[str]:
    """The shards that a pattern such as data/{000..009}.tar names; DataError if one does not exist."""
    shards = list(webdataset.shardlists.expand_urls(data))
    missing = [name for name in shards if "://" not in name and not Path(name).is_file()]
    if missing:
        raise DataError(f"data: {missing[0]} is not a file ({len(missing)} of {len(shards)} shards are missing)")
    return shards


class ShardImages(IterableDataset):
    """Endless batches of uint8 images (N, 3, S, S): each epoch has a new order of shards.

    Every worker of every rank reads its own shards. The order is a function of seed, step, and the numbers of ranks
    and workers; with the same numbers a resumed run continues with the batch that an uninterrupted one would have had.
    It reads what came before without decoding it. An unreadable image is named and replaced by its neighbour.
    """

    def __init__(self, config: Config, ranks: Ranks, start: int) -> None:
        self.size, self.seed, self.max_bad = config.image_size, config.seed, config.max_bad_images
        self.share, self.ranks, self.start = ranks.share(config.batch_size), ranks, start
        self.shards, self.background = list_shards(config.data), config.background
        if len(self.shards) < ranks.world:
            raise DataError(
                f"data: {len(self.shards)} shards cannot feed {ranks.world} processes; make at least one each"
            )

    def most_workers(self) -> int:
        """The highest useful number of workers: more would find no shard."""
        return len(self.shards) // self.ranks.world

    def __iter__(self) -> Iterator[Tensor]:
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        # Workers deliver in turn, and the first batch always comes from worker 0: it takes over the stream whose turn
        # it is at `start`, as the next ones do.
        stream = (worker + self.start) % workers
        batches_before = (self.start - stream + workers - 1) // workers
        place = self.ranks.rank * workers + stream
        images = self.images(place, self.ranks.world * workers, batches_before * self.share)
        while True:
            yield torch.from_numpy(np.stack([next(images) for _ in range(self.share)]))

    def images(self, stream: int, streams: int, skip: int) -> Iterator[np.ndarray]:
        """The decoded images (3, S, S) of one of all streams, from number `skip` on; a batch is decoded at once."""
        bad, last, owed = BadImages(self.max_bad), None, 0
        # The image before is also decoded: it may have to replace its neighbour.
        number = max(0, skip - 1)
        samples = islice(self.samples(stream, streams, bad), number, None)
        while True:
            group = list(islice(samples, self.share))
            decoded = np.empty((len(group), 3, self.size, self.size), np.uint8)
            failed = decode_into(decoded, [encoded for _, encoded in group], self.background)
            for place, (name, _) in enumerate(group):
                if place in failed:
                    bad.add(name, failed[place])
                else:
                    last = decoded[place]
                owed += number >= skip
                number += 1
                while last is not None and owed:
                    yield last
                    owed -= 1

    def samples(self, stream: int, streams: int, bad: BadImages) -> Iterator[tuple[str, bytes]]:
        """Name and encoded image, epoch after epoch."""
        archives = TarSamples(bad)
        epoch, found = 0, True
        while found:
            order = random.Random(f"{self.seed} {epoch}")
            own = order.sample(self.shards, len(self.shards))[stream::streams]
            mixed = webdataset.shuffle(SHUFFLE_BUFFER, rng=random.Random(f"{self.seed} {epoch} {stream}"))
            found = False
            for sample in mixed(archives.of_all(own)):
                if sample is not None:
                    found = True
                    yield sample
            epoch += 1
        raise DataError(f"data: {', '.join(own)}: no image ending in {', '.join(SUFFIXES)} can be read")
