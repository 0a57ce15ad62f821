# SPDX-License-Identifier: Apache-2.0
"""SIGTERM (systemd) and SIGUSR1 (Slurm, before a job's end) as a wish to save and end."""

from __future__ import annotations

import signal
from typing import Any

import torch
from torch import distributed

from .distributed import ALONE, Ranks

STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


class StopSignal:
    """Notes a request to stop, so that the loop can save and end."""

    def __init__(self, ranks: Ranks = ALONE) -> None:
        self.asked, self.ranks = False, ranks
        self.vote: tuple[Any, torch.Tensor] | None = None
        for number in STOP_SIGNALS:
            signal.signal(number, self.note)

    def note(self, number: int, frame: object) -> None:
        self.asked = True

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
