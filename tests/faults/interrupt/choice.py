"""Which pairs there are, and in which order they are tried."""

from __future__ import annotations

import random
from collections.abc import Iterable

from interrupt.exercise import Pair, Reference
from interrupt.faults import FAULTS, Fault
from interrupt.run import Boundary
from interrupt.steps import Inside, Step, chain


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
    """Every kind of fault at every step, at a place that the seed chooses, in an order that the seed chooses.

    Steps with a task that takes long come before the others.
    """
    chance = random.Random(seed)
    found = []
    for step in steps:
        for fault in FAULTS:
            possible = places(step, references[step.name], fault)
            if possible:
                found.append(Pair(step, chance.choice(possible), fault))
    chance.shuffle(found)
    return sorted(found, key=lambda pair: not pair.step.inside)


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


def near(steps: Iterable[Step], count: int) -> list[Step]:
    """Steps whose host has gone through at most so many before: a host for the others takes long to make."""
    return [step for step in steps if len(chain(step)) <= count + 1]


def sampled(steps: Iterable[Step], seed: int, count: int) -> list[tuple[Step, Fault]]:
    """Steps and faults that the seed chooses; every fault is taken before one comes again.

    The place is chosen when the step's reference is there; only the steps that were chosen need one.
    """
    chance = random.Random(seed)
    faults, steps = list(FAULTS), list(steps)
    found: list[tuple[Step, Fault]] = []
    while len(found) < count:
        chance.shuffle(faults)
        chance.shuffle(steps)
        for number, fault in enumerate(faults):
            possible = [step for step in steps[number % len(steps) :] + steps if may_strike(step, fault)]
            if possible and len(found) < count:
                found.append((possible[0], fault))
    return found


def may_strike(step: Step, fault: Fault) -> bool:
    """Whether a fault can be felt somewhere in a step, before its boundaries are known."""
    if fault.at == "inside":
        return bool(step.inside)
    return (step.downloads or not fault.downloads) and (not step.command or fault.at == "any")


def at_a_place(step: Step, fault: Fault, reference: Reference, seed: int) -> Pair | None:
    """The pair at a place that the seed chooses; None where the step has none for this fault."""
    possible = places(step, reference, fault)
    return Pair(step, random.Random(f"{seed} {step.name} {fault.name}").choice(possible), fault) if possible else None
