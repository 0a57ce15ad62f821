# SPDX-License-Identifier: Apache-2.0
"""Batch norm's running statistics, protected from a step whose numbers went wrong.

Training itself never reads them, so the losses do not show that one infinite activation has made them permanently
infinite. The averaged generator has statistics of its own (averaging.py); whoever uses a network of a checkpoint as it
is draws or judges with these.
"""

from __future__ import annotations

import math
import sys
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class RunningStatistics:
    """The statistics of some networks, now and after their last good step, which is one flat tensor: a step costs a few
    calls, however many layers there are. A GPU does all in place, and nothing waits for it."""

    def __init__(self, *networks: nn.Module) -> None:
        buffers = (buffer for network in networks for buffer in network.buffers())
        self.live = [buffer for buffer in buffers if buffer.is_floating_point()]
        self.good = self.joined()

    def joined(self) -> Tensor:
        if not self.live:
            return torch.empty(0)
        return torch.cat([buffer if buffer.ndim == 1 else buffer.reshape(-1) for buffer in self.live])

    @torch.no_grad()
    def settle(self, step_is_good: Tensor | bool) -> None:
        """Keep what a good step has learnt, or restore the old; one that left infinite statistics is never good."""
        if not self.live:
            return
        now = self.joined()
        if now.is_cuda:
            good = torch.isfinite(now.norm()).logical_and(cast(Tensor, step_is_good))
            torch.where(good, now, self.good, out=self.good)
            self.restore()
        elif step_is_good and math.isfinite(now.norm().item()):
            self.good = now
        else:
            self.restore()

    def restore(self) -> None:
        parts = self.good.split([buffer.numel() for buffer in self.live])
        shaped = [part.view(buffer.shape) for part, buffer in zip(parts, self.live)]
        # From torch 2.1 on.
        if hasattr(torch, "_foreach_copy_"):
            torch._foreach_copy_(self.live, shaped)
            return
        for live, kept in zip(self.live, shaped):
            live.copy_(kept)

    @torch.no_grad()
    def remember(self) -> None:
        """The networks were loaded: their present statistics are good. In place, as a recorded graph may hold it."""
        self.good.copy_(self.joined())


def repair(name: str, network: nn.Module) -> None:
    """Reset statistics that are not finite, and say so; a few dozen steps restore them."""
    layers = [module for module in network.modules() if isinstance(module, _BatchNorm)]
    ruined = [layer for layer in layers if not all(bool(torch.isfinite(b).all()) for b in layer.buffers())]
    for layer in ruined:
        layer.reset_running_stats()
    if ruined:
        print(
            f"train-gan: the checkpoint's {name} has running statistics that are not numbers in {len(ruined)} of "
            f"{len(layers)} batch-norm layers; they start again",
            file=sys.stderr,
            flush=True,
        )
