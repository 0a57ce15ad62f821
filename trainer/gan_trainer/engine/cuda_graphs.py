# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs: a step's hundreds of kernels recorded once and launched as one.

Small networks leave a GPU waiting for the CPU that launches them. A recorded step has fixed shapes and memory: the
batch is copied into it, learning rates lie on the GPU, and the optimizers decide there whether to skip (stability.py).
"""

from __future__ import annotations

from typing import Callable

import torch
from torch import Tensor

from ..parallel.distributed import Ranks

Update = Callable[[Tensor, Tensor, bool], None]
# Ordinary steps first: cuDNN searches its kernels, Adam makes its moments, torch.compile compiles.
WARM_UP = 3


class GraphedUpdate:
    """Calls `update(real, noise, penalise)` a few times on a side stream, then records it and replays it.

    A step with penalties and one without are two graphs; they share their memory.
    """

    def __init__(self, update: Update) -> None:
        self.update = update
        self.calls: dict[bool, int] = {False: 0, True: 0}
        self.graphs: dict[bool, torch.cuda.CUDAGraph] = {}
        self.inputs: tuple[Tensor, Tensor] | None = None

    @classmethod
    def wrap(cls, update: Update, ranks: Ranks) -> tuple[Update, str]:
        """The update to use, and a line that says which it is."""
        if ranks.world > 1:
            return update, "CUDA graphs are off: gradients are sent between GPUs in every step"
        if torch.__version__ < "2.1":
            return update, "CUDA graphs are off: torch 2.0 has no learning rate on the GPU"
        return cls(update), f"CUDA graphs: steps are replayed after {WARM_UP} ordinary ones"

    def __call__(self, real: Tensor, noise: Tensor, penalise: bool) -> None:
        if self.inputs is None:
            self.inputs = real.detach().clone(), noise.clone()
        for kept, new in zip(self.inputs, (real, noise)):
            kept.copy_(new)
        self.calls[penalise] += 1
        if self.calls[penalise] <= WARM_UP:
            self.warm_up(penalise)
        elif penalise not in self.graphs:
            self.graphs[penalise] = self.record(penalise)
        if penalise in self.graphs:
            self.graphs[penalise].replay()

    def warm_up(self, penalise: bool) -> None:
        """An ordinary step. It runs where it will be recorded, for autograd remembers its stream."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.update(*self.inputs, penalise)
        torch.cuda.current_stream().wait_stream(stream)

    def record(self, penalise: bool) -> torch.cuda.CUDAGraph:
        """Recording computes nothing: the step itself is the first replay."""
        graph = torch.cuda.CUDAGraph()
        pool = next(iter(self.graphs.values())).pool() if self.graphs else None
        # The prefetcher's thread goes on using the GPU meanwhile.
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            self.update(*self.inputs, penalise)
        return graph
