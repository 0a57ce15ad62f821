# SPDX-License-Identifier: Apache-2.0
"""The disks and network links that a host has, from /sys alone.

Sources: Linux Documentation/ABI/stable/sysfs-block, testing/sysfs-class-net, stable/sysfs-class-infiniband.
"""

import re
from typing import Any, Dict, List

from ...host.files import exists, names_in, read_int
from ...host.in_child import examine_at_once
from ...host.patterns import lazily
from ...readings.attempt import attempt
from ...readings.links import read_infiniband

BLOCK, NET = "/sys/block", "/sys/class/net"
SECTOR_BYTES = 512
# No disks of their own: loop devices, memory, volumes over disks, drives for media, the hidden paths of one NVMe disk,
# and areas of a flash card.
NO_DISK = lazily(r"(?:loop|ram|zram|dm-|md|sr|fd|nbd|rbd|drbd|bcache)\d*|nvme\d+c\d+n\d+|mmcblk\d+(?:boot|rpmb)\d*")
ETHERNET = 1
ETHERNET_SECONDS = 3.0


def read_parts(root: str) -> Dict[str, Any]:
    """`{disks: [{name, gb}], ethernet: [{name, gbits}], rdma: [{name, gbits}]}`; gb and gbits are decimal.

    A link that is down has no speed and is not among them. What cannot be read is {"unreadable": why}.
    """
    return {"disks": attempt(_disks, root), "ethernet": attempt(_ethernet, root), "rdma": attempt(_rdma, root)}


def _disks(root: str) -> List[Dict[str, Any]]:
    """OSError if /sys shows no block devices at all."""
    if not exists(root, BLOCK):
        raise OSError(f"{BLOCK} is not there")
    found = []
    for name in names_in(root, BLOCK):
        folder = f"{BLOCK}/{name}"
        sectors = read_int(root, folder + "/size")
        is_disk = exists(root, folder + "/device") and not NO_DISK.match(name)
        if is_disk and sectors and not read_int(root, folder + "/removable"):
            found.append({"name": name, "gb": round(sectors * SECTOR_BYTES / 1e9, 1)})
    return found


def _ethernet(root: str) -> List[Dict[str, Any]]:
    """Links of adapters of this host; those of bridges, bonds and containers have no device.

    OSError if one does not answer: the kernel asks its driver, and may do so with a lock that all of them need.
    """
    names = [
        name
        for name in names_in(root, NET)
        if exists(root, f"{NET}/{name}/device") and read_int(root, f"{NET}/{name}/type") == ETHERNET
    ]
    # -1 or an error while there is no link.
    speeds = examine_at_once(lambda name: [read_int(root, f"{NET}/{name}/speed")], names, ETHERNET_SECONDS)
    silent = [name for at, name in enumerate(names) if speeds[at] is None]
    if silent:
        raise OSError(f"{NET}: {', '.join(silent)} did not answer within {ETHERNET_SECONDS:g} s")
    told = [(name, speeds[at][0]) for at, name in enumerate(names)]
    return [{"name": name, "gbits": mbits / 1000.0} for name, mbits in told if mbits is not None and mbits > 0]


def _rdma(root: str) -> List[Dict[str, Any]]:
    found = []
    for port in read_infiniband(root) or []:
        if "unreadable" in port:
            continue
        rate = re.match(r"([0-9]+(?:\.[0-9]+)?) Gb/sec", port["rate"] or "")
        if port["state"] == "ACTIVE" and rate:
            found.append({"name": port["name"], "gbits": float(rate.group(1))})
    return found
