# SPDX-License-Identifier: Apache-2.0
"""Positions of lines and boxes in the page's drawings: processors, NUMA nodes and GPUs; one bar with its floor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .values import as_list, in_words, is_number, look, shorten

WIDTH = 360
GPU_HEIGHT = 66
GAP = 10
HEAD_HEIGHT = 50
LETTERS = 50
NO_NODE = "?"


class GpuBox(NamedTuple):
    """A GPU at its height in the drawing."""

    top: float
    name: str
    lines: tuple[str, str]
    narrow: bool

    @property
    def middle(self) -> float:
        return self.top + GPU_HEIGHT / 2


class NodeBox(NamedTuple):
    """A NUMA node with its GPUs."""

    top: float
    height: float
    title: str
    words: str
    gpus: list[GpuBox]


class Topology(NamedTuple):
    """The drawing of a server; `told` is the text that a screen reader reads aloud."""

    height: float
    told: str
    nodes: list[NodeBox]
    width: int = WIDTH
    gpu_height: int = GPU_HEIGHT
    gap: int = GAP


class Meter(NamedTuple):
    """A bar on a scale of 0 to 100; `floor` is None if there is none."""

    status: str
    value: float
    floor: float | None


class Share(NamedTuple):
    """One part of a line that is 100 long."""

    status: str
    left: float
    width: float


def topology(probe: Any) -> Topology | None:
    """Each NUMA node with its processors and memory, and the GPUs next to it; None if none was read."""
    nodes, gpus = look(probe, "numa"), as_list(look(probe, "gpus"))
    if not isinstance(nodes, dict) or not nodes:
        return None
    names = sorted(nodes, key=lambda name: (len(str(name)), str(name)))
    places = [(name, [gpu for gpu in gpus if node_of(gpu, names) == name]) for name in names]
    lost = [gpu for gpu in gpus if node_of(gpu, names) == NO_NODE]
    boxes: list[NodeBox] = []
    top, told = 0.0, []
    for name, here in places + ([(NO_NODE, lost)] if lost else []):
        title, words = node_words(name, nodes, in_words(look(probe, "cpu", "model")))
        told.append(f"{title} {words} with {len(here)} GPU{'' if len(here) == 1 else 's'}")
        height = HEAD_HEIGHT + max(0.4, len(here)) * (GPU_HEIGHT + GAP) + 2
        drawn = [gpu_box(gpu, top + HEAD_HEIGHT + index * (GPU_HEIGHT + GAP)) for index, gpu in enumerate(here)]
        boxes.append(NodeBox(top, height, title, shorten(words, LETTERS), drawn))
        top += height + GAP
    return Topology(top - GAP, "; ".join(told), boxes)


def node_of(gpu: Any, names: Sequence[str]) -> str:
    """The node of a GPU; if there is a single node, also for a GPU that names none (-1)."""
    name = str(look(gpu, "numa_node"))
    if name in map(str, names):
        return next(known for known in names if str(known) == name)
    return names[0] if len(names) == 1 else NO_NODE


def node_words(name: str, nodes: dict[str, Any], processor: str) -> tuple[str, str]:
    """Two lines on a node."""
    if name == NO_NODE:
        return "No NUMA node", "the firmware does not say where these GPUs sit"
    memory = look(nodes, name, "memory_mib")
    size = f"{memory / 1024:.0f} GiB of memory" if is_number(memory) else "memory not read"
    title = f"NUMA node {name}: {processor}" if processor != "none" else f"NUMA node {name}"
    return shorten(title, 44), f"CPUs {in_words(look(nodes, name, 'cpus'))}, {size}"


def gpu_box(gpu: Any, top: float) -> GpuBox:
    now, most = look(gpu, "link", "width_now"), look(gpu, "link", "width_max")
    lanes = f"PCIe x{in_words(now)} of x{in_words(most)}"
    speed = in_words(look(gpu, "link", "speed_now")).replace(" PCIe", "")
    narrow = is_number(now) and is_number(most) and now < most
    lines = (
        f"{in_words(look(gpu, 'pci_id'))}, driver {in_words(look(gpu, 'bound_driver'))}",
        f"{lanes}{': too narrow' if narrow else ''}, {speed}",
    )
    return GpuBox(top, shorten(in_words(look(gpu, "name")), 42), (shorten(lines[0], 46), shorten(lines[1], 46)), narrow)


def meter(value: float, floor: float | None, longest: float, status: str) -> Meter:
    """One bar on a scale that ends at `longest`; a line marks the floor. The numbers are beside it as text."""
    scale = 100 / (longest * 1.02 or 1)
    return Meter(status or "plain", round(value * scale, 1), round(floor * scale, 1) if floor else None)


def shares(numbers: Sequence[tuple[str, int]]) -> list[Share]:
    """One line, divided among `[(status, number)]`."""
    total, left, found = sum(number for _status, number in numbers) or 1, 0.0, []
    for status, number in numbers:
        width = 100.0 * number / total
        found.append(Share(status, round(left, 2), round(width, 2)))
        left += width
    return found
