# SPDX-License-Identifier: Apache-2.0
"""The switches between the GPUs, as sysfs shows them, and the platform that they make; no driver is asked."""

from typing import Any, Dict, List, Optional, Tuple

from ..gpu.devices import NVIDIA_VENDOR
from ..gpu.platforms import Gpus, behind_bridges, may_have_bridges, platform_of
from ..host.files import exists, names_in, read_bytes, read_text
from .hardware import PCI_FOLDER

# An NVSwitch is a bridge of another kind, with NVIDIA's vendor number.
BRIDGE_CLASS = "0x0680"
# From B200 on the switches are no PCI devices. A function of a ConnectX-7 leads to them, which has the id of any other
# ConnectX-7 for InfiniBand: its vital product data says what it is (gpu-driver-container, _assert_nvlink5_system).
CONNECTX = ("0x15b3", "0x1021", "0x0207")
SWITCH_MANAGEMENT = b"SW_MNG"


def read_platform(root: str, gpus: Gpus, machine: str) -> Dict[str, Any]:
    """`{id, name, needs, switches, bridges, known, because}`; docs/parts/node.md explains them.

    gpus     what hardware.read_gpus returned          machine  "x86_64"
    """
    switches = read_switch_ids(root)
    candidate = behind_bridges(gpus, machine)
    bridges, closed = _read_bridges(root) if may_have_bridges(gpus) else (0, "")
    row, because = platform_of(gpus, switches, bridges, machine)
    if row is None and candidate is not None and closed:
        because = f"whether {closed} says SW_MNG: only root can read it"
    elif row is None and candidate is not None and not because:
        because = (
            f"no bridge to its NVSwitches is on the PCI bus ({candidate.name}): in a virtual machine, the host sets "
            "them up; in a server, look for the ConnectX-7 functions of the board (lspci -d 15b3:1021)"
        )
        return _record(None, switches, bridges, True, because)
    return _record(row, switches, bridges, row is not None or not because, because)


def _record(row: Any, switches: Dict[str, int], bridges: Optional[int], known: bool, because: str) -> Dict[str, Any]:
    return {
        "id": row.key if row else None,
        "name": row.name if row else "",
        "needs": list(row.needs) if row else [],
        "switches": switches,
        "bridges": bridges,
        "known": known,
        "because": because,
    }


def read_switch_ids(root: str = "/") -> Dict[str, int]:
    """`{device id: number}` of the NVSwitches that are PCI devices; "unknown" for an id that cannot be read."""
    found: Dict[str, int] = {}
    for name in names_in(root, PCI_FOLDER):
        folder = f"{PCI_FOLDER}/{name}"
        ours = read_text(root, folder + "/vendor") == "0x" + NVIDIA_VENDOR
        if ours and (read_text(root, folder + "/class") or "").startswith(BRIDGE_CLASS):
            device_id = (read_text(root, folder + "/device") or "")[2:].lower() or "unknown"
            found[device_id] = found.get(device_id, 0) + 1
    return found


def _read_bridges(root: str) -> Tuple[Optional[int], str]:
    """`(number, path)`: functions that lead to NVSwitches; None and a file that only root reads if nobody can tell."""
    number = 0
    closed = ""
    for folder in _connectx_folders(root):
        data = read_bytes(root, folder + "/vpd")
        if data is None and exists(root, folder + "/vpd"):
            closed = closed or folder + "/vpd"
        number += SWITCH_MANAGEMENT in (data or b"")
    return (None, closed) if closed and not number else (number, "")


def _connectx_folders(root: str) -> List[str]:
    vendor, device, kind = CONNECTX
    folders = [f"{PCI_FOLDER}/{name}" for name in names_in(root, PCI_FOLDER)]
    return [
        folder
        for folder in folders
        if (read_text(root, folder + "/vendor"), read_text(root, folder + "/device")) == (vendor, device)
        and (read_text(root, folder + "/class") or "").startswith(kind)
    ]
