"""Moments in which earlier versions of the toolkit could lose something, found by reading; each is a pair or two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from interrupt.choice import places
from interrupt.exercise import Pair, Reference
from interrupt.faults import BY_NAME
from interrupt.results import Result
from interrupt.steps import Step


@dataclass(frozen=True)
class Hole:
    """`what` could be lost; `place` is how the name of the point begins, after the step's."""

    what: str
    step: str
    place: str
    fault: str


REMOVED = "The driver is removed before the new one has been downloaded."
OPEN = "The locks of the driver are open between their release and the new ones."
SOURCE = "A new repository that fails takes the old one with it."
CURRENT = "The environment becomes the current one before the trainer is in it."
HOLES = (
    Hole(REMOVED, "newer driver", "before ", "mirror gone"),
    Hole(REMOVED, "older driver", "in the package transaction", "controller lost"),
    Hole(OPEN, "newer driver", "before 'Select the module stream", "SIGKILL to the controller"),
    Hole(OPEN, "older driver", "before 'Hold or release the packages of driver'", "everything killed"),
    Hole(SOURCE, "another mirror", "before ", "mirror answers 503"),
    Hole(SOURCE, "another mirror", "before 'Configure the repository", "controller lost"),
    Hole(CURRENT, "environment", "before 'Make it the current environment", "controller lost"),
    Hole(CURRENT, "trainer", "in the pip install", "everything killed"),
)


def pairs(steps: Iterable[Step], references: dict[str, Reference]) -> Iterator[Pair]:
    """Those of these steps, in order. ValueError: a step has no such point any more."""
    by_name = {step.name: step for step in steps}
    for hole in HOLES:
        step = by_name.get(hole.step)
        if step:
            yield pair_of(hole, step, references[step.name])


def pair_of(hole: Hole, step: Step, reference: Reference) -> Pair:
    found = [Pair(step, place, BY_NAME[hole.fault]) for place in places(step, reference, BY_NAME[hole.fault])]
    found = [pair for pair in found if is_it(hole, pair.point, hole.fault)]
    if not found:
        raise ValueError(f"{hole.fault!r} has no point {hole.step}: {hole.place} ...; holes.py says why there is one")
    return found[0]


def is_it(hole: Hole, point: str, fault: str) -> bool:
    return fault == hole.fault and point.startswith(f"{hole.step}: {hole.place}")


def result_of(hole: Hole, results: Iterable[Result]) -> Result | None:
    return next((each for each in results if is_it(hole, each.point, each.fault)), None)
