# SPDX-License-Identifier: Apache-2.0
"""Decoded images in one memory-mapped file: decode once, then read tens of thousands of images per second."""

from __future__ import annotations

import hashlib
import json
import mmap
import resource
import time
from contextlib import suppress
from pathlib import Path
from typing import Callable

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ..safe_files import replacing
from .images import BadImages, DataError, FolderImages
from .pixels import UNREADABLE, decode_image

# Incremented when decode_image gives a different result for the same file.
DECODER = 3


def pages_read() -> tuple[int, int]:
    """What this thread has read from disks so far: blocks, and page faults that waited for a disk."""
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return used.ru_inblock, used.ru_majflt


class CachedImages(Dataset):
    """uint8 images (3, S, S) of a file made by `write_cache`; a whole batch (N, 3, S, S) is one gather."""

    def __init__(self, file: Path, size: int) -> None:
        self.file, self.size = file, size
        count, rest = divmod(file.stat().st_size, 3 * size * size)
        if rest or not count:
            raise DataError(f"cache_dir: {file} is damaged; remove it, and it is created again")
        self.count = count
        self.from_disk = True
        self.images = self.map()

    def map(self) -> np.ndarray:
        with self.file.open("rb") as file:
            self.pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        # Images are read at random: each page fault would read the disk's whole read-ahead, most of it for nothing.
        self.pages.madvise(mmap.MADV_RANDOM)
        return np.frombuffer(self.pages, np.uint8).reshape(self.count, 3, self.size, self.size)

    def take(self, indices: list[int]) -> np.ndarray:
        """A copy of these images.

        Their pages are requested as long as some come from the disk: for what is in memory, requests only cost time.
        """
        before = pages_read()
        if self.from_disk:
            self.fetch(indices)
        images = self.images.take(indices, axis=0)
        self.from_disk = pages_read() != before
        return images

    def fetch(self, indices: list[int]) -> None:
        """Request exactly the pages of these images, all at once: without read-ahead, each would wait separately."""
        length = 3 * self.size * self.size
        for index in indices:
            place = index % self.count * length
            start = place // mmap.PAGESIZE * mmap.PAGESIZE
            self.pages.madvise(mmap.MADV_WILLNEED, start, place + length - start)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        return torch.from_numpy(self.take([index])[0])

    def __getitems__(self, indices: list[int]) -> Tensor:
        """The batch that DataLoader asks for, without its detour through single images.

        One thread's gather fills the memory bus, and it lets Python's other threads run.
        """
        return torch.from_numpy(self.take(indices))

    def __getstate__(self) -> dict:
        # A worker that is not forked maps the file again instead of receiving all of it.
        return {**self.__dict__, "images": None, "pages": None}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self.images = self.map()


class Decoded(Dataset):
    """Image i of a folder and no reason, or no image and the reason why."""

    def __init__(self, source: FolderImages) -> None:
        self.files, self.size, self.background = source.files, source.size, source.background

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Tensor | None, str]:
        try:
            return decode_image(self.files[index], self.size, self.background), ""
        except UNREADABLE as error:
            return None, str(error)


def cache_file(source: FolderImages, cache_dir: Path) -> Path:
    """The cache's file, named after size, names, dates and lengths of the images: a changed folder gets a new one."""
    seen = [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in source.files]
    digest = hashlib.sha256(json.dumps([DECODER, source.size, source.background, seen]).encode()).hexdigest()[:16]
    return cache_dir / f"images-{source.size}-{digest}.u8"


def wait_for_cache(source: FolderImages, cache_dir: Path, silent_seconds: float = 600.0) -> None:
    """Wait until another process has made the cache, however long that takes; DataError if its file stops growing.

    A barrier of torch.distributed would give up after its time-out while a large folder is still being decoded.
    """
    file = cache_file(source, cache_dir)
    seen, since = -1, time.monotonic()
    while not file.exists():
        size = sum(growing(file))
        if size != seen:
            seen, since = size, time.monotonic()
        elif time.monotonic() - since > silent_seconds:
            raise DataError(
                f"cache_dir: {file} has not grown for {silent_seconds:.0f} s; its writer has ended or hangs"
            )
        time.sleep(0.2)


def growing(file: Path) -> list[int]:
    """Sizes in bytes of the unfinished files of a cache."""
    sizes = []
    for part in file.parent.glob(f"{file.stem}.*.tmp"):
        # It may be renamed or removed at any moment.
        with suppress(OSError):
            sizes.append(part.stat().st_size)
    return sizes


def write_cache(
    source: FolderImages, cache_dir: Path, max_bad: int, workers: int, prepare: Callable[[int], None] | None = None
) -> Path:
    """Decode every image of the folder once; returns the file, at once if it already exists.

    Unreadable images are named and left out; more than `max_bad` raise DataError. The file gets its name once it is
    complete. It takes 3 * S * S bytes for each image.
    """
    file = cache_file(source, cache_dir)
    if file.exists():
        return file
    bad = BadImages(min(max_bad, len(source) - 1))
    cache_dir.mkdir(parents=True, exist_ok=True)
    print(f"train-gan: decoding {len(source)} images into {file}", flush=True)
    decoded = DataLoader(Decoded(source), batch_size=None, num_workers=workers, worker_init_fn=prepare)
    try:
        with replacing(file) as out:
            for path, (image, reason) in zip(source.files, decoded):
                if image is None:
                    bad.add(path, ValueError(reason))
                else:
                    out.write(image.numpy().tobytes())
    except OSError as error:
        raise DataError(f"cache_dir: {cache_dir} cannot hold the decoded images: {error.strerror}") from error
    return file
