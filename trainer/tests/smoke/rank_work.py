"""What ranks do in the tests: processes of their own import it by name."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Callable
from unittest import mock

import torch
import torch.distributed as dist


def sum_of_ranks(rank: int, device: torch.device, more: int) -> float:
    number = torch.tensor(float(rank + more), device=device)
    dist.all_reduce(number)
    return number.item()


def parent(rank: int, device: torch.device) -> int:
    return os.getppid()


def fail_in_rank_1(rank: int, device: torch.device) -> None:
    if rank == 1:
        raise ValueError("no\nmemory")
    time.sleep(3600)


def die_in_rank_1(rank: int, device: torch.device) -> None:
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(3600)


def wait_for_ever(rank: int, device: torch.device) -> None:
    time.sleep(3600)


class ConnectedLate:
    """Work whose last rank is the last to be connected, by a second: what unpickles it is the rank itself."""

    def __reduce__(self) -> tuple[Callable[[], ConnectedLate], tuple]:
        return _connect_the_last_rank_late, ()

    def __call__(self, rank: int, device: torch.device) -> tuple[float, float]:
        """When this rank was connected and when its work began, both in seconds of the node's monotonic clock."""
        return connected[0], time.monotonic()


connected: list[float] = []


def _connect_the_last_rank_late() -> ConnectedLate:
    connect = dist.init_process_group

    def connect_late(*arguments: Any, **options: Any) -> None:
        connect(*arguments, **options)
        if options["rank"] == options["world_size"] - 1:
            time.sleep(1)
        connected.append(time.monotonic())

    mock.patch.object(dist, "init_process_group", connect_late).start()
    return ConnectedLate()
