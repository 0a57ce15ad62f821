"""Which pairs there are, and in which order they are tried."""

from __future__ import annotations

import random
from collections.abc import Iterable

from interrupt.exercise import Pair, Reference
from interrupt.faults import FAULTS, Fault
from interrupt.run import Boundary
from interrupt.steps import Inside, Step


def fits(step: Step, place: Boundary | Inside, fault: Fault) -> bool:
    """Whether a fault can have an effect there: one that lasts begins before a task, memory is short inside one."""
    if fault.downloads and not step.downloads:
        return False
    return fault.at == "any" or fault.at == ("inside" if isinstance(place, Inside) else "boundary")


def places(step: Step, reference: Reference, fault: Fault) -> list[Boundary | Inside]:
    """Where a fault can strike a step. What concerns a download is there before the first change."""
    everywhere: list[Boundary | Inside] = [*step.inside, *reference.boundaries]
    found = [place for place in everywhere if fits(step, place, fault)]
    return found[:1] if fault.downloads else found


def each_kind(steps: Iterable[Step], references: dict[str, Reference], seed: int) -> list[Pair]:
    """Every kind of fault at every step, at a place that the seed chooses, in an order that the seed chooses."""
    chance = random.Random(seed)
    found = []
    for step in steps:
        for fault in FAULTS:
            possible = places(step, references[step.name], fault)
            if possible:
                found.append(Pair(step, chance.choice(possible), fault))
    chance.shuffle(found)
    return found


def everything(steps: Iterable[Step], references: dict[str, Reference], seed: int) -> list[Pair]:
    """Every fault at every place, those of `each_kind` first."""
    steps = list(steps)
    first = each_kind(steps, references, seed)
    rest = [
        Pair(step, place, fault)
        for step in steps
        for fault in FAULTS
        for place in places(step, references[step.name], fault)
    ]
    random.Random(seed).shuffle(rest)
    return [*first, *(pair for pair in rest if pair not in first)]
