# SPDX-License-Identifier: Apache-2.0
"""Automatic batch size: the largest one whose real training step stays within a part of the GPU's memory."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Callable

import torch
from torch import distributed

from ..config import Config
from ..errors import UserError
from ..parallel.distributed import ALONE, Ranks
from ..precision import Precision
from ..runs.samples import class_of_each, generate, grid_batch
from ..tasks import make_task
from .loop import Trainer

SMALLEST = 8


def largest_fitting(fits: Callable[[int], bool], most: int, rounding: str) -> int:
    """The largest size up to `most` that fits: a power of two, or with rounding "eight" any multiple of 8.

    Doubles until it no longer fits, then halves the gap. All sizes below one that fits must also fit. 0: none does.
    """
    good, bad = 0, SMALLEST
    while bad <= most and fits(bad):
        good, bad = bad, bad * 2
    if rounding == "power_of_two" or not good:
        return good
    bad = min(bad, most // SMALLEST * SMALLEST + SMALLEST)
    while bad - good > SMALLEST:
        middle = (good + bad) // 2 // SMALLEST * SMALLEST
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good


def peak_of_step(config: Config, device: torch.device, precision: Precision) -> int:
    """Bytes of the GPU in use, by any process, at the peak of two steps and a grid of samples; raises OutOfMemoryError.

    Two, because Adam creates its moments in the first. Reserved bytes count, since no other process can use them. The
    grid has its own measurement: CUDA graphs keep what a step needs, and it comes on top.
    """
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    trainer = Trainer(config, device, precision)
    size = (config.batch_size, 3, config.image_size, config.image_size)
    for _ in range(2):
        trainer.step(torch.randint(0, 256, size, dtype=torch.uint8), *class_of_each(config.batch_size, config.classes))
    torch.cuda.synchronize(device)
    free, total = torch.cuda.mem_get_info(device)
    others = total - free - torch.cuda.memory_reserved(device)
    step = torch.cuda.max_memory_reserved(device)
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved(device)
    torch.cuda.reset_peak_memory_stats(device)
    sampler, shape = trainer.task.sampler(trainer.average), trainer.task.noise_shape()
    generate(sampler, config.sample_count, shape, config.seed, grid_batch(config.image_size), config.classes)
    grid = torch.cuda.max_memory_reserved(device)
    return others + (step + grid - before if config.cuda_graphs else max(step, grid))


def gradient_bytes(config: Config) -> int:
    """Bytes of all networks' gradients, which DistributedDataParallel keeps in separate buckets."""
    with torch.device("meta"):
        networks = make_task(config).build().values()
    return sum(weight.numel() * weight.element_size() for network in networks for weight in network.parameters())


def open_channels(device: torch.device, ranks: Ranks) -> None:
    """One exchange between the GPUs: NCCL allocates its buffers with the first; they then count as others'."""
    if ranks.world > 1 and device.type == "cuda":
        distributed.all_reduce(torch.zeros(1, device=device))
        torch.cuda.synchronize(device)


def find_batch_size(
    config: Config,
    device: torch.device,
    precision: Precision,
    memory: int,
    ranks: Ranks = ALONE,
    most: int = 65_536,
    measure: Callable[[Config, torch.device, Precision], int] = peak_of_step,
) -> int:
    """A global batch_size whose parts fill `memory_target` of `memory` bytes on each GPU, verified by a last real step.

    `measure` returns a step's peak in bytes, `most` limits the global batch. Raises UserError if 8 images do not fit.
    """
    # The step that must fit is one with every penalty.
    plain = replace(config, penalty_every=1)
    parts = config.accumulate * ranks.world
    open_channels(device, ranks)
    room = config.memory_target * memory - (gradient_bytes(config) if ranks.world > 1 else 0)

    def fits(images: int) -> bool:
        try:
            peak = measure(replace(plain, batch_size=images * config.accumulate), device, precision)
        except torch.cuda.OutOfMemoryError:
            return False
        return peak <= room

    found = largest_fitting(fits, most // parts, config.batch_rounding)
    # Fragments left by the search may be the reason for failing: try once more from an empty cache.
    while found and not fits(found):
        found = found // 2 if config.batch_rounding == "power_of_two" else found - SMALLEST
    # The smallest of all ranks.
    found = -int(ranks.largest(torch.tensor([-found]))[0])
    if not found:
        raise UserError(
            f"auto_batch: not even {SMALLEST} images fit {config.memory_target:.0%} of {memory / 2**30:.1f} GiB. Lower "
            "image_size or channels, or set activation_checkpointing=true"
        )
    return found * parts
