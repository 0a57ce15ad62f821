# SPDX-License-Identifier: Apache-2.0
"""What is on the path between two GPUs: the IOMMU, and access control in PCIe bridges.

Sources: Documentation/ABI/testing/sysfs-kernel-iommu_groups of the kernel; linux/pci_regs.h for the registers.
"""

import os
import re
import struct
from typing import Any, Dict, Iterable, List, Union

from ...host.bounded import run_bounded
from ...host.files import exists, link_target, read_bytes, read_text
from ...probe.hardware import PCI_FOLDER
from ...verdict.report import Record

SECONDS = 10
GROUPS = "/sys/kernel/iommu_groups"
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
NO_GROUP = "off"
# Everybody can read the first bytes; the rest is for root. PCIe devices have 4096, others 256.
PLAIN_BYTES = 256
EXTENDED_START = 0x100
ACS = 0x000D
ACS_CONTROL = 6
SILENT = 0xFFFFFFFF


def read_machine() -> str:
    """ "none" on bare metal, else the hypervisor that systemd-detect-virt names."""
    done = run_bounded(["systemd-detect-virt", "--vm"], SECONDS)
    word = done.stdout.strip()
    if done.rc is None or not word:
        raise OSError(done.problem or "systemd-detect-virt says nothing")
    return word


def read_isolation(root: str, gpus: Iterable[Record]) -> List[Dict[str, Any]]:
    """`[{pci_id, iommu, bridges: [{pci_id, acs}]}]` of the probe's GPUs, bridges from the processor to the card.

    `iommu` is "off" or the kernel's word for the card's group; `acs` is "on", "off", or "absent" from the bridge.
    """
    return [_read_gpu(root, gpu["pci_id"]) for gpu in gpus]


def _read_gpu(root: str, pci_id: str) -> Dict[str, Any]:
    folder = f"{PCI_FOLDER}/{pci_id}"
    way = link_target(root, folder)
    if way is None:
        raise ValueError(f"{folder} is not a link: the bridges above the card are not known")
    above = [part for part in way.split("/")[:-1] if ADDRESS.fullmatch(part)]
    return {
        "pci_id": pci_id,
        "iommu": _iommu(root, folder),
        "bridges": [{"pci_id": bridge, "acs": _acs(root, bridge)} for bridge in above],
    }


def _iommu(root: str, folder: str) -> Union[str, Dict[str, str]]:
    group = link_target(root, folder + "/iommu_group")
    if group is None:
        return {"unreadable": f"{folder} is not there"} if not exists(root, folder) else NO_GROUP
    path = f"{GROUPS}/{os.path.basename(group)}/type"
    return read_text(root, path) or {"unreadable": f"{path} cannot be read"}


def _acs(root: str, bridge: str) -> Union[str, Dict[str, str]]:
    path = f"{PCI_FOLDER}/{bridge}/config"
    try:
        return parse_acs(read_bytes(root, path) or b"")
    except ValueError as error:
        return {"unreadable": f"{path}: {error}"}


def parse_acs(config: bytes) -> str:
    """on, off or absent: access control in a configuration space; ValueError if it cannot be determined."""
    if len(config) < PLAIN_BYTES:
        raise ValueError("only root may read it")
    here, seen = EXTENDED_START, set()
    while here >= EXTENDED_START and here not in seen and here + ACS_CONTROL + 2 <= len(config):
        seen.add(here)
        (header,) = struct.unpack_from("<I", config, here)
        if header == SILENT:
            raise ValueError("the bridge does not answer")
        if header & 0xFFFF == ACS:
            (control,) = struct.unpack_from("<H", config, here + ACS_CONTROL)
            return "on" if control else "off"
        here = header >> 20 & 0xFFC
    return "absent"
