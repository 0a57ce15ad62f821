# SPDX-License-Identifier: Apache-2.0
"""The smoke test over all devices at once: DistributedDataParallel with one process for each.

Every rank trains on images of its own. Afterwards gradients and parameters must be the same in all of them to the last
bit; where a link damages data or a rank was left out, they are not.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..config import Config
from ..engine.loop import Trainer
from ..parallel.distributed import Ranks
from ..parallel.ranks import RankError, prepare_ranks, run_ranks
from ..precision import Precision
from .problem import Problem, from_error
from .run import Target, judge, train_steps

RANK_SECONDS = 300
CPU_RANKS = 2
# Half precision is slow on a CPU, where the ranks only test the code.
CPU_STEPS = 10


def train_rank(rank: int, device: torch.device, config: Config, precision: Precision, steps: int) -> dict[str, Any]:
    """One rank's training: the record of a mode, its loss scale and whether it is equal to rank 0."""
    ranks = dist.get_world_size()
    trainer = Trainer(config, device, precision, Ranks(rank, ranks, rank, ranks))
    record, finite, _ = train_steps(trainer, steps, seed=rank)
    parameters = [weight for network in trainer.networks.values() for weight in network.parameters()]
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    return {
        "record": record,
        "finite": finite,
        "scale": trainer.scaler.get_scale() if trainer.scaler.is_enabled() else None,
        "device": str(device),
        "parameters_equal": as_in_rank_0([parameter.detach() for parameter in parameters]),
        "gradients_equal": as_in_rank_0(gradients) and len(gradients) == len(parameters),
    }


def as_in_rank_0(tensors: list[Tensor]) -> bool:
    """Whether all of them are bit for bit the same as in rank 0."""
    mine = torch.cat([tensor.flatten() for tensor in tensors])
    theirs = mine.clone()
    dist.broadcast(theirs, 0)
    return torch.equal(mine, theirs)


def ranks_of(targets: list[Target]) -> int:
    """One for each GPU; two processes stand for them on a CPU."""
    return CPU_RANKS if targets[0].capability is None else len(targets)


def prepare_parallel(targets: list[Target]) -> None:
    """What `try_parallel` can begin while the targets are tried one after the other."""
    if ranks_of(targets) > 1:
        prepare_ranks(__name__)


def try_parallel(
    targets: list[Target], precision: Precision, steps: int
) -> tuple[dict[str, Any] | None, list[Problem]]:
    """Train over all targets at once; the record `parallel` (null for a single GPU) and its problems."""
    on_gpu, ranks = targets[0].capability is not None, ranks_of(targets)
    if ranks < 2:
        return None, []
    steps = steps if on_gpu else min(steps, CPU_STEPS)
    arguments = (targets[0].config, precision, steps)
    try:
        found = run_ranks(train_rank, ranks, "cuda" if on_gpu else "cpu", RANK_SECONDS, *arguments)
    except RankError as error:
        return None, [from_error(error, f"parallel: {error}")]
    record = {
        "ranks": ranks,
        "backend": "nccl" if on_gpu else "gloo",
        "devices": [rank["device"] for rank in found],
        "steps_applied": min(rank["record"]["steps_applied"] for rank in found),
        "steps_skipped": max(rank["record"]["steps_skipped"] for rank in found),
        "seconds": max(rank["record"]["seconds"] for rank in found),
        "parameters_equal": all(rank["parameters_equal"] for rank in found),
        "gradients_equal": all(rank["gradients_equal"] for rank in found),
        "parameters_changed": all(rank["record"]["parameters_changed"] for rank in found),
    }
    problems = []
    for number, rank in enumerate(found):
        problems += [f"rank {number}: {fault}" for fault in judge(rank["record"], rank["finite"], rank["scale"])]
    for what in ("parameters", "gradients"):
        if not record[f"{what}_equal"]:
            problems.append(f"the {what} differ between ranks")
    return record, [Problem(f"parallel: {problem}") for problem in problems]
