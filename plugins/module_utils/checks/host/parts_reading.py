# SPDX-License-Identifier: Apache-2.0
"""The disks and network links that a host has, from /sys alone.

Sources: Linux Documentation/ABI/stable/sysfs-block, testing/sysfs-class-net, stable/sysfs-class-infiniband.
"""

import re
from typing import Any, Dict, List

from ...host.files import exists, names_in, read_int
from ...host.patterns import lazily
from ...readings.links import read_infiniband

BLOCK, NET = "/sys/block", "/sys/class/net"
SECTOR_BYTES = 512
# No disks of their own: loop devices, memory, volumes over disks, drives for media, the hidden paths of one NVMe disk,
# and areas of a flash card.
NO_DISK = lazily(r"(?:loop|ram|zram|dm-|md|sr|fd|nbd|rbd|drbd|bcache)\d*|nvme\d+c\d+n\d+|mmcblk\d+(?:boot|rpmb)\d*")
ETHERNET = 1


def read_parts(root: str) -> Dict[str, Any]:
    """`{disks: [{name, gb}], ethernet: [{name, gbits}], rdma: [{name, gbits}]}`; gb and gbits are decimal.

    A link that is down has no speed and is not among them. OSError if /sys shows no block devices at all.
    """
    if not exists(root, BLOCK):
        raise OSError(f"{BLOCK} is not there")
    return {"disks": _disks(root), "ethernet": _ethernet(root), "rdma": _rdma(root)}


def _disks(root: str) -> List[Dict[str, Any]]:
    found = []
    for name in names_in(root, BLOCK):
        folder = f"{BLOCK}/{name}"
        sectors = read_int(root, folder + "/size")
        is_disk = exists(root, folder + "/device") and not NO_DISK.match(name)
        if is_disk and sectors and not read_int(root, folder + "/removable"):
            found.append({"name": name, "gb": round(sectors * SECTOR_BYTES / 1e9, 1)})
    return found


def _ethernet(root: str) -> List[Dict[str, Any]]:
    """Links of adapters of this host; those of bridges, bonds and containers have no device."""
    found = []
    for name in names_in(root, NET):
        folder = f"{NET}/{name}"
        if not exists(root, folder + "/device") or read_int(root, folder + "/type") != ETHERNET:
            continue
        try:
            # -1 or an error while there is no link.
            mbits = read_int(root, folder + "/speed")
        except OSError:
            mbits = None
        if mbits is not None and mbits > 0:
            found.append({"name": name, "gbits": mbits / 1000.0})
    return found


def _rdma(root: str) -> List[Dict[str, Any]]:
    found = []
    for port in read_infiniband(root) or []:
        rate = re.match(r"([0-9]+(?:\.[0-9]+)?) Gb/sec", port["rate"] or "")
        if port["state"] == "ACTIVE" and rate:
            found.append({"name": port["name"], "gbits": float(rate.group(1))})
    return found
