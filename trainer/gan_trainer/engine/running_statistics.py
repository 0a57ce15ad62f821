# SPDX-License-Identifier: Apache-2.0
"""Batch norm's running statistics, protected from a step whose numbers went wrong.

Training itself never reads them, so the losses do not show that one infinite activation has made them permanently
infinite. The averaged generator has statistics of its own (averaging.py); whoever uses a network of a checkpoint as it
is draws or judges with these.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class RunningStatistics:
    """The statistics of one network, now and after its last good step. All work is in place on the device."""

    def __init__(self, network: nn.Module) -> None:
        self.live = [buffer for buffer in network.buffers() if buffer.is_floating_point()]
        self.good = [buffer.clone() for buffer in self.live]

    @torch.no_grad()
    def settle(self, step_is_good: Tensor) -> None:
        """Keep what a good step has learnt, or restore the old; one that left infinite statistics is never good."""
        if not self.live:
            return
        finite = torch.isfinite(torch.stack(torch._foreach_norm(self.live)).norm())
        good = finite.logical_and(step_is_good)
        for live, kept in zip(self.live, self.good):
            torch.where(good, live, kept, out=kept)
            live.copy_(kept)

    @torch.no_grad()
    def remember(self) -> None:
        """The network was loaded: its present statistics are good."""
        for live, kept in zip(self.live, self.good):
            kept.copy_(live)


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
