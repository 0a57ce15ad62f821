"""Loaders beside each other: ours, torchvision's ImageFolder and webdataset, from the same JPEG files to a batch.

Each is written as its own documentation shows, decodes every image anew, in this process and in an order that changes,
and ends in normalised float32 batches of one size. Beside them are the loader that one writes first, which ours are to
beat by GOAL, and the JPEG decoder alone, which nobody can beat. Where a library cannot be imported its arm is left out,
and the result says why.
"""

from __future__ import annotations

import importlib
import re
import statistics
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import steps_of_a_batch
import torch
from gan_trainer.bench.data import PLAIN, PlainImageFolder, decode, folder_of, rate_of_batches
from gan_trainer.bench.timing import rate_of, summarise, take_turns
from gan_trainer.config import Config
from gan_trainer.data.loader import open_loader
from gpuwright.launch.calibration.rule import interval
from page import word_of
from report import rows
from torch import Tensor
from torch.utils.data import DataLoader

CPU = torch.device("cpu")
FOLDER, TAR = "gan_trainer, folder", "gan_trainer, tar"
TORCHVISION, WEBDATASET = "torchvision ImageFolder", "webdataset"
# How each of ours reads.
READS = {FOLDER: steps_of_a_batch.READ_FILE, TAR: steps_of_a_batch.READ_MEMBER}
# Who reads files is compared with who reads files, and archives with archives.
PAIRS = ((FOLDER, TORCHVISION), (TAR, WEBDATASET))
EPOCHS = 3
DECODER = "JPEG decoder alone"
# Times the plain loader.
GOAL = 2.5
# Wrong by chance in at most 1 of 40 cases at either end.
ERROR = 0.025
# As the trainer draws its next image from.
SHUFFLE_BUFFER = 512
# PyPI's torchvision is built for a torch with CUDA. Beside another torch its C++ operators are missing, and it stops at
# its import where it describes them. ImageFolder and the transforms are Python and Pillow: what is missing is declared
# here, and never called. The declarations go with this object.
DECLARED = torch.library.Library("torchvision", "FRAGMENT")
UNKNOWN_OPERATOR = re.compile(r"operator torchvision::(\w+) does not exist")


def measure(config: Config, rounds: int) -> dict[str, Any]:
    """{data, rows, steps, verdicts, goals, missing} of all arms in turns; `config` names image and batch size, seed."""
    with folder_of(config) as (folder, what), tempfile.TemporaryDirectory(prefix="bench-loaders-") as name:
        files = sorted(Path(folder).glob("*.jpg"))
        steps = EPOCHS * (len(files) // config.batch_size)
        tar = pack(files, Path(name))
        arms = {
            FOLDER: lambda: ours(config, folder, steps),
            TAR: lambda: ours(config, str(tar), steps),
            WEBDATASET: lambda: rate_of_batches(webdataset_batches(config, tar, steps), CPU),
            PLAIN: lambda: rate_of_batches(plain_batches(config, files), CPU),
            DECODER: lambda: decoder_alone(config, files),
        }
        missing = why_missing("torchvision")
        if not missing:
            arms[TORCHVISION] = lambda: rate_of_batches(torchvision_batches(config, files, Path(name), steps), CPU)
        results = take_turns({**arms, **steps_of_a_batch.arms(config, files, tar)}, rounds)
    rates = {result.name: result.rates for result in results}
    return {
        "data": what,
        "image_size": config.image_size,
        "batch_size": config.batch_size,
        "rows": rows(summarise({name: rates[name] for name in arms})),
        "steps": steps_of_a_batch.shares(rates, READS),
        "verdicts": [verdict(rates, mine, other) for mine, other in PAIRS if other in rates],
        "goal": GOAL,
        "goals": [goal(rates, mine) for mine in (FOLDER, TAR)],
        "missing": {TORCHVISION: missing} if missing else {},
    }


def verdict(rates: dict[str, list[float]], mine: str, other: str) -> dict[str, Any]:
    """{ours, other, ratio, interval, word} of two arms by their paired rounds; the upper end is None where unknown."""
    ratios = [own / its for own, its in zip(rates[mine], rates[other], strict=True)]
    low, high = interval(ratios, ERROR)
    ends = [round(low, 3), None if high == float("inf") else round(high, 3)]
    word = word_of(low, high)
    return {"ours": mine, "other": other, "ratio": round(statistics.median(ratios), 3), "interval": ends, "word": word}


def goal(rates: dict[str, list[float]], mine: str) -> dict[str, Any]:
    """{ours, ratio, interval, met, of_decoder, needs} by the paired rounds.

    met    whether ours has GOAL times the plain loader's rate, None where the interval does not tell
    of_decoder, needs  which part of the decoder's rate it has, and which it would have to have
    """
    ratios = [own / its for own, its in zip(rates[mine], rates[PLAIN], strict=True)]
    low, high = interval(ratios, ERROR)
    met = True if low >= GOAL else False if high < GOAL else None
    share = [own / all_of_it for own, all_of_it in zip(rates[mine], rates[DECODER], strict=True)]
    needs = [GOAL * its / all_of_it for its, all_of_it in zip(rates[PLAIN], rates[DECODER], strict=True)]
    parts = {"of_decoder": round(statistics.median(share), 3), "needs": round(statistics.median(needs), 3)}
    ends = [round(low, 3), None if high == float("inf") else round(high, 3)]
    return {"ours": mine, "ratio": round(statistics.median(ratios), 3), "interval": ends, "met": met, **parts}


def why_missing(library: str) -> str:
    """Why a library cannot be imported, "" where it can; what torchvision lacks of operators is declared (DECLARED)."""
    declared: set[str] = set()
    while True:
        try:
            importlib.import_module(library)
        except (ImportError, RuntimeError, OSError) as error:
            unknown = UNKNOWN_OPERATOR.fullmatch(str(error))
            if unknown is None or unknown[1] in declared:
                return str(error).splitlines()[0]
            declared.add(unknown[1])
            DECLARED.define(f"{unknown[1]}() -> ()")
            # Half of it is there.
            for name in [name for name in sys.modules if name.partition(".")[0] == library]:
                del sys.modules[name]
        else:
            return ""


def pack(files: list[Path], folder: Path) -> Path:
    """The files as one shard, as webdataset names its samples."""
    path = folder / "images.tar"
    with tarfile.open(path, "w") as tar:
        for file in files:
            tar.add(file, file.name)
    return path


def plain_batches(config: Config, files: list[Path]) -> Iterable[Tensor]:
    dataset = PlainImageFolder(files, config.image_size)
    for _ in range(EPOCHS):
        yield from DataLoader(dataset, config.batch_size, shuffle=True, drop_last=True)


def decoder_alone(config: Config, files: list[Path]) -> float:
    """Images per s from bytes in memory to Pillow's pixels, with the detail left out that scaling down would drop."""
    encoded = [file.read_bytes() for file in files]
    return rate_of(lambda: [decode(content, config.image_size) for content in encoded], len(files), CPU, EPOCHS)


def ours(config: Config, data: str, steps: int) -> float:
    settings = replace(config, data=data, cache_dir="", num_workers=0, steps=steps)
    with open_loader(settings, 0, pin_memory=False) as batches:
        return rate_of_batches(islice(iter(batches), steps), CPU)


def transform(size: int) -> Callable[[Any], Tensor]:
    """Resize, CenterCrop, ToTensor and Normalize, as torchvision's examples have them."""
    from torchvision import transforms

    steps = [transforms.Resize(size), transforms.CenterCrop(size), transforms.ToTensor()]
    return transforms.Compose([*steps, transforms.Normalize((0.5,) * 3, (0.5,) * 3)])


def torchvision_batches(config: Config, files: list[Path], folder: Path, steps: int) -> Iterable[Tensor]:
    """ImageFolder wants a folder for each class: one, with links to the files."""
    from torchvision.datasets import ImageFolder

    images = folder / "classes" / "one"
    if not images.exists():
        images.mkdir(parents=True)
        for file in files:
            (images / file.name).symlink_to(file)
    dataset = ImageFolder(str(images.parent), transform(config.image_size))
    for _ in range(EPOCHS):
        for batch, _classes in DataLoader(dataset, config.batch_size, shuffle=True, drop_last=True):
            yield batch


def webdataset_batches(config: Config, tar: Path, steps: int) -> Iterable[Tensor]:
    """`decode("torchrgb")` gives float32 in [0, 1]; scaled and cropped by torch's own interpolation."""
    import webdataset

    def prepared(image: Tensor) -> Tensor:
        size = config.image_size
        scale = size / min(image.shape[1:])
        shape = [round(edge * scale) for edge in image.shape[1:]]
        small = torch.nn.functional.interpolate(image[None], shape, mode="bilinear", antialias=True)[0]
        top, left = ((edge - size) // 2 for edge in shape)
        return small[:, top : top + size, left : left + size].sub(0.5).div(0.5)

    pipeline = webdataset.WebDataset(str(tar), shardshuffle=False, seed=config.seed).shuffle(SHUFFLE_BUFFER)
    samples = pipeline.decode("torchrgb").to_tuple("jpg").map_tuple(prepared).batched(config.batch_size, partial=False)
    return (batch for (batch,) in islice(samples.repeat(), steps))
