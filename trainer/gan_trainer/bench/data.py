# SPDX-License-Identifier: Apache-2.0
"""Images per second of each stage of the data path, and of whole paths from a file to a batch.

Every file was read before it is measured, so that it comes from the page cache: nothing is said of a disk.
"""

from __future__ import annotations

import io
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ..config import Config
from ..data.cache import CachedImages, write_cache
from ..data.images import FolderImages, SyntheticImages
from ..data.loader import open_loader
from ..data.pixels import decode_image
from ..data.prefetch import normalise
from . import timing
from .conditions import NotAsNamed
from .timing import rate_of, take_turns

# Rounds of each stage: enough for a median, few enough for a minute.
IMAGES, BATCHES, ROUNDS = 128, 8, 3
# Epochs from the memory map for each epoch from the files.
FAST = 20
PLAIN = "plain loader: Pillow to float32, one by one"
JPEG_SIZE, JPEG_QUALITY = 256, 90


class PlainImageFolder(Dataset):
    """The obvious first version, like ImageFolder with Resize, CenterCrop, ToTensor and Normalize: every image
    becomes a float32 tensor (3, S, S) in [-1, 1] on its own."""

    def __init__(self, files: list[Path], size: int) -> None:
        self.files, self.size = files, size

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor:
        with self.files[index].open("rb") as file, Image.open(file) as opened:
            image = opened.convert("RGB")
        scale = self.size / min(image.size)
        image = image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.BILINEAR)
        left, top = (image.width - self.size) // 2, (image.height - self.size) // 2
        image = image.crop((left, top, left + self.size, top + self.size))
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().to(torch.float32).div(255)
        return pixels.sub(0.5).div(0.5)


@contextmanager
def folder_of(config: Config) -> Iterator[tuple[str, str]]:
    """A folder of images and its description: the configured one, or JPEG files made for this measurement."""
    if config.data != "synthetic":
        yield config.data, config.data
        return
    images = SyntheticImages(JPEG_SIZE, IMAGES, config.seed)
    noise = np.random.default_rng(config.seed)
    with tempfile.TemporaryDirectory(prefix="train-gan-bench-") as folder:
        for index in range(len(images)):
            # Smooth discs alone would decode faster than photographs.
            grain = noise.normal(0.0, 12.0, (JPEG_SIZE, JPEG_SIZE, 3))
            pixels = images[index].permute(1, 2, 0).numpy() + grain
            picture = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
            picture.save(Path(folder) / f"{index:05d}.jpg", quality=JPEG_QUALITY)
        yield folder, f"{IMAGES} JPEG files of {JPEG_SIZE} px made for this bench"


def bench_data(config: Config, device: torch.device) -> dict[str, Any]:
    """Rows `{name, images_per_s, ratio}`: `stages` alone, and `paths` with their ratio to the plain loader.

    A path that was not what its name says has None for all numbers, and the reason in `not_run`.
    """
    with folder_of(config) as (folder, what), tempfile.TemporaryDirectory(prefix="train-gan-bench-") as cache:
        source = FolderImages(folder, config.image_size, config.max_bad_images, config.background)
        batch_size = min(config.batch_size, len(source))
        # With classes there is no cache; the paths are those of the images alone.
        config = replace(config, data=folder, cache_dir="", classes=0, batch_size=batch_size)
        stages = take_turns(stage_arms(source.files[:IMAGES], config, device), ROUNDS)
        file = write_cache(source, Path(cache), config.max_bad_images, 0)
        arms = path_arms(source, CachedImages(file, config.image_size), config, device)
        notes: dict[str, str] = {}
        paths = {result.name: result for result in take_turns(arms, ROUNDS, notes)}
        return {
            "schema": 1,
            "data": what,
            "image_size": config.image_size,
            "batch_size": config.batch_size,
            "stages": [{"name": result.name, "images_per_s": round(result.rate, 1)} for result in stages],
            "paths": [path_row(name, paths.get(name), notes.get(name, "")) for name in arms],
        }


def path_row(name: str, result: timing.Result | None, not_run: str) -> dict[str, Any]:
    if result is None:
        return {"name": name, "images_per_s": None, "ratio": None, "rates": [], "not_run": not_run}
    return {
        "name": name,
        "images_per_s": round(result.rate, 1),
        "ratio": None if result.ratio is None else round(result.ratio, 3),
        "rates": [round(rate, 1) for rate in result.rates],
        "not_run": "",
    }


def stage_arms(files: list[Path], config: Config, device: torch.device) -> dict[str, Callable[[], float]]:
    """Each stage, fed with the output of the stage before it."""
    size = config.image_size
    encoded = [file.read_bytes() for file in files]
    decoded = [decode(content, size) for content in encoded]
    images = [decode_image(content, size) for content in encoded]
    batch = torch.stack((images * config.batch_size)[: config.batch_size])
    batch = batch.pin_memory() if device.type == "cuda" else batch
    count = len(files)

    def resize() -> None:
        for image in decoded:
            edge = min(image.size)
            box = ((image.width - edge) // 2, (image.height - edge) // 2)
            square = image.resize((size, size), Image.Resampling.BILINEAR, (*box, box[0] + edge, box[1] + edge))
            torch.from_numpy(np.array(square)).permute(2, 0, 1).contiguous()

    return {
        "read the file": lambda: on_one_core(lambda: [file.read_bytes() for file in files], count, 1),
        "decode": lambda: on_one_core(lambda: [decode(content, size) for content in encoded], count, 1),
        "crop, resize, to uint8": lambda: on_one_core(resize, count, 1),
        "collate": lambda: on_one_core(lambda: torch.stack(images), count, BATCHES),
        f"to {device.type}, normalise": lambda: rate_of(lambda: normalise(batch, device), len(batch), device, BATCHES),
    }


def on_one_core(work: Callable[[], object], count: int, repeats: int) -> float:
    """Items per s, as in a worker of the loader, which has one core: torch would stack in several threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return rate_of(work, count, torch.device("cpu"), repeats)
    finally:
        torch.set_num_threads(threads)


def decode(content: bytes, size: int) -> Image.Image:
    with Image.open(io.BytesIO(content)) as image:
        # As in the trainer: a JPEG decoder may skip detail that scaling down would drop.
        image.draft("RGB", (size, size))
        return image.convert("RGB")


def path_arms(
    source: FolderImages, cached: CachedImages, config: Config, device: torch.device
) -> dict[str, Callable[[], float]]:
    """From a file to a normalised float32 batch on the device; what is fast is repeated more often."""
    epoch = len(source) // config.batch_size
    cache_dir = str(cached.file.parent)

    def loader(dataset: Dataset) -> DataLoader:
        return DataLoader(dataset, config.batch_size, shuffle=True, drop_last=True)

    def trainers(epochs: int, **changes: Any) -> float:
        settings = replace(config, num_workers=0, steps=max(2, epochs * epoch), **changes)
        with open_loader(settings, 0, pin_memory=device.type == "cuda") as batches:
            if isinstance(batches.dataset, CachedImages) != bool(settings.cache_dir):
                raise NotAsNamed(f"not measured: the loader reads {type(batches.dataset).__name__}")
            return rate_of_batches(batches, device)

    return {
        PLAIN: lambda: rate_of_batches(chain(*[loader(PlainImageFolder(source.files, config.image_size))] * 2), device),
        "uint8, decoded anew, no workers": lambda: trainers(2),
        "memory map, one by one": lambda: rate_of_batches(chain(*[loader(OneByOne(cached))] * FAST), device),
        "memory map, whole batches": lambda: trainers(FAST, cache_dir=cache_dir),
    }


class OneByOne(Dataset):
    """The cache without its method to fetch a whole batch."""

    def __init__(self, images: CachedImages) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Tensor:
        return self.images[index]


def prepare(batch: Tensor, device: torch.device) -> Tensor:
    return normalise(batch, device) if batch.dtype == torch.uint8 else batch.to(device)


def rate_of_batches(batches: Iterable[Tensor], device: torch.device) -> float:
    """Images per s after the first batch, which warms up."""
    waiting = iter(batches)
    prepare(next(waiting), device)
    timing.synchronise(device)
    start = timing.clock()
    count = sum(len(prepare(batch, device)) for batch in waiting)
    timing.synchronise(device)
    return count / max(timing.clock() - start, 1e-9)


def as_text(report: dict[str, Any]) -> str:
    lines = [f"{report['data']}, to {report['image_size']} px, batches of {report['batch_size']}", ""]
    lines.append("Every file was read before: from the page cache.")
    lines += ["", f"{'stage, on one core but for the last':<46}{'images/s':>12}"]
    lines += [f"{row['name']:<46}{row['images_per_s']:>12.0f}" for row in report["stages"]]
    lines += ["", f"{'from the page cache to a batch on the device':<46}{'images/s':>12}{'ratio':>8}"]
    for row in report["paths"]:
        if row["images_per_s"] is None:
            lines.append(f"{row['name']:<46}  {row['not_run']}")
            continue
        ratio = "noise" if row["ratio"] is None else f"{row['ratio']:.2f}"
        lines.append(f"{row['name']:<46}{row['images_per_s']:>12.0f}{ratio:>8}")
    return "\n".join(lines)
