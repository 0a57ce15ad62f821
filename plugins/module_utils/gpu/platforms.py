# SPDX-License-Identifier: Apache-2.0
"""Which board with switches the GPUs of a node are on, from what the PCI bus shows.

The rows and their sources are in roles/preflight/files/matrix/platforms.yml.
"""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from .cards import card_of
from .device_rows import Platform
from .device_table import PLATFORMS

# What a platform can need; rows of platform_parts.
FABRIC_MANAGER, NSCQ, NVLSM, IMEX = PARTS = ("fabric_manager", "nscq", "nvlsm", "imex")
# GPUs on a board with switches; boards with fewer link them directly.
FULL_BOARD = 8
Gpus = Sequence[Mapping[str, Any]]


def behind_bridges(gpus: Gpus, machine: str) -> Optional[Platform]:
    """The row for boards with these GPUs whose switches are reached through bridges; None if there is none."""
    rows = [row for row in PLATFORMS if row.bridges and row.machine in ("", machine)]
    return next((row for row in rows if _own(row, gpus) and _all_known(row, gpus)), None)


def may_have_bridges(gpus: Gpus) -> bool:
    """Whether GPUs are of an architecture of such boards, or of one that nobody knows yet; also if none is seen."""
    known = {name for row in PLATFORMS if row.bridges for name in row.architectures}
    return not gpus or any(gpu["architecture"] in known | {"unknown"} for gpu in gpus)


def platform_of(
    gpus: Gpus, switches: Dict[str, int], bridges: Optional[int], machine: str
) -> Tuple[Optional[Platform], str]:
    """`(row, why)`: the platform and "", or None and why no row fits, "" for a node without switches.

    gpus      as in gpu_node          switches  `{PCI device id: number}` of the NVSwitches on the bus
    bridges   functions that lead to switches; None if that cannot be told          machine  "x86_64"
    """
    found = [row for row in PLATFORMS if _fits(row, gpus, switches, bridges, machine)]
    if found:
        return found[0], ""
    parts = [f"{number} NVSwitches 10de:{device_id}" for device_id, number in sorted(switches.items())]
    parts += [f"{bridges} bridges to NVSwitches (ConnectX-7, SW_MNG)"] if bridges else []
    if not parts:
        return None, ""
    names = sorted({gpu["name"] for gpu in gpus})
    return None, f"{' and '.join(parts)} with {', '.join(names) or 'no GPU'} on {machine}"


def assumed_platform(gpus: Gpus, machine: str) -> Dict[str, Any]:
    """The usual board of cards that are only asked about, in the form of gpu_node.platform; {} without switches.

    B200, B300, GB200 and GB300 are on no other board; A100 to H200 for a socket are where there are eight or more.
    """
    for row in PLATFORMS:
        own = _own(row, gpus) if row.machine in ("", machine) else []
        on_board = all(card_of(gpu["name"], gpu["device_id"]).nvlink == "board" for gpu in own)
        if own and (_all_known(row, gpus) if row.gpus else on_board and len(own) >= FULL_BOARD):
            return {"id": row.key, "name": row.name, "needs": list(row.needs), "known": True, "assumed": True}
    return {}


def _fits(row: Platform, gpus: Gpus, switches: Dict[str, int], bridges: Optional[int], machine: str) -> bool:
    if row.machine not in ("", machine) or bool(row.switches) != bool(switches) or row.bridges != bool(bridges):
        return False
    if not all(_within(row.switches, device_id) for device_id in switches):
        return False
    # A board whose GPUs have all fallen off the bus is still that board, if its switches are there.
    alone = not gpus and bool(switches or bridges)
    return alone or (bool(_own(row, gpus)) and _all_known(row, gpus))


def _own(row: Platform, gpus: Gpus) -> List[Mapping[str, Any]]:
    return [gpu for gpu in gpus if gpu["architecture"] in row.architectures]


def _all_known(row: Platform, gpus: Gpus) -> bool:
    return not row.gpus or all(_within(row.gpus, gpu["device_id"]) for gpu in _own(row, gpus))


def _within(spans: Sequence[Tuple[str, str]], device_id: str) -> bool:
    # Four hexadecimal digits in lower case have the order of their numbers.
    return any(first <= device_id <= last for first, last in spans)
