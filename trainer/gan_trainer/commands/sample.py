# SPDX-License-Identifier: Apache-2.0
"""train-gan sample: a grid of images from the averaged generator of a checkpoint, as PNG."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from .options import add_config_arguments, read_config

if TYPE_CHECKING:
    from torch import Tensor

MAX_SEEDS = 4096


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_arguments(parser)
    parser.add_argument("--checkpoint", metavar="FILE", help="default: the newest in run_dir that can be read")
    parser.add_argument("--seeds", default="0-63", help="one image for each: 3,5,8 or 0-63 (default: %(default)s)")
    parser.add_argument(
        "--truncation", type=float, help="cut off the noise at this many standard deviations; default: no limit"
    )
    parser.add_argument("--classes", help="of the images in turn, such as 3 or 0,2; default: all, repeated")
    parser.add_argument("--output", metavar="FILE", help="default: samples-STEP.png in run_dir")


def run(options: argparse.Namespace) -> int:
    config = read_config(options)
    seeds = read_seeds(options.seeds)
    if options.truncation is not None and not 0.0 < options.truncation <= 10.0:
        raise UsageError(f"--truncation {options.truncation}: expected more than 0 and at most 10 standard deviations")

    from ..engine.train import choose_device
    from ..inference.trained import images_of, load_trained, make_noise
    from ..runs.samples import make_grid, save_png
    from ..safe_files import replacing

    trained = load_trained(config.run_dir, options.checkpoint)
    noise = make_noise(seeds, trained.noise_shape, options.truncation)
    labels = read_classes(options.classes, len(seeds), trained.config.classes)
    images = images_of(trained.generator.to(choose_device(config.device)), noise, labels=labels)
    file = Path(options.output or Path(config.run_dir) / f"samples-{trained.step:010d}.png")
    try:
        with replacing(file) as out:
            kinds = len(options.classes.split(",")) if options.classes else trained.config.classes
            save_png(make_grid(images, kinds), out)
    except OSError as error:
        raise UsageError(f"--output {file}: cannot be written: {error.strerror or error}") from error
    print(f"train-gan: {len(seeds)} images of step {trained.step} in {file}")
    return 0


def read_classes(text: str | None, count: int, classes: int) -> Tensor | None:
    """The class of each of `count` images, int64; None for a training without classes. Raises UsageError."""
    import torch

    if text is None or not classes:
        if text is not None:
            raise UsageError(f"--classes {text}: this training run has none")
        return torch.arange(count) % classes if classes else None
    wanted = text.split(",")
    if not all(part.strip().isdecimal() and int(part) < classes for part in wanted):
        raise UsageError(f"--classes {text!r}: expected numbers from 0 to {classes - 1}, such as 0,2")
    return torch.tensor([int(wanted[index % len(wanted)]) for index in range(count)])


def read_seeds(text: str) -> list[int]:
    """`3,5,8-10` as [3, 5, 8, 9, 10]. Raises UsageError."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UsageError(f"--seeds {text!r}: expected whole numbers and ranges such as 3,5,8 or 0-63")
        span = range(int(first), int(last if dash else first) + 1)
        if not span or span[-1] >= 2**63 or len(seeds) + len(span) > MAX_SEEDS:
            raise UsageError(f"--seeds {text!r}: expected 1 to {MAX_SEEDS} seeds below 2**63, ranges from low to high")
        seeds += span
    return seeds
