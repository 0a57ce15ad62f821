# SPDX-License-Identifier: Apache-2.0
"""Run one function in several processes of one torch.distributed group on this node, with a deadline.

NCCL waits for a dead rank for as long as its own limit allows; so the caller here waits for results, never for
processes, and ends them all at the deadline or with the first failure.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
import traceback
from datetime import timedelta
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Callable

import torch
import torch.distributed as dist

# All ranks are on one node: its loopback always works, while its name may not resolve in a sandbox.
ON_ONE_NODE = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
GOODBYE_SECONDS = 10


def prepare_ranks(module: str) -> None:
    """Begin to import the module of the ranks' work, and torch with it, beside what the caller does next.

    That takes a process some two seconds of a core. It is done once, in a process of its own that has never touched a
    GPU, as CUDA demands of one that is forked; the ranks are forked from it.
    """
    _context(module)


class RankError(RuntimeError):
    """A rank failed, died or was too slow; the text says which and why."""


def run_ranks(work: Callable[..., Any], count: int, device_type: str, seconds: float, *arguments: Any) -> list[Any]:
    """What `work(rank, device, *arguments)` returned in each of `count` ranks, NCCL on cuda and gloo on cpu.

    `work` must be importable and its result something that pickle takes. Raises RankError.
    """
    context = _context(work.__module__)
    with tempfile.TemporaryDirectory(prefix="gan-trainer-") as folder:
        pipes: list[Connection] = []
        processes: list[BaseProcess] = []
        try:
            for rank in range(count):
                receiver, sender = context.Pipe(duplex=False)
                call = (work, rank, count, device_type, folder, seconds, sender, arguments)
                process = context.Process(target=_run_rank, args=call, daemon=True)
                try:
                    process.start()
                # What forks the ranks may have been killed for want of memory.
                except (OSError, EOFError) as error:
                    raise RankError(f"rank {rank} was not started: {str(error) or type(error).__name__}") from error
                # Only the rank may hold this end: its death then closes the pipe.
                sender.close()
                pipes.append(receiver)
                processes.append(process)
            results = _collect(pipes, seconds)
            for started in processes:
                started.join(GOODBYE_SECONDS)
        finally:
            for started in processes:
                started.kill()
    return results


def _context(module: str) -> ForkServerContext | SpawnContext:
    multiprocessing.set_forkserver_preload([module])
    try:
        forkserver.ensure_running()
    # It listens on a socket in TMPDIR, whose path may be too long for one. Then each rank imports torch by itself.
    except OSError:
        return multiprocessing.get_context("spawn")
    return multiprocessing.get_context("forkserver")


def _collect(pipes: list[Connection], seconds: float) -> list[Any]:
    deadline = time.monotonic() + seconds
    results: dict[int, Any] = {}
    while len(results) < len(pipes):
        waiting = [pipe for rank, pipe in enumerate(pipes) if rank not in results]
        ready = wait(waiting, max(0.0, deadline - time.monotonic()))
        if not ready:
            late = ", ".join(str(rank) for rank in range(len(pipes)) if rank not in results)
            raise RankError(f"rank {late} did not finish within {seconds:g} s")
        for rank, pipe in enumerate(pipes):
            if pipe not in ready:
                continue
            try:
                fine, answer = pipe.recv()
            except EOFError as error:
                raise RankError(f"rank {rank} died without a message") from error
            if not fine:
                raise RankError(f"rank {rank}: {answer}")
            results[rank] = answer
    return [results[rank] for rank in range(len(pipes))]


def _run_rank(
    work: Callable[..., Any],
    rank: int,
    count: int,
    device_type: str,
    folder: str,
    seconds: float,
    sender: Connection,
    arguments: tuple,
) -> None:
    """The life of one rank; its answer is (True, result) or (False, what went wrong)."""
    try:
        for name, value in ON_ONE_NODE.items():
            os.environ.setdefault(name, value)
        device = torch.device(f"cuda:{rank}" if device_type == "cuda" else "cpu")
        if device_type == "cuda":
            torch.cuda.set_device(device)
        else:
            # The work of ranks on a CPU is small, and they share the CPU.
            torch.set_num_threads(1)
        dist.init_process_group(
            "nccl" if device_type == "cuda" else "gloo",
            init_method=(Path(folder) / "store").as_uri(),
            rank=rank,
            world_size=count,
            timeout=timedelta(seconds=seconds),
        )
        if device_type != "cuda":
            # Gloo connects all pairs when the group is made. A rank that ends meanwhile breaks the group of the others.
            dist.barrier()
        answer = (True, work(rank, device, *arguments))
        dist.destroy_process_group()
    except Exception as error:
        traceback.print_exc()
        answer = (False, f"{type(error).__name__}: {' '.join(str(error).split())[:500]}")
    sender.send(answer)
    sender.close()
