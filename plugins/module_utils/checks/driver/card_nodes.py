# SPDX-License-Identifier: Apache-2.0
"""Which card has which device node, so that a finding about a node is one about its card."""

from typing import Any, Dict, List, Sequence, Tuple

from ...host.topology import find_all_gpus
from ...verdict.check import QUICK, slots, unnamed
from ...verdict.evidence import Evidence
from ...verdict.reader import Reader
from ...verdict.reading_sources import by_hand


def read_card_nodes(root: str) -> List[Dict[str, str]]:
    """`[{pci_id, node}]` of the cards that the loaded driver holds: it alone knows their numbers."""
    return [
        {"pci_id": gpu.pci_id, "node": f"/dev/nvidia{gpu.minor}"}
        for gpu in find_all_gpus(root)
        if gpu.minor is not None
    ]


CARD_NODES = Reader(
    name="card_nodes",
    level=QUICK,
    read=lambda seen: read_card_nodes(seen.root),
    source=by_hand("/proc/driver/nvidia/gpus", "grep -r Minor /proc/driver/nvidia/gpus"),
)


def owners(readings: Evidence) -> Dict[str, str]:
    """`{device node: its card}`, as items of findings; {} in readings of an earlier release, or if it is unreadable."""
    rows = readings.value.get(CARD_NODES.name) if isinstance(readings.value, dict) else None
    if not isinstance(rows, list):
        return {}
    known = [(card.text("node"), card.pci_id("pci_id")) for card in readings.each(CARD_NODES.name)]
    return {node: slots([pci_id])[0] for node, pci_id in known}


def without_node(readings: Evidence, nodes: Sequence[str], wanted: int) -> List[str]:
    """The cards that have none of these nodes: those that the driver holds by name, the others unnamed."""
    named = sorted(card for node, card in owners(readings).items() if node not in nodes)
    return named + list(unnamed(wanted - len(nodes) - len(named)))


def lost_cards(gpus: Any) -> Tuple[str, ...]:
    """The items of a finding about lost cards: those that the driver names, () for an answer that names none."""
    named = [gpu for gpu in gpus if isinstance(gpu, dict) and gpu.get("lost")] if isinstance(gpus, list) else []
    return slots(str(gpu.get("pci_id")) for gpu in named)
