# SPDX-License-Identifier: Apache-2.0
"""What makes a trainer's steps faster without changing them, each after its check."""

from __future__ import annotations

from .compiled import compile_networks
from .cuda_graphs import GraphedUpdate
from .loop import Trainer


def speed_up(trainer: Trainer) -> list[str]:
    """torch.compile and CUDA graphs where configured; one line for each says which path runs."""
    lines = compile_networks(trainer)
    if trainer.config.cuda_graphs and trainer.on_gpu:
        trainer.update, note = GraphedUpdate.wrap(trainer.update_networks, trainer.ranks, trainer.task.kinds())
        lines.append(note)
    return lines
