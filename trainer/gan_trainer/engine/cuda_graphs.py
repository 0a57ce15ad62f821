# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs: a step's hundreds of kernels recorded once and launched as one.

Small networks leave a GPU waiting for the CPU that launches them. A recorded step has fixed shapes and memory: the
batch is copied into it, learning rates are on the GPU, and the optimizers decide there whether to skip (stability.py).
"""

from __future__ import annotations

from typing import Callable

import torch

from ..parallel.distributed import Ranks
from ..tasks import Batch

Update = Callable[[Batch, bool], None]
# Normal steps first: cuDNN searches its kernels, Adam creates its moments, torch.compile compiles.
WARM_UP = 3


class GraphedUpdate:
    """Calls `update(batch, rare)` a few times on a side stream, then records it and replays it.

    A rare step and a usual one are two graphs; they share their memory. `kinds` says which of them this run
    has: all are recorded before the first replay, for an ordinary step beside a graph needs its memory a second time,
    and auto_batch may have filled the card with one.
    """

    def __init__(self, update: Update, kinds: set[bool]) -> None:
        self.update, self.kinds = update, kinds
        self.calls: dict[bool, int] = {kind: 0 for kind in kinds}
        self.graphs: dict[bool, torch.cuda.CUDAGraph] = {}
        self.inputs: Batch = {}

    @classmethod
    def wrap(cls, update: Update, ranks: Ranks, kinds: set[bool]) -> tuple[Update, str]:
        """The update to use, and a line that says which it is."""
        if ranks.world > 1:
            return update, "CUDA graphs are off: gradients are sent between GPUs in every step"
        if torch.__version__ < "2.1":
            return update, "CUDA graphs are off: torch 2.0 has no learning rate on the GPU"
        return cls(
            update, kinds
        ), f"CUDA graphs: steps are replayed after {WARM_UP} ordinary ones or more, some of each kind"

    def __call__(self, batch: Batch, rare: bool) -> None:
        if not self.inputs:
            self.inputs = {name: values.detach().clone() for name, values in batch.items()}
        for name, values in batch.items():
            self.inputs[name].copy_(values)
        if not self.graphs and self.is_warm():
            for kind in sorted(self.kinds):
                self.graphs[kind] = self.record(kind)
        if self.graphs:
            self.graphs[rare].replay()
        else:
            self.calls[rare] += 1
            self.warm_up(rare)

    def is_warm(self) -> bool:
        """Whether everything is done that a recording must not do: kernels chosen, moments created, code compiled."""
        return sum(self.calls.values()) >= WARM_UP and min(self.calls.values()) > 0

    def warm_up(self, rare: bool) -> None:
        """A normal step. It runs on the stream on which it will be recorded, since autograd remembers its stream."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.update(self.inputs, rare)
        torch.cuda.current_stream().wait_stream(stream)

    def record(self, rare: bool) -> torch.cuda.CUDAGraph:
        """Recording computes nothing: the step itself is the first replay."""
        graph = torch.cuda.CUDAGraph()
        pool = next(iter(self.graphs.values())).pool() if self.graphs else None
        # The prefetcher's thread continues to use the GPU meanwhile.
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            self.update(self.inputs, rare)
        return graph
