# SPDX-License-Identifier: Apache-2.0
"""How the NUMA nodes of a host are related to each other."""

from ..host.named_tuple import Record
from ..host.topology import all_node_cpus, node_distances, socket_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Optional, Set


class Layout(Record):
    """The NUMA nodes of a host.

    cpus       {node: set of CPUs}, empty for a node without CPUs
    distances  {node: {node: distance}}; {} if the firmware's table cannot be read
    sockets    {node: processor package}, None if that is unknown
    """

    __slots__ = ("cpus", "distances", "sockets")
    cpus: "Dict[int, Set[int]]"
    distances: "Dict[int, Dict[int, int]]"
    sockets: "Dict[int, Optional[int]]"


def read_layout(root: str = "/") -> Layout:
    """The host's `Layout`."""
    cpus = all_node_cpus(root)
    sockets = {node: socket_of(min(found), root) if found else None for node, found in cpus.items()}
    return Layout(cpus, node_distances(root), sockets)
