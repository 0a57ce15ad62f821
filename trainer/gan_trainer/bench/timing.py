# SPDX-License-Identifier: Apache-2.0
"""Fair timing on a machine that also does other work: arms take turns, and the median of paired ratios counts.

A slow minute then affects every arm. If an arm, or the first one, varies by more than MAX_SPREAD from round to round,
their ratio would say more about the machine than about the arms, so there is none.
"""

from __future__ import annotations

import statistics
import time
from typing import Callable, NamedTuple

import torch

from ..errors import UserError

MAX_SPREAD = 0.15
MANY_ROUNDS = 8
# The clock, in s. On a CPU that others use, too, time.process_time with one thread is more accurate.
clock = time.perf_counter

Arm = Callable[[], float]


class Result(NamedTuple):
    """Of one arm: its rates (per s) in each round, their median, the median ratio to the first arm (None: noise)."""

    name: str
    rates: list[float]
    rate: float
    ratio: float | None


def take_turns(arms: dict[str, Arm], rounds: int, notes: dict[str, str] | None = None) -> list[Result]:
    """Run every arm once in each round, in alternating order; an arm returns its rate.

    notes  takes the reason of an arm that ends with a UserError, which then has no result; else the error goes on
    """
    rates: dict[str, list[float]] = {name: [] for name in arms}
    for number in range(rounds):
        for name in list(arms) if number % 2 == 0 else reversed(list(arms)):
            if name not in rates:
                continue
            try:
                rates[name].append(arms[name]())
            except UserError as error:
                if notes is None:
                    raise
                notes[name] = str(error)
                del rates[name]
    return summarise(rates, next(iter(arms)))


def summarise(rates: dict[str, list[float]], against: str = "") -> list[Result]:
    """Results in the order of the arms; the others are compared with the first arm, or with the one `against`."""
    first = rates.get(against or next(iter(rates), ""), [])
    results = []
    for name, own in rates.items():
        steady = bool(first) and max(spread(first), spread(own)) <= MAX_SPREAD
        ratio = statistics.median(rate / base for rate, base in zip(own, first)) if steady else None
        results.append(Result(name, own, statistics.median(own), ratio))
    return results


def spread(rates: list[float]) -> float:
    """(highest - lowest) / median; only of the middle half if there are enough rounds."""
    if len(rates) < MANY_ROUNDS:
        return (max(rates) - min(rates)) / statistics.median(rates)
    low, middle, high = statistics.quantiles(rates, n=4, method="inclusive")
    return (high - low) / middle


def synchronise(device: torch.device) -> None:
    """Wait until a GPU has finished its work; its calls return earlier."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def rate_of(work: Callable[[], object], count: int, device: torch.device, repeats: int, warm_up: int = 1) -> float:
    """Items per s of `work`, which handles `count` of them, over `repeats` calls after `warm_up` more."""
    for _ in range(warm_up):
        work()
    synchronise(device)
    start = clock()
    for _ in range(repeats):
        work()
    synchronise(device)
    return count * repeats / max(clock() - start, 1e-9)
