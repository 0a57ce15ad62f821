# SPDX-License-Identifier: Apache-2.0
"""SIGTERM (systemd), SIGUSR1 (Slurm, before a job's end), Ctrl-C and a lost terminal as a request to save and end."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager, suppress
from typing import Any, Iterator, Sequence

import torch
from torch import distributed

from .parallel.distributed import ALONE, Ranks

# Signals sent to a whole job; data workers leave them to the trainer.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP)
# How long the next batch may still take after a stop was asked for, in seconds. It is nearly always on its way, and a
# data worker that is left in the middle of handing it over complains with a traceback.
PATIENCE = 1.0
STDOUT, STDERR = 1, 2


def write_nowhere(streams: Sequence[int]) -> None:
    """For streams that nobody reads any more: what is still said must not keep a run from being saved."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        os.dup2(nowhere, stream)
    os.close(nowhere)


def reader_is_gone() -> None:
    """Ask for a stop where stdout is found closed: its ssh was lost, or its terminal or pager has ended."""
    write_nowhere([STDOUT])
    os.kill(os.getpid(), signal.SIGTERM)


class StopWaiting(BaseException):
    """The stop was requested while training waited for data; no `except Exception` on the way catches it."""


class StopSignal:
    """Notes a request to stop, so that the loop can save and end. A second Ctrl-C ends at once."""

    def __init__(self, ranks: Ranks = ALONE) -> None:
        self.asked, self.ranks = False, ranks
        self.interrupted = self.waiting = False
        self.vote: tuple[Any, torch.Tensor] | None = None
        # Of a terminal that is gone, nobody can tell any more that it was one.
        self.terminals = [stream for stream in (STDOUT, STDERR) if os.isatty(stream)]
        for number in STOP_SIGNALS:
            # Under nohup, a terminal may go.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self.note)
        signal.signal(signal.SIGALRM, self.give_up)

    def note(self, number: int, frame: object) -> None:
        if number == signal.SIGHUP:
            write_nowhere(self.terminals)
        if number == signal.SIGINT:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = True
            # Not print: the signal may have come in the middle of one, and Python does not enter a stream twice.
            with suppress(OSError):
                os.write(STDERR, b"train-gan: saving after this step; Ctrl-C again ends at once\n")
        self.asked = True
        # Data may never come. A single process decides by itself; several have to agree first.
        if self.waiting and self.ranks.world == 1:
            signal.setitimer(signal.ITIMER_REAL, PATIENCE)

    def give_up(self, number: int, frame: object) -> None:
        if self.waiting:
            self.waiting = False
            raise StopWaiting

    @contextmanager
    def may_interrupt(self) -> Iterator[None]:
        """Around the wait for data: between two steps, where everything can be saved."""
        self.waiting = True
        try:
            # A signal that came just before would otherwise wait for the data.
            if self.asked and self.ranks.world == 1:
                raise StopWaiting
            yield
        finally:
            self.waiting = False
            if self.asked:
                # An alarm that outlives Python's handlers would kill the process when it ends.
                signal.setitimer(signal.ITIMER_REAL, 0)

    def agreed(self) -> bool:
        """Whether to stop after this step, on all ranks the same; call it once in each step.

        A signal may reach one rank alone, and the others must not wait for it in vain. The vote is sent in one step and
        counted in the next, so that nobody waits for it.
        """
        if self.ranks.world == 1:
            return self.asked
        stop = False
        if self.vote:
            work, votes = self.vote
            work.wait()
            stop = bool(votes)
        votes = torch.tensor([int(self.asked)])
        self.vote = (distributed.all_reduce(votes, group=self.ranks.hosts, async_op=True), votes)
        return stop
