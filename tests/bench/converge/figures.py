"""From single values to medians with intervals, and to what the rounds tell of two arms."""

from __future__ import annotations

import statistics
from typing import Any

from measure import interval

# How many digits say more than the rounds do.
DIGITS = 3
COMPARED = (("first", "wall"), ("no-op", "wall"), ("no-op", "controller CPU"), ("changed variable", "wall"))
# Fewer have no interval.
LEAST_PAIRS = 3


def rounded(value: float) -> float:
    """To DIGITS digits."""
    return float(f"{value:.{DIGITS}g}")


def figure(values: list[float]) -> dict[str, Any]:
    """Median, interval and number of values; of fewer than six values the interval is all of them."""
    return {
        "median": rounded(statistics.median(values)),
        "interval": [rounded(end) for end in interval(values)],
        "n": len(values),
    }


def summary(values: dict[str, dict[str, list[dict[str, float]]]]) -> dict[str, Any]:
    """For each arm and step a figure of every kind of cost; runs of which nothing is told are left out."""
    found: dict[str, Any] = {}
    for arm, steps in values.items():
        for step, runs in steps.items():
            if step != "until short":
                kinds = {kind: figure([run[kind] for run in runs]) for kind in runs[0]}
                found.setdefault(arm, {})[step] = kinds
    return found


def verdicts(values: dict[str, dict[str, list[dict[str, float]]]], ours: str) -> list[dict[str, Any]]:
    """Paired ratios, the other's cost over ours (above 1: ours costs less), where there are enough pairs."""
    found = []
    for step, kind in COMPARED:
        mine = values.get(ours, {}).get(step, [])
        for other in values:
            theirs = values[other].get(step, [])
            if other == ours or min(len(mine), len(theirs)) < LEAST_PAIRS:
                continue
            pairs = [b[kind] / a[kind] for a, b in zip(mine, theirs, strict=False)]
            ends = [round(end, 2) for end in interval(pairs)]
            ratio = round(statistics.median(pairs), 2)
            found.append({"step": step, "kind": kind, "other": other, "ratio": ratio, "interval": ends})
    return found
