"""The rounds of gpu_bench: arms take turns, and what one of them does takes no figure from the others."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import arms
import report
import torch
from arms_by_hand import Kept
from gan_trainer.bench.timing import summarise
from gan_trainer.bench.training import make_batches
from gan_trainer.config import Config

# Different number formats and orders of sums, three steps from the same start.
AGREE, AGREE_STEPS = 0.1, 3
NO_TIME = "no time was left"


class Rounds:
    """The rounds of one network and batch; an arm that cannot be compared has a note in place of figures.

    until  on time.monotonic(): nothing begins that would end later, judged by how long it took before
    """

    def __init__(self, config: Config, device: torch.device, steps: arms.Steps, until: float) -> None:
        self.config, self.device, self.steps, self.until = config, device, steps, until
        self.batches = make_batches(config, config.batch_size, pinned=device.type == "cuda")
        self.arms: dict[str, Callable[..., arms.Outcome]] = {}
        self.times: dict[str, list[float]] = {}
        self.last: dict[str, arms.Outcome] = {}
        self.notes: dict[str, str] = {}

    def once(self, name: str) -> None:
        if name not in self.last and time.monotonic() > self.until:
            self.notes[name] = NO_TIME
            return
        on_gpu = self.device.type == "cuda"
        before = torch.cuda.memory_allocated(self.device) >> 20 if on_gpu else 0
        try:
            found = self.arms[name](self.config, self.device, self.batches, self.steps)
        # A compiler, a framework, the driver: each fails in ways of its own, and the other arms go on.
        except Exception as error:
            self.notes[name] = why_failed(error)
        else:
            # What is kept of other arms is not this one's.
            own = None if found.peak_memory_mib is None else found.peak_memory_mib - before
            kept = self.last.get(name)
            self.last[name] = found._replace(peak_memory_mib=kept.peak_memory_mib if kept else own)
            self.times.setdefault(name, []).append(found.step_s)
        free(self.device)

    def go(self, count: int, until: float, keep: Callable[[], None]) -> None:
        """At most so many rounds, in alternating order; after the first one none that would not end by `until`."""
        lasted = 0.0
        for number in range(count):
            begin = time.monotonic()
            if self.times and begin + lasted > until:
                break
            for name in list(self.arms) if number % 2 == 0 else reversed(list(self.arms)):
                if name not in self.notes:
                    self.once(name)
            lasted = time.monotonic() - begin
            self.notes.update(unlike({name: self.last[name] for name in self.arms if name not in self.notes}))
            keep()

    def join(self, late: dict[str, Kept]) -> None:
        """Make the arms that are compiled, each if it can be expected to take no longer than what is left."""
        lasted = 0.0
        for name, arm in late.items():
            begin = time.monotonic()
            if begin + lasted > self.until:
                self.notes[name] = NO_TIME
                continue
            self.arms[name] = arm
            self.once(name)
            # Its first call compiles.
            self.times.pop(name, None)
            lasted = time.monotonic() - begin

    def rows(self, share_of_rate: float) -> list[dict[str, Any]]:
        """`share_of_rate`: times images/s it is the share of the measured matrix rate."""
        counted = {name: own for name, own in self.times.items() if name not in self.notes}
        rates = {name: [self.config.batch_size / s for s in own] for name, own in counted.items()}
        first = next(iter(rates.values()), [])
        rows = []
        for name, own in rates.items():
            # Who joined late is compared in the rounds since then.
            row = report.rows(summarise({"": first[-len(own) :], name: own}))[-1]
            share = f"{share_of_rate * row['images_per_s']:.0%}"
            rows.append({**row, "peak_memory_mib": self.last[name].peak_memory_mib, "gemm": share})
        empty = {"images_per_s": None, "ratio": None, "spread": 0.0, "peak_memory_mib": None, "gemm": "-"}
        return rows + [{"name": name, "note": note, **empty} for name, note in self.notes.items()]


def unlike(outcomes: dict[str, arms.Outcome]) -> dict[str, str]:
    """A note for each arm that does not train as the first one does: its time says nothing beside the others."""
    apart = arms.disagreement(outcomes, AGREE_STEPS) if outcomes else {}
    return {name: f"trains otherwise: a loss differs by {off:.0%}" for name, off in apart.items() if not off <= AGREE}


def why_failed(error: Exception) -> str:
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return "does not fit"
    if isinstance(error, arms.NotAsNamed):
        return str(error)
    return f"failed: {type(error).__name__}: {' '.join(str(error).split())[:200]}"


def free(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
