# SPDX-License-Identifier: Apache-2.0
"""Drawings of the page as inline SVG: processors, NUMA nodes and GPUs; one bar with its floor."""

from .markup import Markup, el
from .values import as_list, in_words, is_number, look, shorten

WIDTH = 360
GPU_HEIGHT = 66
GAP = 10
HEAD_HEIGHT = 50
LETTERS = 50
NO_NODE = "?"


def draw_topology(probe):
    """Each NUMA node with its processors and memory, and joined to it the GPUs that sit next to it."""
    nodes, gpus = look(probe, "numa"), as_list(look(probe, "gpus"))
    if not isinstance(nodes, dict) or not nodes:
        return el("p", "The NUMA nodes were not read.", class_="soft")
    names = sorted(nodes, key=lambda name: (len(str(name)), str(name)))
    places = [(name, [gpu for gpu in gpus if node_of(gpu, names) == name]) for name in names]
    lost = [gpu for gpu in gpus if node_of(gpu, names) == NO_NODE]
    shapes, top, told = [], 0, []
    for name, here in places + ([(NO_NODE, lost)] if lost else []):
        words = node_words(name, nodes, in_words(look(probe, "cpu", "model")))
        told.append("{} with {} GPU{}".format(" ".join(words), len(here), "" if len(here) == 1 else "s"))
        if top:
            shapes.append(el("line", x1=26, x2=26, y1=top - GAP, y2=top, class_="wire"))
        drawn, height = _node(words, here, top)
        shapes += drawn
        top += height + GAP
    return _svg(shapes, top - GAP, "; ".join(told))


def node_of(gpu, names):
    """The node that a GPU sits at; with a single node a GPU that names none (-1) sits there too."""
    name = str(look(gpu, "numa_node"))
    if name in map(str, names):
        return next(known for known in names if str(known) == name)
    return names[0] if len(names) == 1 else NO_NODE


def node_words(name, nodes, processor):
    """Two lines on a node."""
    if name == NO_NODE:
        return "No NUMA node", "the firmware does not say where these GPUs sit"
    memory = look(nodes, name, "memory_mib")
    size = "{:.0f} GiB of memory".format(memory / 1024) if is_number(memory) else "memory not read"
    title = "NUMA node {}: {}".format(name, processor) if processor != "none" else "NUMA node {}".format(name)
    return shorten(title, 44), "CPUs {}, {}".format(in_words(look(nodes, name, "cpus")), size)


def _node(words, gpus, top):
    """The shapes of one node and its height."""
    height = HEAD_HEIGHT + max(0.4, len(gpus)) * (GPU_HEIGHT + GAP) + 2
    shapes = [
        el("rect", x=1, y=top + 1, width=WIDTH - 2, height=height - 2, rx=8, class_="box"),
        el("text", words[0], x=14, y=top + 20, class_="strong"),
        el("text", shorten(words[1], LETTERS), x=14, y=top + 38, class_="soft"),
    ]
    if not gpus:
        shapes.append(el("text", "no GPU", x=40, y=top + 58, class_="soft"))
    for index, gpu in enumerate(gpus):
        place = top + HEAD_HEIGHT + index * (GPU_HEIGHT + GAP)
        middle = place + GPU_HEIGHT / 2
        shapes.append(el("line", x1=26, x2=26, y1=top + 44, y2=middle, class_="wire"))
        shapes += [el("line", x1=26, x2=40, y1=middle, y2=middle, class_="wire"), *_gpu(gpu, place)]
    return shapes, height


def _gpu(gpu, top):
    now, most = look(gpu, "link", "width_now"), look(gpu, "link", "width_max")
    lanes = "PCIe x{} of x{}".format(in_words(now), in_words(most))
    speed = in_words(look(gpu, "link", "speed_now")).replace(" PCIe", "")
    narrow = is_number(now) and is_number(most) and now < most
    lines = (
        "{}, driver {}".format(look(gpu, "pci_id"), in_words(look(gpu, "bound_driver"))),
        "{}{}, {}".format(lanes, ": too narrow" if narrow else "", speed),
    )
    return [
        el("rect", x=40, y=top, width=WIDTH - 50, height=GPU_HEIGHT, rx=6, class_="gpu narrow" if narrow else "gpu"),
        el("text", shorten(in_words(look(gpu, "name")), 42), x=50, y=top + 20, class_="strong"),
        *[
            el("text", shorten(line, 46), x=50, y=top + 38 + 17 * index, class_="soft")
            for index, line in enumerate(lines)
        ],
    ]


def draw_bar(bar, longest, status):
    """One bar on a scale that ends at `longest`; a line marks the floor. The numbers stand beside it as text."""
    scale = 100 / (longest * 1.02 or 1)
    shapes = [el("rect", x=0, y=3, width=100, height=10, class_="ground")]
    shapes.append(
        el("rect", x=0, y=3, width=round(bar.value * scale, 1), height=10, class_="bar " + (status or "plain"))
    )
    if bar.floor:
        shapes.append(el("rect", x=round(bar.floor * scale, 1), y=0, width=0.8, height=16, class_="floor"))
    return el("svg", *shapes, viewBox="0 0 100 16", preserveAspectRatio="none", aria_hidden="true", class_="meter")


def draw_share(numbers):
    """One line, divided among `[(status, number)]`."""
    total, left, shapes = sum(number for _status, number in numbers) or 1, 0, []
    for status, number in numbers:
        width = 100.0 * number / total
        shapes.append(el("rect", x=round(left, 2), y=0, width=round(width, 2), height=4, class_="share " + status))
        left += width
    svg = el("svg", *shapes, viewBox="0 0 100 4", preserveAspectRatio="none", aria_hidden="true", class_="shares")
    return svg if numbers else Markup("")


def _svg(shapes, height, words):
    size = "0 0 {} {:.0f}".format(WIDTH, height)
    return el("svg", *shapes, viewBox=size, role="img", aria_label=words, class_="drawing")
