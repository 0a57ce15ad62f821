# SPDX-License-Identifier: Apache-2.0
"""What a node's burn-in has measured, and how it compares with published floors and with other nodes."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.gpuwright.node.plugins.module_utils.gpu import floors
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.speed import WORDS

from .products import Product, product_of, unlike

# Fewer nodes have no middle that one of them could be held against.
LEAST_NODES = 3
# Of a series' points, at its begin and at its end; a card that heats up is slower at the end.
ENDS = 0.25
LEAST_POINTS = 8
Answer = Mapping[str, Any]


class Figure(NamedTuple):
    """One measure of one device.

    value, lowest   median and lowest of `points` measurements, in `unit`
    slower          part by which the last quarter is below the first one, 0.0 if it is not or there are few points
    """

    device: str
    measure: str
    value: float
    lowest: float
    points: int
    slower: float
    unit: str


class Against(NamedTuple):
    """What a figure is held against; None where there is nothing.

    floor, source   the published floor and where it comes from
    median, nodes   the fleet's own median of this measure, and of how many nodes it is
    below           part by which this node is below that median; negative if it is above
    """

    floor: float | None
    source: str
    median: float | None
    nodes: int
    below: float | None


def answer_in(text: Any) -> dict[str, Any] | None:
    """The record that a node printed as its last line; None if there is none."""
    if isinstance(text, dict):
        return text
    for line in reversed(str(text or "").splitlines()):
        try:
            found = json.loads(line) if line.startswith("{") else None
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return None


def devices_of(answer: Answer | None) -> list[dict[str, Any]]:
    record = (answer or {}).get("record")
    devices = record.get("devices") if isinstance(record, dict) else None
    return [device for device in devices if isinstance(device, dict)] if isinstance(devices, list) else []


def figures_of(answer: Answer | None) -> list[Figure]:
    """Every series of a node's record, by device and measure."""
    found = []
    for device in devices_of(answer):
        for measure, points in sorted((device.get("series") or {}).items()):
            values = [float(value) for _at, value in points]
            if measure in WORDS and values:
                found.append(figure(str(device.get("device")), measure, values))
    return found


def figure(device: str, measure: str, values: Sequence[float]) -> Figure:
    value = statistics.median(values)
    return Figure(device, measure, value, min(values), len(values), slower(values), floors.unit_of(measure))


def slower(values: Sequence[float]) -> float:
    """Part by which the last quarter of a series is below its first quarter, by their medians; 0.0 if it is not."""
    count = int(len(values) * ENDS)
    if len(values) < LEAST_POINTS:
        return 0.0
    first, last = statistics.median(values[:count]), statistics.median(values[-count:])
    return max(0.0, 1.0 - last / first) if first > 0 else 0.0


def products_of(host: str, answer: Answer | None) -> list[tuple[str, Product]]:
    """The product of each device, by "HOST DEVICE"; two processes of one CPU are two devices."""
    found = []
    for place, device in enumerate(devices_of(answer)):
        product, name = product_of((answer or {})["record"], device), f"{host} {device.get('device')}"
        if product:
            found.append((f"{name} ({place})" if name.endswith(" cpu") else name, product))
    return found


def model_of(answer: Answer | None) -> str:
    """What makes nodes comparable, for example "8 x NVIDIA H100 80GB HBM3"; "" if nothing was measured."""
    names = [str(device.get("name")) for device in devices_of(answer)]
    return f"{len(names)} x {' + '.join(sorted(set(names)))}" if names else ""


def slowest(figures: Iterable[Figure]) -> dict[str, float]:
    """Each measure's lowest value over the devices of a node: a training run waits for that one."""
    found: dict[str, float] = {}
    for each in figures:
        found[each.measure] = min(found.get(each.measure, each.value), each.value)
    return found


class Fleet:
    """The nodes of one run, and each measure's median over those of one model."""

    def __init__(self, answers: Mapping[str, Answer | None]) -> None:
        self.figures = {host: figures_of(answer) for host, answer in answers.items()}
        self.models = {host: model_of(answer) for host, answer in answers.items()}
        self.products = {card: one for host, answer in answers.items() for card, one in products_of(host, answer)}

    def like(self, host: str) -> list[str]:
        """The nodes of this host's model, itself included."""
        return [other for other, model in self.models.items() if model and model == self.models[host]]

    def unlike(self, host: str) -> list[tuple[str, str]]:
        """(FAIL or WARN, text) for each product of the host that has other bits than those of the other cards."""
        own = [card for card in self.products if card.startswith(f"{host} ")]
        found = [(card, row) for card in own for row in unlike(card, self.products[card], self.products, None, own)]
        return [(status, f"{card.removeprefix(f'{host} ')}: {text}") for card, (status, text) in found]

    def values(self, host: str, measure: str) -> list[float]:
        """This measure on every node of the host's model that has it."""
        found = [slowest(self.figures[other]).get(measure) for other in self.like(host)]
        return [value for value in found if value is not None]

    def against(self, host: str, figure: Figure) -> Against:
        names = [str(name) for name in self.models[host].partition(" x ")[2].split(" + ")]
        model, count = names[0] if len(names) == 1 else "", int(self.models[host].partition(" x ")[0] or 0)
        limits = floors.floor_of(model, figure.measure)
        if figure.measure == "all_reduce":
            limits = floors.reduce_floor(model, count)
        values = self.values(host, figure.measure)
        if len(values) < LEAST_NODES:
            return Against(limits.floor, limits.source, None, len(values), None)
        median = statistics.median(values)
        return Against(
            limits.floor, limits.source, median, len(values), 1.0 - figure.value / median if median else None
        )
