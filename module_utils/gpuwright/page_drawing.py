# SPDX-License-Identifier: Apache-2.0
"""Drawings of the page as inline SVG: processors, NUMA nodes and GPUs; bars with floors."""

from .page_facts import as_list, look
from .page_markup import el

WIDTH = 360
GPU_HEIGHT = 44
GAP = 12
BAR_HEIGHT = 46


def draw_topology(probe):
    """Each NUMA node with its processors and memory, and in it the GPUs that sit next to it."""
    nodes, gpus = look(probe, "numa"), as_list(look(probe, "gpus"))
    if not isinstance(nodes, dict) or not nodes:
        return el("p", "The NUMA nodes were not read.", class_="soft")
    shapes, top, told = [], 0, []
    for name in sorted(nodes, key=str):
        here = [gpu for gpu in gpus if str(max(0, _whole(look(gpu, "numa_node")))) == name]
        height = 34 + max(1, len(here)) * (GPU_HEIGHT + GAP)
        words = "NUMA node {}: CPUs {}, {} MiB".format(name, look(nodes, name, "cpus"), look(nodes, name, "memory_mib"))
        told.append("{} with {} GPUs".format(words, len(here)))
        shapes.append(el("rect", x=1, y=top + 1, width=WIDTH - 2, height=height - 2, rx=8, class_="box"))
        shapes.append(el("text", words, x=14, y=top + 22))
        for index, gpu in enumerate(here):
            shapes += _gpu(gpu, top + 34 + index * (GPU_HEIGHT + GAP))
        if not here:
            shapes.append(el("text", "no GPU", x=30, y=top + 58, class_="soft"))
        top += height + GAP
    return _svg(shapes, top, "; ".join(told))


def _gpu(gpu, top):
    link = look(gpu, "link") or {}
    lane = "PCIe x{} of x{}, {}".format(look(link, "width_now"), look(link, "width_max"), look(link, "speed_now"))
    return [
        el("rect", x=10, y=top, width=WIDTH - 20, height=GPU_HEIGHT, rx=6, class_="gpu"),
        el("text", "{}  {}".format(look(gpu, "pci_id"), look(gpu, "name"))[:48], x=20, y=top + 18),
        el("text", "{}, driver {}".format(lane, look(gpu, "bound_driver"))[:54], x=20, y=top + 36, class_="soft"),
    ]


def _whole(value):
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def draw_bars(bars):
    """`page_facts.bars`; bars of one unit share a scale, and a line marks the floor."""
    longest = {}
    for _name, value, unit, floor, _words in bars:
        longest[unit] = max(longest.get(unit, 0), value, floor or 0)
    shapes, told = [], []
    for index, (name, value, unit, floor, words) in enumerate(bars):
        top = index * BAR_HEIGHT
        scale = (WIDTH - 2) / (longest[unit] * 1.05 or 1)
        text = "{}: {:.4g} {}".format(name, value, unit)
        text += ", floor {:.4g}".format(floor) if floor else ""
        told.append(text + (" ({})".format(words) if floor else ""))
        shapes.append(el("text", text[:54], x=0, y=top + 15))
        shapes.append(el("rect", x=0, y=top + 22, width=round(value * scale, 1), height=14, class_="bar"))
        if floor:
            place = round(floor * scale, 1)
            shapes.append(el("line", x1=place, x2=place, y1=top + 18, y2=top + 40, class_="floor"))
    return _svg(shapes, len(bars) * BAR_HEIGHT, "; ".join(told))


def _svg(shapes, height, words):
    return el("svg", *shapes, viewBox="0 0 {} {}".format(WIDTH, height), role="img", aria_label=words)
