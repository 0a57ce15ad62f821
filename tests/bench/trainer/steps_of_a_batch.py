"""Where the time of a loader goes: the steps that it takes for a batch, each in a loop of its own, as it takes them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gan_trainer.bench import timing
from gan_trainer.config import Config
from gan_trainer.data.images import BadImages
from gan_trainer.data.pixels import open_image, planes, square_of, whole
from gan_trainer.data.prefetch import normalise
from gan_trainer.data.tar_samples import TarSamples
from PIL import Image

CPU = torch.device("cpu")
READ_FILE, READ_MEMBER = "read a file", "read from the archive"
HEADER, DECODE = "Pillow reads the header", "the JPEG decoder"
PLANES, NORMALISE = "cut, scale, to planes", "to float32, normalise"
REST = "the rest: order, collate, caches that others have filled"
IN_COMMON = (HEADER, DECODE, PLANES, NORMALISE)


def arms(config: Config, files: list[Path], tar: Path) -> dict[str, Callable[[], float]]:
    """Images per s of each step."""
    size, background = config.image_size, config.background
    samples = TarSamples(BadImages(0))
    # From the second epoch on it knows where the images lie.
    encoded = [sample[1] for sample in samples.of_all([str(tar)]) if sample]
    batch = np.empty((config.batch_size, 3, size, size), np.uint8)

    def header(content: bytes) -> Image.Image:
        return open_image(content, size)

    def decoded(content: bytes) -> Image.Image:
        image = header(content)
        image.load()
        return image

    def to_planes(images: list[Image.Image]) -> None:
        for number, image in enumerate(images):
            batch[number] = planes(square_of(image, size, background))

    def in_groups(items: list[Any], before: Callable[[Any], Any], step: Callable[[list[Any]], object]) -> float:
        """Seconds of `step` alone, which gets a batch of what `before` makes of the items."""
        seconds = 0.0
        for start in range(0, len(items), config.batch_size):
            group = [before(item) for item in items[start : start + config.batch_size]]
            began = timing.clock()
            step(group)
            seconds += timing.clock() - began
        return len(items) / max(seconds, 1e-9)

    def same(item: Any) -> Any:
        return item

    return {
        READ_FILE: lambda: in_groups(files, same, lambda group: [whole(file) for file in group]),
        READ_MEMBER: lambda: in_groups([str(tar)], same, lambda group: all_of(samples.of_all(group))) * len(files),
        HEADER: lambda: in_groups(encoded, same, lambda group: [header(content) for content in group]),
        DECODE: lambda: in_groups(encoded, header, lambda group: [image.load() for image in group]),
        PLANES: lambda: in_groups(encoded, decoded, to_planes),
        NORMALISE: lambda: in_groups(encoded, same, lambda group: normalise(torch.from_numpy(batch), CPU)),
    }


def all_of(items: Iterable[Any]) -> int:
    """How many there are; none is kept."""
    return sum(1 for _ in items)


def shares(rates: dict[str, list[float]], loaders: dict[str, str]) -> list[dict[str, Any]]:
    """{loader, us, steps: [{name, us, share}]} for each loader and its way to read; medians of us for one image."""
    found = []
    for loader, reads in loaders.items():
        whole_us = us_of(rates[loader])
        steps = {name: us_of(rates[name]) for name in (reads, *IN_COMMON)}
        steps[REST] = round(whole_us - sum(steps.values()), 1)
        rows = [{"name": name, "us": us, "share": round(us / whole_us, 3)} for name, us in steps.items()]
        found.append({"loader": loader, "us": whole_us, "steps": rows})
    return found


def us_of(rates: list[float]) -> float:
    return round(1e6 / statistics.median(rates), 1)
