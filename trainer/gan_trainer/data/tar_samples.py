# SPDX-License-Identifier: Apache-2.0
"""The images of tar shards in WebDataset's form, still encoded: a sample is all files that share a name, its image and
perhaps a label beside it.

An archive on a disk is walked through once, and where its images lie is kept: from the second epoch on, each image is
one read. WebDataset itself reads what is behind an address, and with Python's tarfile what tar_headers.py does not.
"""

from __future__ import annotations

import os
import re
import sys
from itertools import islice
from pathlib import Path
from typing import Any, Iterable, Iterator, NamedTuple, Optional, Tuple

import webdataset
from webdataset.tariterators import base_plus_ext

from .image_files import SUFFIXES, read_at
from .images import BadImages
from .tar_headers import DamagedTar, Member, UnendedTar, UnusualTar, members

# Name and encoded image; None for a sample without one, which counts where samples are mixed.
Sample = Optional[Tuple[str, bytes]]
# Images whose places are kept, some 20 MB in each worker; the archives of a larger set are walked through every time.
KEPT = 100_000
# What WebDataset leaves out: its own notes about an archive.
META = re.compile(r"__[^/]*__($|/)")


class Places(NamedTuple):
    """Where each sample of an archive has its image; the archive had this length in bytes and this date in ns."""

    length: int
    changed: int
    images: list[Member | None]


class TarSamples:
    """Reads archives. What is wrong with one is told to `bad`, and the samples before it are used."""

    def __init__(self, bad: BadImages) -> None:
        self.bad = bad
        self.places: dict[str, Places] = {}
        self.said: set[str] = set()

    def of_all(self, shards: Iterable[str]) -> Iterator[Sample]:
        for shard in shards:
            yield from self.by_webdataset(shard) if "://" in shard else self.of_file(shard)

    def of_file(self, shard: str) -> Iterator[Sample]:
        count = 0
        try:
            with Path(shard).open("rb", buffering=0) as opened:
                file = opened.fileno()
                for image in self.images(shard, file):
                    count += 1
                    yield None if image is None else (f"{shard}: {image.name}", content(file, image))
        except UnusualTar as reason:
            self.say(shard, f"{reason}; Python's tarfile reads it, which takes longer")
            yield from islice(self.by_webdataset(shard), count, None)
        except UnendedTar as reason:
            self.say(shard, f"{reason}; its {count} samples are used, and if there were more, copy it again")
        except DamagedTar as reason:
            self.bad.add(shard, DamagedTar(f"{reason}; copy it again, or pack it anew"))
        except OSError as error:
            self.bad.add(shard, error)

    def say(self, shard: str, text: str) -> None:
        if shard not in self.said:
            self.said.add(shard)
            print(f"train-gan: {shard}: {text}", file=sys.stderr, flush=True)

    def images(self, shard: str, file: int) -> Iterator[Member | None]:
        """Where each sample has its image. Raises UnusualTar, and OSError after the samples before the damage."""
        status = os.fstat(file)
        known = self.places.get(shard)
        if known and (known.length, known.changed) == (status.st_size, status.st_mtime_ns):
            yield from known.images
            return
        found: list[Member | None] = []
        for image in self.grouped(shard, members(file, status.st_size)):
            found.append(image)
            yield image
        self.places.pop(shard, None)
        if sum(len(other.images) for other in self.places.values()) + len(found) <= KEPT:
            self.places[shard] = Places(status.st_size, status.st_mtime_ns, found)

    def grouped(self, shard: str, files: Iterator[Member]) -> Iterator[Member | None]:
        """The image of each sample, as WebDataset forms them."""
        key: str | None = None
        sample: dict[str, Member] = {}
        try:
            for member in files:
                prefix, suffix = base_plus_ext(member.name)
                if prefix is None or META.match(member.name):
                    continue
                if prefix != key:
                    if key is not None:
                        yield chosen(sample)
                    key, sample = prefix, {}
                if suffix.lower() in sample:
                    self.bad.add(f"{shard}: {member.name}", ValueError("its sample has such a file already"))
                sample.setdefault(suffix.lower(), member)
        except DamagedTar:
            if key is not None:
                yield chosen(sample)
            raise
        if key is not None:
            yield chosen(sample)

    def by_webdataset(self, shard: str) -> Iterator[Sample]:
        def damaged(error: Exception) -> bool:
            self.bad.add(str(error)[-200:], error)
            return True

        pipeline = webdataset.DataPipeline(
            webdataset.SimpleShardList([shard]), webdataset.tarfile_to_samples(handler=damaged)
        )
        for sample in pipeline:
            image = chosen(sample)
            # It has the name without the suffix, and the suffix in small letters.
            suffix = next((suffix for suffix, value in sample.items() if value is image), "")
            yield None if image is None else (f"{shard}: {sample['__key__']}.{suffix}", image)


def chosen(sample: dict[str, Any]) -> Any:
    """The image among the files of a sample, by suffix; None if there is none."""
    return next((sample[suffix[1:]] for suffix in SUFFIXES if suffix[1:] in sample), None)


def content(file: int, image: Member) -> bytes:
    """The encoded image; DamagedTar if the archive has become shorter meanwhile."""
    found = read_at(file, image.length, image.start)
    if len(found) < image.length:
        raise DamagedTar(f"the archive was cut off inside {image.name} while it was read")
    return found
