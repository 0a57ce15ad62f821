# SPDX-License-Identifier: Apache-2.0
"""A small line for each card over its sweeps, the worst first, and the same as metrics."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.gpuwright.node.plugins.module_utils.doctor.metrics import STATUS_VALUE, text_of
from ansible_collections.gpuwright.node.plugins.module_utils.doctor.metrics_gpu import GAUGE, Family, Labels, Sample
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.check import FAIL, WARN

from ..history import kept, trend
from .speed import measure_words
from .values import shorten

# Of the drawing; the template has the same.
WIDTH, HEIGHT = 100.0, 20.0
MODEL = 40
Cards = Mapping[str, tuple[str, Mapping[str, Any]]]


class CardLine(NamedTuple):
    """A card and its worst measure. page: its host's, "" if it has none; below: 0.1 for 10 %; points: the drawing."""

    key: str
    host: str
    page: str
    model: str
    measure: str
    text: str
    status: str
    below: float
    points: str


def for_lines(history: kept.History) -> kept.History:
    """What a line needs of a history. Tuples, since Python's collector goes through all lists again and again."""
    cards = {
        key: {
            "name": card["name"],
            "at": card["at"][-1:],
            "software": tuple(card["software"]),
            "figures": {measure: tuple(column) for measure, column in card["figures"].items()},
        }
        for key, card in history["cards"].items()
    }
    return {**history, "cards": cards}


def card_lines(histories: Mapping[str, kept.History], files: Mapping[str, str], folder: str) -> list[CardLine]:
    """All cards, those that the last sweep has found bad first, then by how far they have dropped."""
    cards = kept.cards_of(histories)
    medians = trend.fleet_medians(card for _host, card in cards.values())
    found = []
    for key, (host, card) in cards.items():
        drop = trend.worst(card, medians)
        told = {row["status"] for row in histories[host]["findings"] if row["card"] == key}
        status = next((one for one in (FAIL, WARN) if one in told), "")
        page = f"{folder}/{files[host]}" if host in files else ""
        found.append(_line(key, host, page, card, drop, status))
    return sorted(found, key=lambda line: (line.status != FAIL, line.status != WARN, -line.below, line.host, line.key))


def _line(key: str, host: str, page: str, card: Mapping[str, Any], drop: trend.Drop | None, status: str) -> CardLine:
    measure = drop.measure if drop else next(iter(card["figures"]), "")
    name, unit = measure_words(measure)
    value = trend.last(card, measure) if measure else None
    text = "not measured" if value is None else f"{value:.4g} {unit}"
    if drop and drop.below > 0:
        of = f"its first {drop.days} days" if drop.days else f"{drop.cards} cards"
        text += f", {100 * drop.below:.0f} % below {of}"
    model, below = shorten(card["name"], MODEL), drop.below if drop else 0.0
    return CardLine(key, host, page, model, name, text, status, below, points(card["figures"].get(measure, ())))


def points(column: Sequence[float | None]) -> str:
    """The points of a line that begins at zero, since half of a speed must look like half."""
    values = [(place, value) for place, value in enumerate(column) if value is not None]
    most = max((value for _place, value in values), default=0.0) or 1.0
    across = _across(len(column))
    drawn = [f"{across[place]},{HEIGHT - max(value, 0.0) / most * (HEIGHT - 1):.1f}" for place, value in values]
    return " ".join(drawn if len(drawn) > 1 else [*drawn, *(one.replace("0,", "100,", 1) for one in drawn)])


@functools.cache
def _across(count: int) -> tuple[str, ...]:
    """Where the points of so many sweeps are drawn, from left to right."""
    return tuple(f"{place * WIDTH / max(count - 1, 1):.0f}" for place in range(count))


def card_metrics(histories: Mapping[str, kept.History], lines: list[CardLine]) -> str:
    """The text for Prometheus: how far each card has dropped, each node's verdict and when it was swept."""
    below: list[Sample] = [(_labels(line), round(line.below, 4)) for line in sorted(lines)]
    swept = [(host, history) for host, history in sorted(histories.items()) if history["swept"]]
    verdicts: list[Sample] = [({"host": host}, STATUS_VALUE.get(one["verdict"], -1)) for host, one in swept]
    times: list[Sample] = [({"host": host}, int(kept.epoch(one["swept"]))) for host, one in swept]
    return text_of(
        [
            Family("gpuwright_sweep_below_ratio", GAUGE, "How far its worst measure is below what is usual.", below),
            Family("gpuwright_sweep_verdict", GAUGE, "0 PASS, 1 WARN, 2 FAIL, -1 UNKNOWN.", verdicts),
            Family("gpuwright_sweep_timestamp_seconds", GAUGE, "When the node was swept.", times),
        ]
    )


def _labels(line: CardLine) -> Labels:
    return {"card": line.key, "host": line.host}
