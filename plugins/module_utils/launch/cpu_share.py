# SPDX-License-Identifier: Apache-2.0
"""Divide a host's CPUs among the processes that share it, so that none leaves its socket and no two overlap.

Every rank computes the same division from the same facts and takes its own part; they do not talk to each other.
"""

from ..host.named_tuple import Record

# Importing typing would take a third of gpu-run's start time: its names are only for the type checker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import AbstractSet, Callable, Dict, List, Optional, Sequence, Set, Tuple, TypeVar

    from .layout import Layout

    Core = List[int]
    CoresOf = Callable[[AbstractSet[int]], List[Core]]
    Item = TypeVar("Item")

NODE, SOCKET, NONE = "node", "socket", "none"


class Share(Record):
    """What one process gets.

    cpus     set of CPUs, never empty
    sharing  number of processes that run on exactly these CPUs: above 1 only if there are fewer CPUs than processes
    at_home  whether the CPUs are on the wanted NUMA nodes, or on their sockets
    idle     NUMA nodes with CPUs that the caller may use and that no process gets
    """

    __slots__ = ("cpus", "sharing", "at_home", "idle")
    cpus: "Set[int]"
    sharing: int
    at_home: bool
    idle: "List[int]"


def nearest(nodes: "Sequence[int]", allowed: "Set[int]", layout: "Layout", mode: str = NODE) -> Share:
    """The `Share` of a process that is alone: the allowed CPUs of `nodes` or of their sockets.

    If the caller may use none of these, or a node has no CPU, those of the nodes at the smallest distance; all allowed
    ones if `nodes` is empty, or if the distances are not known.
    """
    pools = _pools(allowed, layout)
    known = bool(nodes) and mode != NONE and all(node in layout.cpus for node in nodes)
    there = set(nodes) & set(pools) if known else set()
    at_home = bool(there)
    if known and not there:
        there = {near for node in nodes for near in _nearest_nodes(node, pools, layout)}
    if mode == SOCKET:
        there = {node for near in there for node in _same_socket(near, pools, layout)}
    cpus = set().union(*(pools[node] for node in there))
    return Share(cpus or set(allowed), 1, at_home, sorted(set(pools) - there) if cpus else [])


def divide(
    wanted: "Sequence[Optional[int]]",
    mine: "Sequence[int]",
    allowed: "Set[int]",
    layout: "Layout",
    cores_of: "CoresOf",
    mode: str = NODE,
) -> Share:
    """The `Share` of the units `mine` (indices into `wanted`).

    wanted    for every unit (a rank, or a GPU of a rank) the NUMA node that it wants, None if it is not known
    layout    the nodes of the machine
    cores_of  function: set of CPUs -> list of lists, the CPUs of each physical core
    mode      NODE: each node is divided among its units, and the socket's nodes that have no unit go to those units
              that have least; SOCKET: all units of a socket get equal parts; NONE: equal parts of the whole host
    """
    pools = _pools(allowed, layout)
    places = _places(wanted, pools, layout) if mode != NONE else []
    cpus: "Set[int]" = set()
    sharing = 1
    if not places:
        cores = cores_of(allowed)
        for unit in mine:
            part, crowd = _part(cores, unit, len(wanted))
            cpus, sharing = cpus | part, max(sharing, crowd)
        return Share(cpus, sharing, False, [])
    reached = {node for place in places for node in _same_socket(place, pools, layout)}
    given: "Dict[int, Tuple[Set[int], int]]" = {}
    for unit in mine:
        if unit not in given:
            nodes = _same_socket(places[unit], pools, layout)
            given.update(_spread(places, {node: cores_of(pools[node]) for node in nodes}, layout, mode))
        cpus, sharing = cpus | given[unit][0], max(sharing, given[unit][1])
    at_home = all(places[unit] == wanted[unit] for unit in mine)
    return Share(cpus, sharing, at_home, sorted(set(pools) - reached))


def _pools(allowed: "Set[int]", layout: "Layout") -> "Dict[int, Set[int]]":
    """{node: its allowed CPUs} of the nodes that have any."""
    return {node: cpus & allowed for node, cpus in layout.cpus.items() if cpus & allowed}


def _same_socket(node: int, pools: "Dict[int, Set[int]]", layout: "Layout") -> "List[int]":
    """The nodes of `pools` on the socket of `node`; only the node if its socket is unknown."""
    socket = layout.sockets.get(node)
    if socket is None:
        return [node]
    return sorted(other for other in pools if layout.sockets.get(other) == socket)


def _nearest_nodes(node: int, pools: "Dict[int, Set[int]]", layout: "Layout") -> "List[int]":
    """The nodes of `pools` at the smallest distance from `node`, [] if the firmware gives none."""
    known = layout.distances.get(node, {})
    least = min((known[other] for other in pools if other in known), default=None)
    return sorted(other for other in pools if other in known and known[other] == least)


def _places(wanted: "Sequence[Optional[int]]", pools: "Dict[int, Set[int]]", layout: "Layout") -> "List[int]":
    """For every unit the node that it is placed on; [] if nothing is known about any unit.

    A unit whose node has no allowed CPU goes to the nearest that has one, a unit whose node is unknown to any node; if
    there are several, to the one with the most CPUs for each unit already there.
    """
    near = {node: _nearest_nodes(node, pools, layout) for node in set(wanted) if node is not None}
    if not any(node in pools or near.get(node) for node in wanted if node is not None):
        return []
    load = {node: sum(1 for other in wanted if other == node) for node in pools}
    places = []
    for node in wanted:
        if node is None or node not in pools:
            choice = near.get(node) if node is not None else None
            node = max(choice or sorted(pools), key=lambda candidate: len(pools[candidate]) / (load[candidate] + 1.0))
            load[node] += 1
        places.append(node)
    return places


def _spread(
    places: "Sequence[int]", cores: "Dict[int, List[Core]]", layout: "Layout", mode: str
) -> "Dict[int, Tuple[Set[int], int]]":
    """{unit: (CPUs, processes on them)} of the units that are on the nodes of one socket; `cores` is {node: cores}."""
    units = [unit for unit, place in enumerate(places) if place in cores]
    homes = {node: [unit for unit in units if places[unit] == node] for node in cores}
    parts = {}
    for node, living in homes.items():
        for position, unit in enumerate(living):
            parts[unit] = list(_slice(cores[node], position, len(living)))
    spare = [node for node, living in homes.items() if not living]
    if mode == SOCKET:
        total = sum(len(found) for found in cores.values())
        sizes = {unit: len(_slice(range(total), number, len(units))) for number, unit in enumerate(units)}
        parts = {unit: part[: sizes[unit]] for unit, part in parts.items()}
    else:
        sizes = {unit: len(part) for unit, part in parts.items()}
        for _ in range(sum(len(cores[node]) for node in spare)):
            sizes[min(units, key=lambda unit: (sizes[unit], unit))] += 1
    taken = {core[0] for part in parts.values() for core in part}
    left = {node: [core for core in found if core[0] not in taken] for node, found in cores.items()}
    for unit in units:
        known = layout.distances.get(places[unit], {})
        for node in sorted(left, key=lambda other: (known.get(other, 0), other)):
            missing = sizes[unit] - len(parts[unit])
            parts[unit] = parts[unit] + left[node][:missing]
            left[node] = left[node][missing:]
    given = {unit: ({cpu for core in part for cpu in core}, 1) for unit, part in parts.items()}
    for node, living in homes.items():
        # Fewer cores than units: they divide the hardware threads of their cores, and after that share them.
        if not all(parts[unit] for unit in living):
            own = cores[node] if mode == NODE else [core for found in cores.values() for core in found]
            crowd = living if mode == NODE else units
            given.update({unit: _part(own, position, len(crowd)) for position, unit in enumerate(crowd)})
    return given


def _part(cores: "Sequence[Core]", position: int, count: int) -> "Tuple[Set[int], int]":
    """(CPUs, processes on them) of one of `count` processes: whole cores, else single CPUs, else all of them."""
    if len(cores) >= count:
        return {cpu for core in _slice(cores, position, count) for cpu in core}, 1
    cpus = [cpu for core in cores for cpu in core]
    if len(cpus) >= count:
        return set(_slice(cpus, position, count)), 1
    return set(cpus), count


def _slice(items: "Sequence[Item]", position: int, count: int) -> "Sequence[Item]":
    """Part `position` of `count` consecutive parts, whose sizes differ by at most one."""
    size, rest = divmod(len(items), count)
    start = position * size + min(position, rest)
    return items[start : start + size + (position < rest)]
