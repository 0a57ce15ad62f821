# SPDX-License-Identifier: Apache-2.0
"""Sources of single images as uint8 tensors (3, S, S): a synthetic set and a folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from ..config import Config
from ..errors import UsageError
from ..own import call
from .image_files import SUFFIXES, list_images
from .pixels import UNREADABLE, decode_image, decode_into


class DataError(UsageError):
    """The images cannot be used; the text names folder or file."""


class BadImages:
    """Names each unreadable image once on stderr; raises DataError if there are more than `limit`."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.names: set[str] = set()

    def add(self, name: object, error: Exception) -> None:
        if str(name) not in self.names:
            self.names.add(str(name))
            print(f"train-gan: {name}: cannot be read as an image: {error}", file=sys.stderr, flush=True)
        if len(self.names) > self.limit:
            raise DataError(f"data: {len(self.names)} unreadable images, the last {name}; allowed: {self.limit}")


class OwnImages(Dataset):
    """Images of `package.module:function`, which gets the configuration: a sequence of uint8 tensors (3, S, S)."""

    def __init__(self, config: Config) -> None:
        self.name, self.shape = config.data, (3, config.image_size, config.image_size)
        self.images = call("data", config.data, config)
        if not len(self.images):
            raise DataError(f"data: {self.name}: there is no image")
        self.classes = config.classes
        self[0]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Tensor | tuple[Tensor, int]:
        """The image, and its class if there are classes."""
        image: Any = self.images[index]
        label: Any = None
        if isinstance(image, tuple) and len(image) == 2:
            image, label = image
        if self.classes and not (type(label) is int and 0 <= label < self.classes):
            raise DataError(
                f"data: {self.name}: the class of image {index} is {label!r}, expected 0 to {self.classes - 1}, as "
                "(image, class)"
            )
        kind, shape = getattr(image, "dtype", type(image).__name__), tuple(getattr(image, "shape", ()))
        if kind != torch.uint8 or shape != self.shape:
            raise DataError(
                f"data: {self.name}: image {index} is {kind} {shape}, expected torch.uint8 {self.shape}; "
                "cut, scale and convert it there"
            )
        return (image, label) if self.classes else image


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
    """All images below a folder (census.py), as they are meant to be seen, cut to their middle square and scaled.

    An unreadable file is named on stderr and replaced by the next one; more than `max_bad` of them in one worker raise
    DataError.
    """

    def __init__(self, folder: str, size: int, max_bad: int, background: str = "white") -> None:
        if not Path(folder).is_dir():
            raise DataError(f"data: {folder!r} is not a folder; give a folder of images, tar shards or 'synthetic'")
        self.listing = list_images(Path(folder))
        self.files = self.listing.files
        if not self.files:
            raise DataError(f"data: {folder!r} holds no file ending in {', '.join(SUFFIXES)}")
        # Without any readable file, the search for the next one would not end.
        self.size, self.background, self.bad = size, background, BadImages(min(max_bad, len(self.files) - 1))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor | tuple[Tensor, int]:
        return self.find(index)[0]

    def __getitems__(self, indices: list[int]) -> Any:
        """The batch that DataLoader asks for: images (N, 3, S, S)."""
        return self.take(indices)[0]

    def take(self, indices: list[int]) -> tuple[Tensor, list[int]]:
        """A batch, and for each image the number of the file that it comes from."""
        batch, used = np.empty((len(indices), 3, self.size, self.size), np.uint8), list(indices)
        failed = decode_into(batch, [self.files[index] for index in indices], self.background)
        for place in sorted(failed):
            self.bad.add(self.files[indices[place]], failed[place])
            image, used[place] = self.find((indices[place] + 1) % len(self.files))
            batch[place] = image.numpy()
        return torch.from_numpy(batch), used

    def find(self, index: int) -> tuple[Tensor, int]:
        """The image, and the number of the file that it comes from."""
        while True:
            path = self.files[index]
            try:
                return decode_image(path, self.size, self.background), index
            except UNREADABLE as error:
                self.bad.add(path, error)
                index = (index + 1) % len(self.files)


def folders_of(files: list[Path], folder: Path) -> tuple[list[str], Path | None]:
    """The folder directly below `folder` that each file is in, up to the first that is in none, and that file."""
    kinds: list[str] = []
    for path in files:
        parts = path.relative_to(folder).parts
        if len(parts) < 2:
            return kinds, path
        kinds.append(parts[0])
    return kinds, None


class LabelledImages(FolderImages):
    """The same with classes: an image's class is the number of its folder directly below `data`, in order of names."""

    def __init__(self, folder: str, size: int, max_bad: int, background: str, classes: int) -> None:
        super().__init__(folder, size, max_bad, background)
        kinds, loose = folders_of(self.files, Path(folder))
        if loose:
            raise DataError(
                f"data: {loose} is not in the folder of a class; with classes each image is in a folder of {folder}. "
                "Move it into one, or set classes=0 to train all as one kind"
            )
        self.names = sorted(set(kinds))
        if len(self.names) != classes:
            named = ", ".join(self.names[:5]) + (" ..." if len(self.names) > 5 else "")
            found, other = f"{len(self.names)} folders of images", f"Set classes={len(self.names)}"
            if len(self.names) == 1:
                found, other = "1 folder of images", "Set data to the folder in which each kind has one"
            raise DataError(
                f"classes: {classes}, but {folder} has {found}: {named}. {other}, or classes=0 to train all as one kind"
            )
        numbers = {name: number for number, name in enumerate(self.names)}
        self.labels = [numbers[kind] for kind in kinds]

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, used = self.find(index)
        return image, self.labels[used]

    def __getitems__(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        images, used = self.take(indices)
        return images, torch.tensor([self.labels[number] for number in used])
