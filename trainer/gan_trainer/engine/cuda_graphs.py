# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs: a step's hundreds of kernels recorded once and launched as one.

Small networks leave a GPU waiting for the CPU that launches them. A recorded step has fixed shapes and memory: the
batch is copied into it, learning rates are on the GPU, and the optimizers decide there whether to skip (stability.py).

On several GPUs a recording holds NCCL's exchanges, too. What that needs is from PyTorch's notes/cuda.html ("Usage with
DistributedDataParallel") and NCCL's "Using NCCL with CUDA Graphs": NCCL 2.9.6; 11 ordinary steps, of which the first
ten are timed by DistributedDataParallel; one stream for making it, for those steps and for the recording; the same
steps recorded on every rank; no graph left when the communicator goes. This was built from these documents and tested
by the order of its calls and over gloo: it has not met several GPUs.
"""

from __future__ import annotations

from typing import Any, Callable

import torch

from ..errors import UserError
from ..parallel.distributed import aside
from ..tasks import Batch
from .stability import TrainingError

Update = Callable[[Batch, bool], None]
# Normal steps first: cuDNN searches its kernels, Adam creates its moments, torch.compile compiles.
WARM_UP = 3
WARM_UP_OF_RANKS = 11
OLDEST_NCCL = (2, 9, 6)


def why_not(torch_version: Any, world: int, nccl: tuple[int, ...] | None) -> str:
    """Why `world` ranks cannot have graphs with this torch (as torch.__version__) and NCCL, or ''."""
    if torch_version < "2.1":
        return "torch 2.0 has no learning rate on the GPU"
    if world == 1:
        return ""
    if torch_version < "2.2":
        return f"torch {torch_version} looks at NCCL's events while a step is recorded; 2.2 waits for them first"
    if nccl is None or nccl < OLDEST_NCCL:
        found = ".".join(map(str, nccl)) if nccl else "unknown"
        return f"NCCL's version is {found}, and it can be recorded from {'.'.join(map(str, OLDEST_NCCL))} on"
    return ""


def first_cause(error: BaseException) -> BaseException:
    """What went wrong first: the end of a recording that has failed is an error of its own."""
    while error.__context__:
        error = error.__context__
    return error


class GraphedUpdate:
    """Calls `update(batch, rare)` at least `warm_up` times on `stream`, then records it there and replays it.

    A rare step and a usual one are two graphs; they share their memory. `kinds` says which of them this run
    has: all are recorded before the first replay, for an ordinary step beside a graph needs its memory a second time,
    and auto_batch may have filled the card with one. Which step is recorded follows from the calls alone, so all ranks
    record the same ones.
    """

    def __init__(self, update: Update, kinds: set[bool], stream: Any, warm_up: int = WARM_UP) -> None:
        self.update, self.kinds, self.stream, self.least = update, kinds, stream, warm_up
        self.calls: dict[bool, int] = {kind: 0 for kind in kinds}
        self.graphs: dict[bool, torch.cuda.CUDAGraph] = {}
        self.inputs: Batch = {}

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
            # An ordinary step runs where it will be recorded: autograd remembers its stream, and the memory that a step
            # leaves behind on one stream serves no other.
            with aside(self.stream):
                self.update(self.inputs, rare)

    def is_warm(self) -> bool:
        """Whether everything is done that a recording must not do: kernels chosen, moments created, code compiled."""
        return sum(self.calls.values()) >= self.least and min(self.calls.values()) > 0

    def record(self, rare: bool) -> torch.cuda.CUDAGraph:
        """Recording computes nothing: the step itself is the first replay. TrainingError where it cannot be recorded"""
        graph = torch.cuda.CUDAGraph()
        pool = next(iter(self.graphs.values())).pool() if self.graphs else None
        try:
            # The prefetcher's thread continues to use the GPU meanwhile.
            with torch.cuda.graph(graph, pool=pool, stream=self.stream, capture_error_mode="thread_local"):
                self.update(self.inputs, rare)
        except RuntimeError as error:
            cause = first_cause(error)
            if isinstance(cause, (torch.cuda.OutOfMemoryError, UserError)):
                raise cause from None
            said = str(cause).strip().splitlines()[0][:200]
            raise TrainingError(
                f"cuda_graphs: this step cannot be recorded ({said}); set cuda_graphs: false, or leave out of the task "
                "what waits for the GPU, such as .item()"
            ) from error
        return graph

    def release(self) -> None:
        """Let go of the graphs. NCCL's communicator waits at its end for every graph that holds one of its exchanges
        (pytorch issue 115388)."""
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()
