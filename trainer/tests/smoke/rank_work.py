"""What ranks do in the tests: processes of their own import it by name."""

from __future__ import annotations

import os
import signal
import time

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
