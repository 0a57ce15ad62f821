# SPDX-License-Identifier: Apache-2.0
"""Data parallelism under torchrun or srun, on one node or many: NCCL between GPUs, gloo between CPUs.

The launcher starts one process for each GPU and says in environment variables which (launched.py); nothing here does.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Iterator, NamedTuple

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from ..errors import UsageError
from .launched import START, Place, find_place

# A dead rank shows up as a collective that never ends.
TIMEOUT = timedelta(minutes=10)
# Passes between two that DistributedDataParallel times; no training has as many.
NEVER = 2**31 - 1


class Ranks(NamedTuple):
    """This process among all: `rank` of `world`, and `local_rank` of `local_world` on this node."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    local_world: int = 1
    # A gloo group beside NCCL, for agreements between the CPUs that do not touch the GPUs' queues.
    hosts: Any = None
    # The number of this process's GPU among those that it sees.
    gpu: int = 0

    @property
    def first(self) -> bool:
        """Whether this process writes the run folder and prints."""
        return self.rank == 0

    def share(self, batch_size: int) -> int:
        """Images of a global batch that this rank takes; ValueError if the ranks cannot share it evenly."""
        if batch_size % self.world:
            raise ValueError(f"batch_size: {batch_size} cannot be shared by {self.world} processes; use a multiple")
        return batch_size // self.world

    def part(self, batch: Any) -> Any:
        """This rank's slice of data in the order of the global batch."""
        size = self.share(len(batch))
        return batch[self.rank * size : (self.rank + 1) * size]

    def agree(self, value: Any) -> Any:
        """Rank 0's value on every rank."""
        if self.world == 1:
            return value
        box = [value]
        distributed.broadcast_object_list(box, src=0, group=self.hosts)
        return box[0]

    def largest(self, values: Tensor) -> Tensor:
        """The element-wise maximum over all ranks of a tensor on the CPU."""
        if self.world > 1:
            distributed.all_reduce(values, distributed.ReduceOp.MAX, group=self.hosts)
        return values

    def mean(self, values: Tensor) -> Tensor:
        """The element-wise mean over all ranks of a tensor on the CPU."""
        if self.world > 1:
            distributed.all_reduce(values, group=self.hosts)
            values /= self.world
        return values

    def mean_on_device(self, value: Tensor) -> Tensor:
        """The mean over all ranks of a tensor on the device; nothing waits for it on a GPU."""
        if self.world > 1:
            distributed.all_reduce(value)
            value /= self.world
        return value

    def wait(self) -> None:
        if self.world > 1:
            distributed.barrier(group=self.hosts)


ALONE = Ranks()


@contextmanager
def join(on_gpu: bool, graphs: bool = False) -> Iterator[Ranks]:
    """Join the processes that torchrun or srun started, and leave them at the end; a single process without these.

    `graphs`: CUDA graphs will hold NCCL's exchanges. Release the graphs before leaving (cuda_graphs.py): NCCL waits for
    them to be destroyed. Raises UsageError where the launcher says too little.
    """
    place = find_place(os.environ)
    if place is None:
        yield ALONE
        return
    gpu = gpu_of(place, torch.cuda.device_count()) if on_gpu else 0
    if on_gpu:
        torch.cuda.set_device(gpu)
    if on_gpu and graphs:
        # Read when the group is made. PyTorch asks for it where a backward pass is recorded (notes/cuda.html, "Usage
        # with DistributedDataParallel"). A lost rank still shows in the vote of every step, which goes over gloo.
        os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"
    where: dict[str, Any] = {"init_method": place.meet, "rank": place.rank, "world_size": place.world}
    try:
        distributed.init_process_group("nccl" if on_gpu else "gloo", timeout=TIMEOUT, **(where if place.meet else {}))
    except ValueError as error:
        # MASTER_ADDR or MASTER_PORT is missing, or no number.
        raise UsageError(f"the processes cannot meet: {' '.join(str(error).split())}; {START}") from error
    try:
        hosts = distributed.new_group(backend="gloo", timeout=TIMEOUT) if on_gpu else None
        ranks = Ranks(place.rank, place.world, place.local_rank, place.local_world, hosts, gpu)
        # Gloo connects all pairs when the group is made. A rank that ends meanwhile breaks the group of the others.
        ranks.wait()
        yield ranks
    finally:
        distributed.destroy_process_group()


def gpu_of(place: Place, seen: int) -> int:
    """Which of the GPUs that it sees is this process's: its own where it sees all, the only one where the launcher
    shows each process one (srun --gpus-per-task). Raises UsageError."""
    if seen == 1:
        return 0
    # None at all is CUDA's own error.
    if not seen or place.local_rank < seen:
        return place.local_rank
    raise UsageError(
        f"{place.local_world} processes on this host, and this one, number {place.local_rank}, sees {seen} GPUs; start "
        "one process for each GPU"
    )


def data_parallel(network: nn.Module, ranks: Ranks, stream: Any = None) -> nn.Module:
    """DistributedDataParallel: the ranks' gradients are averaged while the backward pass still runs.

    `stream`: the one on which steps will be recorded as CUDA graphs, or None where they will not be.
    """
    if ranks.world == 1:
        return network
    on_gpu = next(network.parameters()).is_cuda
    # Autograd sums gradients on the stream on which the parallel network was made, for as long as it lives.
    with aside(stream):
        made = DistributedDataParallel(
            network,
            device_ids=[ranks.gpu] if on_gpu else None,
            # Each rank's batch norm has the same weights; its statistics come from sync_batchnorm or stay its own.
            broadcast_buffers=False,
            # Gradients live in the communication buckets instead of being copied there.
            gradient_as_bucket_view=True,
        )
    if stream is not None:
        # After its first ten passes it times every hundredth one, and waits for the device to do so: a recording that
        # met such a pass would fail.
        made._set_ddp_runtime_logging_sample_rate(NEVER)
    return made


@contextmanager
def aside(stream: Any) -> Iterator[None]:
    """On the CUDA stream `stream`, after what the current one has to do and before what it gets next; None: in place"""
    if stream is None:
        yield
        return
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream().wait_stream(stream)


@contextmanager
def gradients_stay_local(network: nn.Module, local: bool) -> Iterator[None]:
    """`no_sync` while gradients accumulate: only the last part of a batch sends them."""
    if local and isinstance(network, DistributedDataParallel):
        with network.no_sync():
            yield
    else:
        yield
