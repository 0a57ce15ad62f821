# SPDX-License-Identifier: Apache-2.0
"""From an obvious first loop to everything switched on, one optimisation at a time."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Callable, NamedTuple

import torch

from ..config import Config
from .newcomer import NewcomersLoop
from .rounds import Taken, in_turns
from .training import Measured, make_batches, measure, measure_loop

NEEDS_GPU, NEEDS_TF32 = "needs a GPU", "needs compute capability 8.0"

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
    """Rows `{name, images_per_s, ratio, peak_memory_mib, not_run}`, ratio to the first rung.

    A rung that this machine cannot run, or in which the optimisation of its name did not run, has None for all numbers
    and the reason in not_run. `ratio` is None if the first rung differed too much from itself to compare with. Of a
    task other than gan, the first rung is the trainer's own step.
    """
    on_gpu = device.type == "cuda"
    settings: dict[str, Any] = dict(PLAIN)
    arms: dict[str, Callable[[], Measured]] = {}
    reasons: dict[str, str] = {}
    for rung in RUNGS:
        settings.update(rung.settings)
        if rung.loop is not None and config.task != "gan":
            reasons[rung.name] = "the obvious first loop is that of a GAN"
        elif rung.needs_gpu and not on_gpu:
            reasons[rung.name] = NEEDS_GPU
        elif not possible(settings, device):
            reasons[rung.name] = NEEDS_TF32
        else:
            arms[rung.name] = partial(measure_rung, rung, replace(config, **settings), device, steps)
    taken = in_turns(arms, rounds, lambda line: say(f"ladder, {line}"))
    return [row(rung.name, taken.get(rung.name), reasons.get(rung.name, "")) for rung in RUNGS]


def possible(settings: dict[str, Any], device: torch.device) -> bool:
    """TF32 needs compute capability 8.0."""
    if settings["precision"] == "tf32" and device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return True


def measure_rung(rung: Rung, config: Config, device: torch.device, steps: int) -> Measured:
    """NotAsNamed where what the rung adds did not run."""
    if rung.loop is None:
        return measure(config, device, steps, named=tuple(rung.settings))
    # The newcomer's memory is pageable.
    batches = make_batches(config, config.batch_size, pinned=False)
    loop = NewcomersLoop(config, device, **rung.loop)
    return measure_loop(loop, loop.step, batches, steps, device)


def row(name: str, taken: Taken | None, reason: str) -> dict[str, Any]:
    numbers = dict.fromkeys(("images_per_s", "ratio", "peak_memory_mib"))
    if taken is None or taken.found is None or taken.images_per_s is None:
        return {"name": name, **numbers, "not_run": taken.note if taken else reason}
    return {
        "name": name,
        "images_per_s": round(taken.images_per_s, 1),
        "ratio": None if taken.ratio is None else round(taken.ratio, 3),
        "peak_memory_mib": taken.found.peak_memory_mib,
        "not_run": "",
    }
