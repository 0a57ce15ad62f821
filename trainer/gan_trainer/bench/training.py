# SPDX-License-Identifier: Apache-2.0
"""Measures one training run: images/s after a warm-up, its share of the GPU's memory, and whether it stayed sound."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Callable, NamedTuple, Sequence

import torch
from torch import Tensor

from ..config import Config, make_config
from ..data.images import SyntheticImages
from ..engine.cuda_graphs import WARM_UP_OF_RANKS
from ..engine.loop import Trainer
from ..engine.memory import use_expandable_segments
from ..engine.reaction import react
from ..engine.speed_up import slow_down, speed_up
from ..engine.train import choose_device
from ..errors import UserError
from ..parallel.distributed import Ranks, join
from ..precision import choose_precision
from .conditions import NotAsNamed, demand, pinned
from .timing import synchronise

DISTINCT_BATCHES = 4
WARM_UP = 5
ALONE = Ranks()
# A rank that hangs must not hang the bench.
RANKS_TIMEOUT_S = 600


class Measured(NamedTuple):
    """Peaks of the card's memory: `memory_fraction` is what the allocator reserved, `allocated_fraction` what tensors
    took of it, `peak_memory_mib` the same in MiB; `None` on a CPU. losses: of the last step.
    """

    images_per_s: float
    memory_fraction: float | None
    peak_memory_mib: int | None
    stable: bool
    losses: tuple[float, ...]
    allocated_fraction: float | None = None


def make_batches(config: Config, count: int, pinned: bool) -> list[Tensor]:
    """A few uint8 batches (count, 3, S, S) in the host's memory: the data path is measured separately (bench data)."""
    images = SyntheticImages(config.image_size, DISTINCT_BATCHES * count, config.seed)
    made = torch.stack([images[index] for index in range(len(images))])
    return [part.pin_memory() if pinned else part for part in made.split(count)]


def make_trainer(config: Config, device: torch.device, ranks: Ranks = ALONE) -> Trainer:
    capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else None
    trainer = Trainer(config, device, choose_precision(config.precision, capability), ranks)
    speed_up(trainer)
    return trainer


def measure_loop(
    loop: Any, step: Callable[[Tensor], None], batches: list[Tensor], steps: int, device: torch.device
) -> Measured:
    """Time `steps` calls of `step`; `loop.losses` (L,) is what it ended with."""
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    # CUDA graphs are recorded after a few normal steps.
    for number in range(max(WARM_UP, min(steps, WARM_UP_OF_RANKS + 1))):
        step(batches[number % len(batches)])
    synchronise(device)
    start = time.perf_counter()
    for number in range(steps):
        step(batches[number % len(batches)])
    synchronise(device)
    rate = steps * len(batches[0]) / (time.perf_counter() - start)
    losses = tuple(loop.losses.tolist())
    sound = bool(torch.isfinite(loop.losses).all())
    fraction, allocated, peak = None, None, None
    if on_gpu:
        total = torch.cuda.get_device_properties(device).total_memory
        fraction = round(torch.cuda.max_memory_reserved(device) / total, 4)
        allocated = round(torch.cuda.max_memory_allocated(device) / total, 4)
        peak = torch.cuda.max_memory_allocated(device) >> 20
    return Measured(rate, fraction, peak, sound, losses, allocated)


def measure(
    config: Config, device: torch.device, steps: int, ranks: Ranks = ALONE, named: Sequence[str] = ()
) -> Measured:
    """Measure `config` on this process's device; `images_per_s` counts this rank's images.

    named  settings after which the row is named: NotAsNamed where one had no effect
    """
    batches = make_batches(config, ranks.share(config.batch_size), device.type == "cuda")
    if device.type == "cuda":
        pinned(batches)
    trainer = make_trainer(config, device, ranks)
    try:
        found = measure_loop(trainer, trainer.step, batches, steps, device)
        demand(trainer, named, lambda: trainer.step(batches[0]))
    finally:
        slow_down(trainer)
    try:
        react(trainer)
    except UserError:
        return found._replace(stable=False)
    return found


def measure_ranks(config: Config, count: int, steps: int, named: Sequence[str] = ()) -> Measured:
    """The same in `count` processes of torchrun, on as many GPUs or, as a trial, on the CPU. Raises UserError.

    `images_per_s` counts the images of all ranks; the memory is that of rank 0.
    """
    with tempfile.TemporaryDirectory(prefix="train-gan-bench-") as folder:
        job = Path(folder) / "job.json"
        job.write_text(
            json.dumps({"config": asdict(config), "steps": steps, "ranks": count, "named": list(named)}),
            encoding="utf-8",
        )
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
        command = [*torchrun, "-m", f"{__package__}.rank", str(job)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=RANKS_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise UserError(f"bench: {count} processes did not end within {RANKS_TIMEOUT_S} s") from error
        answer, fault = job.with_suffix(".answer"), job.with_suffix(".fault")
        if done.returncode or not answer.exists():
            said = fault.read_text(encoding="utf-8") if fault.exists() else done.stderr.strip()[-300:]
            raise UserError(f"bench: training in {count} processes failed: {said}")
        values = json.loads(answer.read_text(encoding="utf-8"))
    return Measured(**{**values, "losses": tuple(values["losses"])})


def run_rank(job: Path) -> None:
    """What each process of `measure_ranks` does; the first that fails leaves its reason beside the job."""
    try:
        _run_rank(job)
    except Exception as error:
        with contextlib.suppress(FileExistsError), job.with_suffix(".fault").open("x", encoding="utf-8") as file:
            file.write(f"{type(error).__name__}: {' '.join(str(error).split())[:500]}")
        raise


def _run_rank(job: Path) -> None:
    given = json.loads(job.read_text(encoding="utf-8"))
    config = make_config(given["config"])
    use_expandable_segments(os.environ)
    device = choose_device(config.device)
    with join(device.type == "cuda", config.cuda_graphs) as ranks:
        device = torch.device("cuda", ranks.gpu) if device.type == "cuda" else device
        backend = torch.distributed.get_backend() if ranks.world > 1 else "none"
        if ranks.world != given["ranks"] or (device.type == "cuda" and "nccl" not in backend):
            raise NotAsNamed(f"not measured: {ranks.world} of {given['ranks']} processes joined, over {backend}")
        found = measure(config, device, given["steps"], ranks, given["named"])
        # The slowest rank sets the rate: each step waits for all.
        slowest = ranks.largest(torch.tensor([1.0 / found.images_per_s], dtype=torch.float64))
        bad = ranks.largest(torch.tensor([not found.stable], dtype=torch.int64))
        if ranks.first:
            whole = found._replace(images_per_s=ranks.world / float(slowest), stable=not bool(bad))
            job.with_suffix(".answer").write_text(json.dumps(whole._asdict()), encoding="utf-8")
        # A process that ends early would break the connections of the others.
        ranks.wait()
