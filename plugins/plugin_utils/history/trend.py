# SPDX-License-Identifier: Apache-2.0
"""How a card's figures compare with its own earlier days and with the fleet: pure functions of the history."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .kept import FIRST_ROWS

# Fewer days, or cards, have no middle that a figure could be held against.
LEAST_DAYS = LEAST_CARDS = 3
Card = Mapping[str, Any]
# {(model, software, measure): (median, number of cards)}
Medians = Mapping[tuple[str, str, str], tuple[float, int]]


class Drop(NamedTuple):
    """How far the last value of a measure is below `usual`, its own or the fleet's: `below` is 0.1 for 10 %.

    days, cards  of how many earlier rows, or cards, `usual` is the median; the other one is 0
    lasts        whether the last three rows are all below, so that it is no matter of one day
    """

    measure: str
    value: float
    usual: float
    below: float
    days: int = 0
    cards: int = 0
    lasts: bool = False


def last(card: Card, measure: str) -> float | None:
    """The value in the card's last row."""
    column = card["figures"].get(measure) or [None]
    value = column[-1]
    return None if value is None else float(value)


def since_its_first_days(card: Card, measure: str) -> Drop | None:
    """Against the median of its first days with the same software; None where there are too few."""
    values = _alike(card, measure)
    if len(values) <= LEAST_DAYS:
        return None
    first = values[: min(FIRST_ROWS, len(values) - 1)]
    usual = _middle(first)
    newest = values[-LEAST_DAYS:] if len(values) >= 2 * LEAST_DAYS else []
    lasts = bool(newest) and max(newest) < min(first)
    return Drop(measure, values[-1], usual, part_below(values[-1], usual), days=len(first), lasts=lasts)


def _alike(card: Card, measure: str) -> Sequence[float]:
    """The measure's values with the card's present software; none if its last row has no value."""
    software, column = card["software"], card["figures"].get(measure) or [None]
    if column[-1] is None:
        return []
    if software.count(software[-1]) < len(software):
        column = [value for value, words in zip(column, software, strict=True) if words == software[-1]]
    return [value for value in column if value is not None] if None in column else column


def _middle(values: Sequence[float]) -> float:
    """The median. That of the library takes three times as long, and there are tens of thousands in a fleet."""
    row, half = sorted(values), len(values) // 2
    return row[half] if len(row) % 2 else (row[half - 1] + row[half]) / 2


def against_the_fleet(card: Card, measure: str, medians: Medians) -> Drop | None:
    """Against the median of the fleet's cards of its model; None where there are too few."""
    value = last(card, measure)
    found = None if value is None else medians.get((card["name"], card["software"][-1], measure))
    if value is None or found is None:
        return None
    usual, count = found
    return Drop(measure, value, usual, part_below(value, usual), cards=count)


def fleet_medians(cards: Iterable[Card]) -> Medians:
    """(median, number of cards) of the last values, by model, software and measure, where there are enough."""
    values: dict[tuple[str, str, str], list[float]] = {}
    for card in cards:
        name, software = card["name"], card["software"][-1:]
        for measure, column in card["figures"].items():
            if column and column[-1] is not None:
                values.setdefault((name, software[0], measure), []).append(float(column[-1]))
    return {key: (statistics.median(row), len(row)) for key, row in values.items() if len(row) >= LEAST_CARDS}


def part_below(value: float, usual: float) -> float:
    return 1.0 - value / usual if usual > 0 else 0.0


def worst(card: Card, medians: Medians) -> Drop | None:
    """The measure that has dropped most, against whichever is worse."""
    found: tuple[float, str, bool] | None = None
    name, software = card["name"], card["software"]
    uniform = software.count(software[-1]) == len(software) if software else True
    for measure, column in card["figures"].items():
        values = column if uniform and column and None not in column else _alike(card, measure)
        if not values:
            continue
        rows = []
        if len(values) > LEAST_DAYS:
            usual = _middle(values[: min(FIRST_ROWS, len(values) - 1)])
            rows.append((part_below(values[-1], usual), measure, False))
        fleet = medians.get((name, software[-1], measure))
        if fleet:
            rows.append((part_below(values[-1], fleet[0]), measure, True))
        for row in rows:
            found = row if found is None or row[0] > found[0] else found
    if found is None:
        return None
    return against_the_fleet(card, found[1], medians) if found[2] else since_its_first_days(card, found[1])


def grown(card: Card) -> list[tuple[str, float, float]]:
    """(counter, before, now) for each counter of errors that is higher than at the sweep before."""
    found = []
    for name, column in sorted(card["counters"].items()):
        known = [value for value in column if value is not None]
        if len(known) > 1 and column[-1] is not None and known[-1] > known[-2]:
            found.append((name, known[-2], known[-1]))
    return found
