# SPDX-License-Identifier: Apache-2.0
"""Whether what a measured row is named after really ran: asked of what is there after the measurement.

A setting promises nothing. torch.compile falls back to eager mode, half precision to float32 and a recording to
ordinary steps, each for a good reason and without an error; a rate under their name would be that of another program.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable

import torch
from torch import Tensor, nn

from ..engine.cuda_graphs import GraphedUpdate
from ..engine.loop import Trainer
from ..errors import UserError
from ..precision import autocast

# How torch's profiler names a compiled part that runs, from 2.2 on; before, only what was compiled can be counted.
REGION = "Torch-Compiled Region"
OLDEST_WITH_REGIONS = (2, 2)
HALF = (torch.float16, torch.bfloat16)


class NotAsNamed(UserError):
    """A row's figure would be another program's; the text says why."""


def demand(trainer: Trainer, settings: Iterable[str], step: Callable[[], object]) -> None:
    """NotAsNamed where one of these settings had no effect on the steps that were measured; `step` does one more."""
    for name in settings:
        reason = CONDITIONS[name](trainer, step) if name in CONDITIONS else ""
        if reason:
            raise NotAsNamed(f"not measured: {reason}")


def compiled(trainer: Trainer, step: Callable[[], object]) -> str:
    if trainer.ran_without.get("torch.compile"):
        return trainer.ran_without["torch.compile"]
    return "" if runs_compiled(step) else "no compiled code runs in a step"


def runs_compiled(work: Callable[[], object]) -> bool:
    """Whether compiled code runs in this call."""
    if tuple(map(int, torch.__version__.split(".")[:2])) < OLDEST_WITH_REGIONS:
        from torch._dynamo.utils import counters

        return counters["stats"]["unique_graphs"] > 0
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        work()
    return any(event.key.startswith(REGION) for event in profile.key_averages())


def recorded(trainer: Trainer, step: Callable[[], object]) -> str:
    if trainer.ran_without.get("CUDA graphs"):
        return trainer.ran_without["CUDA graphs"]
    replays = isinstance(trainer.update, GraphedUpdate) and set(trainer.update.graphs) == trainer.update.kinds
    return "" if replays else "no step was recorded"


def computed_in(trainer: Trainer, step: Callable[[], object]) -> str:
    """The format that was asked for, where `auto` asks for one that is faster than float32."""
    wanted, found = trainer.config.precision, trainer.precision
    if wanted == "fp32":
        return "TF32 is on" if tf32_on() else computes(trainer, torch.float32)
    if wanted == "tf32":
        return "" if tf32_on() else "TF32 is off"
    if found.dtype not in HALF:
        return f"{found.name}: {found.because}"
    return computes(trainer, found.dtype)


def tf32_on() -> bool:
    return bool(torch.backends.cudnn.allow_tf32 and torch.backends.cuda.matmul.allow_tf32)


def computes(trainer: Trainer, dtype: torch.dtype) -> str:
    """What a product under this trainer's autocast is of."""
    one = torch.ones(8, 8, device=trainer.device)
    with torch.no_grad(), autocast(trainer.precision, trainer.device.type):
        found = torch.mm(one, one).dtype
    return "" if found == dtype else f"products are of {found}, not of {dtype}"


def last_in_channels(trainer: Trainer, step: Callable[[], object]) -> str:
    weights = [layer.weight for layer in layers_of(trainer, nn.Conv2d)]
    # Where both orders are the same, such as in a 1 x 1 kernel, a weight says nothing.
    telling = [weight for weight in weights if not weight.is_contiguous() or weight.shape[2:] != (1, 1)]
    laid = all(weight.is_contiguous(memory_format=torch.channels_last) for weight in telling)
    return "" if trainer.layout == torch.channels_last and telling and laid else "the weights are not channels last"


def layers_of(trainer: Trainer, kind: type) -> list[Any]:
    return [layer for network in trainer.networks.values() for layer in network.modules() if isinstance(layer, kind)]


def fused(trainer: Trainer, step: Callable[[], object]) -> str:
    good = all(optimizer.defaults.get("fused") for optimizer in trainer.optimizers.values())
    return "" if good else "the optimizers are not fused"


def searches(trainer: Trainer, step: Callable[[], object]) -> str:
    return "" if torch.backends.cudnn.benchmark and cudnn_works(trainer.device) else "cuDNN does not search its kernels"


def cudnn_works(device: torch.device) -> bool:
    return device.type == "cuda" and torch.backends.cudnn.enabled and torch.backends.cudnn.is_available()


def pinned(batches: list[Tensor]) -> None:
    """NotAsNamed where the batches of a row on a GPU are in memory that the GPU cannot copy from by itself."""
    if not all(batch.is_pinned() for batch in batches):
        raise NotAsNamed("not measured: its batches are not in pinned memory")


CONDITIONS: dict[str, Callable[[Trainer, Callable[[], object]], str]] = {
    "precision": computed_in,
    "channels_last": last_in_channels,
    "cudnn_benchmark": searches,
    "fused_optimizer": fused,
    "compile": compiled,
    "cuda_graphs": recorded,
}
