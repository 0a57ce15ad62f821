# SPDX-License-Identifier: Apache-2.0
"""What makes a trainer's steps faster without changing them, each after its check."""

from __future__ import annotations

import torch

from .compiled import compile_networks
from .cuda_graphs import WARM_UP, WARM_UP_OF_RANKS, GraphedUpdate, why_not
from .loop import Trainer


def speed_up(trainer: Trainer) -> list[str]:
    """torch.compile and CUDA graphs where configured; one line for each says which path runs."""
    trainer.ran_without.clear()
    lines = compile_networks(trainer)
    if trainer.config.cuda_graphs and trainer.on_gpu:
        nccl = torch.cuda.nccl.version() if trainer.ranks.world > 1 else None
        reason = why_not(torch.__version__, trainer.ranks.world, nccl)
        warm_up = WARM_UP if trainer.ranks.world == 1 else WARM_UP_OF_RANKS
        if reason:
            trainer.ran_without["CUDA graphs"] = f"CUDA graphs are off: {reason}"
        else:
            trainer.update = GraphedUpdate(trainer.update_networks, trainer.task.kinds(), trainer.stream, warm_up)
        lines.append(f"CUDA graphs are off: {reason}" if reason else f"CUDA graphs: {how(warm_up)}")
    return lines


def how(warm_up: int) -> str:
    return f"steps are replayed after {warm_up} ordinary ones or more, some of each kind"


def slow_down(trainer: Trainer) -> None:
    """Release the graphs; steps are ordinary ones from here. To be called before the processes part (`join`)."""
    if isinstance(trainer.update, GraphedUpdate):
        trainer.update.release()
        trainer.update = trainer.update_networks
