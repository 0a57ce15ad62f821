# SPDX-License-Identifier: Apache-2.0
"""Whether a GPU is only a part of a card (vGPU), which a hypervisor gave to this virtual machine.

Its PCI id is the whole card's. Told apart by what the hypervisor writes into its configuration space, by its subsystem
id, and, where a guest driver runs, by the name and the mode that this driver gives it. The first needs root, the second
no driver, and a card that was passed through as a whole shows none of them.
"""

import re
from typing import Any, Callable, Dict, List, Optional, Sequence

from ..gpu.devices import NVIDIA_VENDOR
from ..gpu.nvidia_smi.absent import VGPU
from ..gpu.vgpu_types import is_vgpu_type
from ..host.files import read_bytes, read_colon_lines, read_text
from ..host.patterns import lazily
from .hardware import PCI_FOLDER

DRIVER_FOLDER = "/proc/driver/nvidia/gpus"
# NVIDIA A10-24Q, GRID V100D-8C, NVIDIA H100XM-1-10CME, GRID T4-2B4: gigabytes, and the series of the licence.
PROFILE = lazily(r"-[0-9]+(-[0-9]+)?[ABCQ](ME|GFX)?[0-9]?$")
# PCI configuration space: status and its bit for a list of capabilities, where that begins, one for vendors' own use.
STATUS, HAS_LIST, LIST, OWN_USE = 0x06, 0x10, 0x34, 0x09
# Of such a capability: its signature, its first record, and the record with the driver of the host; source:
# NVIDIA/k8s-device-plugin, internal/vgpu.
SIGNATURE, RECORDS, HOST_DRIVER, VERSION_BYTES = b"VF", 5, 0, 10
Ask = Callable[[Sequence[str]], Optional[str]]


def add_vgpus(root: str, gpus: List[Dict[str, Any]], ask: Optional[Ask]) -> None:
    """Add to each GPU of `read_gpus` what says that it is a part of a card.

    vgpu  None for a whole card, else `{because, host_driver}`: the version of the hypervisor's driver, "" if unknown
    ask   None where no plan is made of it: nvidia-smi may hang, and checks ask it themselves
    """
    for gpu in gpus:
        gpu["vgpu"] = _read_vgpu(root, gpu)
    untold = [gpu for gpu in gpus if gpu["vgpu"] is None and gpu["bound_driver"] == "nvidia"]
    if ask and untold and is_virtual(root):
        modes = _modes(ask(["nvidia-smi", "-q"]))
        for gpu in untold:
            mode = modes.get(gpu["pci_id"].lower(), "")
            if mode.lower() in VGPU:
                gpu["vgpu"] = {"because": f"nvidia-smi's virtualization mode is {mode}", "host_driver": ""}


def is_virtual(root: str) -> bool:
    """Whether the processor says that a hypervisor is below this system."""
    flags = re.search(r"(?m)^flags\s*:(.*)$", read_text(root, "/proc/cpuinfo") or "")
    return flags is not None and "hypervisor" in flags.group(1).split()


def _read_vgpu(root: str, gpu: Dict[str, Any]) -> Optional[Dict[str, str]]:
    folder = f"{PCI_FOLDER}/{gpu['pci_id']}"
    own = _capability(read_bytes(root, folder + "/config") or b"")
    if own is not None:
        return {"because": "its configuration space is that of a vGPU", "host_driver": _host_driver(own)}
    vendor, subsystem = (read_text(root, f"{folder}/subsystem_{name}") or "" for name in ("vendor", "device"))
    subsystem = subsystem[2:].lower()
    if vendor == "0x" + NVIDIA_VENDOR and is_vgpu_type(gpu["device_id"], subsystem):
        return {"because": f"its subsystem id {NVIDIA_VENDOR}:{subsystem} is that of a vGPU", "host_driver": ""}
    told = read_colon_lines(read_text(root, f"{DRIVER_FOLDER}/{gpu['pci_id']}/information")).get("Model", "")
    if PROFILE.search(told):
        return {"because": f"the driver calls it {told}", "host_driver": ""}
    return None


def _capability(config: bytes) -> Optional[bytes]:
    """The capability with which a hypervisor marks a vGPU; None where there is none, or only its beginning is shown."""
    if len(config) < 256 or not config[STATUS] & HAS_LIST:
        return None
    place = config[LIST]
    seen = []  # type: List[int]
    while 0x40 <= place <= 0xFC and place not in seen:
        seen.append(place)
        found = config[place : place + config[place + 2]]
        if config[place] == OWN_USE and found[3:5] == SIGNATURE:
            return found
        place = config[place + 1]
    return None


def _host_driver(found: bytes) -> str:
    """The version that the hypervisor's driver has, from the record that names it; "" if there is no such record."""
    place = RECORDS
    while place + 2 <= len(found):
        kind, length = found[place], found[place + 1]
        if kind == HOST_DRIVER:
            text = found[place + 2 : place + 2 + VERSION_BYTES].split(b"\0")[0].decode("ascii", "replace")
            return text if re.match(r"[0-9]{3,4}\.[0-9]{1,4}(\.[0-9]{1,4})?$", text) else ""
        if length < 2:
            break
        place += length
    return ""


def _modes(text: Optional[str]) -> Dict[str, str]:
    """`{address: mode}` of what `nvidia-smi -q` says of each GPU, with an address as sysfs writes it."""
    modes = {}  # type: Dict[str, str]
    address = ""
    for line in (text or "").splitlines():
        begins = re.match(r"GPU [0-9A-Fa-f]*([0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*$", line)
        address = begins.group(1).lower() if begins else address
        mode = re.match(r"\s+Virtualization Mode\s*:\s*(\S.*?)\s*$", line)
        if mode:
            modes.setdefault(address, mode.group(1))
    return modes
