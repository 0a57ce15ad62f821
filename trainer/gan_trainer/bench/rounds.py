# SPDX-License-Identifier: Apache-2.0
"""Whole training runs measured in turn: one that fails or does not fit leaves a note, and the others continue."""

from __future__ import annotations

import gc
from typing import Callable, NamedTuple

import torch

from ..errors import UserError
from .timing import spread, summarise
from .training import Measured

Say = Callable[[str], None]


class Taken(NamedTuple):
    """Of one arm: its median rate, the median paired ratio to the first arm (None: noise), and the last measurement.

    `found` is None, and `note` says why, if a round failed; a noisy arm has a rate but no ratio.
    """

    images_per_s: float | None
    ratio: float | None
    spread: float | None
    found: Measured | None
    note: str


def in_turns(arms: dict[str, Callable[[], Measured]], rounds: int, say: Say) -> dict[str, Taken]:
    """Every arm once in each round, in alternating order. Arms that cannot be compared have no ratio."""
    rates: dict[str, list[float]] = {name: [] for name in arms}
    last: dict[str, Measured] = {}
    notes: dict[str, str] = {}
    for number in range(rounds):
        names = list(arms) if number % 2 == 0 else list(reversed(list(arms)))
        for name in names:
            if name in notes:
                continue
            say(f"round {number + 1} of {rounds}: {name}")
            try:
                found = arms[name]()
            except torch.cuda.OutOfMemoryError:
                notes[name] = "does not fit the GPU's memory"
            except UserError as error:
                notes[name] = str(error)
            else:
                rates[name].append(found.images_per_s)
                # Unsound in one round is unsound.
                last[name] = found._replace(stable=found.stable and (name not in last or last[name].stable))
            # A failed measurement's networks hang on its traceback until here.
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
    whole = {name: own for name, own in rates.items() if name not in notes}
    results = {result.name: result for result in summarise(whole)} if whole else {}
    first = next(iter(arms), "")
    taken = {}
    for name in arms:
        if name in notes:
            taken[name] = Taken(None, None, None, None, notes[name])
            continue
        ratio = results[name].ratio if first in results else None
        taken[name] = Taken(results[name].rate, ratio, spread(whole[name]), last[name], "")
    return taken
