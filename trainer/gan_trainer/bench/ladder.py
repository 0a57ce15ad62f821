# SPDX-License-Identifier: Apache-2.0
"""From an obvious first loop to everything switched on, one optimisation at a time."""

from __future__ import annotations

import gc
import statistics
from dataclasses import replace
from typing import Any, Callable, NamedTuple

import torch

from ..config import Config
from .newcomer import NewcomersLoop
from .timing import summarise
from .training import Measured, make_batches, make_trainer, measure_loop

# Everything off that has a switch. Each rung below turns one on and keeps those before it.
PLAIN = {
    "precision": "fp32",
    "channels_last": False,
    "cudnn_benchmark": False,
    "fused_optimizer": False,
    "compile": "off",
    "cuda_graphs": False,
    "activation_checkpointing": False,
    "accumulate": 1,
}


class Rung(NamedTuple):
    """`settings` are what is new; `loop` names the newcomer's loop and its arguments in place of the trainer."""

    name: str
    settings: dict[str, Any]
    needs_gpu: bool = True
    loop: dict[str, bool] | None = None


RUNGS = (
    Rung("plain fp32 loop", {}, False, {"read_losses": True, "float_on_host": True}),
    Rung("+ no waiting for losses", {}, False, {"read_losses": False, "float_on_host": True}),
    Rung("+ uint8 to the device", {}, False, {"read_losses": False, "float_on_host": False}),
    Rung("+ the trainer's step, which watches every loss", {}, False),
    Rung("+ cudnn.benchmark", {"cudnn_benchmark": True}),
    Rung("+ TF32", {"precision": "tf32"}),
    Rung("+ mixed precision", {"precision": "auto"}),
    Rung("+ channels_last", {"channels_last": True}),
    Rung("+ fused Adam", {"fused_optimizer": True}),
    Rung("+ torch.compile", {"compile": "auto"}),
    Rung("+ CUDA graphs", {"cuda_graphs": True}),
)


def measure_ladder(
    config: Config, device: torch.device, steps: int, rounds: int, say: Callable[[str], None] = lambda line: None
) -> list[dict[str, Any]]:
    """Rows `{name, images_per_s, ratio, peak_memory_mib}`, ratio to the first rung.

    A rung that needs a GPU has None everywhere on a CPU. `ratio` is None if the first rung differed too much from
    itself to compare with. Of another task than gan the first rung is the trainer's own step.
    """
    on_gpu = device.type == "cuda"
    settings: dict[str, Any] = dict(PLAIN)
    plans: dict[str, tuple[Rung, Config]] = {}
    for rung in RUNGS:
        settings.update(rung.settings)
        # The obvious first loop is that of a GAN.
        known = rung.loop is None or config.task == "gan"
        if known and (on_gpu or not rung.needs_gpu) and possible(settings, device):
            plans[rung.name] = (rung, replace(config, **settings))
    rates: dict[str, list[float]] = {name: [] for name in plans}
    peaks: dict[str, int | None] = {}
    for number in range(rounds):
        for name in list(plans) if number % 2 == 0 else reversed(list(plans)):
            say(f"ladder, round {number + 1} of {rounds}: {name}")
            found = measure_rung(*plans[name], device, steps)
            rates[name].append(found.images_per_s)
            peaks[name] = found.peak_memory_mib
    results = {result.name: result for result in summarise(rates)}
    return [row(rung.name, results.get(rung.name), peaks.get(rung.name)) for rung in RUNGS]


def possible(settings: dict[str, Any], device: torch.device) -> bool:
    """TF32 needs compute capability 8.0."""
    if settings["precision"] == "tf32" and device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return True


def measure_rung(rung: Rung, config: Config, device: torch.device, steps: int) -> Measured:
    # The newcomer's memory is pageable.
    batches = make_batches(config, config.batch_size, pinned=device.type == "cuda" and rung.loop is None)
    loop = NewcomersLoop(config, device, **rung.loop) if rung.loop else make_trainer(config, device)
    found = measure_loop(loop, loop.step, batches, steps, device)
    del loop
    # Recorded graphs hold their memory until the trainer is gone.
    gc.collect()
    return found


def row(name: str, result: Any, peak: int | None) -> dict[str, Any]:
    if result is None:
        return {"name": name, "images_per_s": None, "ratio": None, "peak_memory_mib": None}
    ratio = None if result.ratio is None else round(result.ratio, 3)
    return {
        "name": name,
        "images_per_s": round(statistics.median(result.rates), 1),
        "ratio": ratio,
        "peak_memory_mib": peak,
    }
