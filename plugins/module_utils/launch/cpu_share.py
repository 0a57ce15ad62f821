# SPDX-License-Identifier: Apache-2.0
"""Divide the CPUs of a host among the processes that share it, so that none leaves its node and no two overlap.

Every rank computes the same division from the same facts and takes its own part; they do not talk to each other.
"""

from ..host.record import Record


class Share(Record):
    """What one process gets.

    cpus     set of CPUs, never empty
    sharing  number of processes that run on exactly these CPUs: above 1 only where there are fewer CPUs than processes
    at_home  the CPUs lie on the wanted NUMA nodes
    """

    __slots__ = ("cpus", "sharing", "at_home")


def nearest(nodes, allowed, node_cpus):
    """The `Share` of a process that is alone: the allowed CPUs of `nodes`, or all allowed ones where there are none.

    `node_cpus` is {node: set of CPUs}; a node that is not in it is unknown.
    """
    known = bool(nodes) and all(node in node_cpus for node in nodes)
    near = allowed & set().union(*(node_cpus[node] for node in nodes)) if known else set()
    return Share(near or set(allowed), 1, bool(near))


def divide(wanted, mine, allowed, node_cpus, cores_of):
    """The `Share` of the units `mine` (indices into `wanted`).

    wanted     for every unit (a rank, or a GPU of a rank) the NUMA node that it wants, None where nobody knows
    node_cpus  {node: set of CPUs}, all nodes of the machine
    cores_of   function: set of CPUs -> list of lists, the CPUs of each physical core
    """
    pools = {node: cpus & allowed for node, cpus in node_cpus.items() if cpus & allowed}
    places = _places(wanted, pools)
    cpus, sharing = set(), 1
    for unit in mine:
        companions = [other for other, place in enumerate(places) if place == places[unit]]
        pool = allowed if places[unit] is None else pools[places[unit]]
        part, crowd = _part(cores_of(pool), companions.index(unit), len(companions))
        cpus |= part
        sharing = max(sharing, crowd)
    at_home = all(places[unit] is not None and places[unit] == wanted[unit] for unit in mine)
    return Share(cpus, sharing, at_home)


def _places(wanted, pools):
    """For every unit the node whose CPUs it gets; all None where no unit can have its node.

    A unit whose node is unknown or forbidden goes to the node with the most CPUs for each unit already there.
    """
    if not any(node in pools for node in wanted):
        return [None] * len(wanted)
    load = {node: wanted.count(node) for node in pools}
    places = []
    for node in wanted:
        if node not in pools:
            node = max(sorted(pools), key=lambda candidate: len(pools[candidate]) / (load[candidate] + 1.0))
            load[node] += 1
        places.append(node)
    return places


def _part(cores, position, count):
    """(CPUs, processes on them) of one of `count` processes: whole cores, else single CPUs, else all of them."""
    if len(cores) >= count:
        return {cpu for core in _slice(cores, position, count) for cpu in core}, 1
    cpus = [cpu for core in cores for cpu in core]
    if len(cpus) >= count:
        return set(_slice(cpus, position, count)), 1
    return set(cpus), count


def _slice(items, position, count):
    """Part `position` of `count` consecutive parts, whose sizes differ by one at most."""
    size, rest = divmod(len(items), count)
    start = position * size + min(position, rest)
    return items[start : start + size + (position < rest)]
