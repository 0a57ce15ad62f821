# SPDX-License-Identifier: Apache-2.0
"""The disks and network links that a host has, from /sys alone.

Sources: Linux Documentation/ABI/stable/sysfs-block, testing/sysfs-class-net, stable/sysfs-class-infiniband.
"""

import re
from typing import Any, Dict, List

from ...host.files import exists, names_in, read_int, read_text
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

    A link that is down has no speed and is not among them. One that does not answer is `{name, unreadable}`, and a kind
    that cannot be read {"unreadable": why}.
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

    The kernel asks their driver, and may do so with a lock that all of them need: one that hangs does not answer.
    """
    names = [
        name
        for name in names_in(root, NET)
        if exists(root, f"{NET}/{name}/device") and read_int(root, f"{NET}/{name}/type") == ETHERNET
    ]
    answers = examine_at_once(lambda name: _speed(root, name), names, ETHERNET_SECONDS)
    found: List[Dict[str, Any]] = []
    for at, name in enumerate(names):
        mbits, state = answers[at] or (None, None)
        if not answers[at]:
            found.append({"name": name, "unreadable": f"{name} does not answer within {ETHERNET_SECONDS:g} s"})
        elif mbits is not None and mbits > 0:
            found.append({"name": name, "gbits": mbits / 1000.0})
        elif mbits is None and state == "up":
            found.append({"name": name, "unreadable": f"{name} is up and does not say its speed"})
    return found


def _speed(root: str, name: str) -> List[Any]:
    """[Mbit/s, state]; while there is no link, the speed is -1 or an error."""
    return [read_int(root, f"{NET}/{name}/speed"), read_text(root, f"{NET}/{name}/operstate")]


def _rdma(root: str) -> List[Dict[str, Any]]:
    found = []
    for port in read_infiniband(root) or []:
        if "unreadable" in port:
            found.append({"name": port["name"], "unreadable": port["unreadable"]})
            continue
        rate = re.match(r"([0-9]+(?:\.[0-9]+)?) Gb/sec", port["rate"] or "")
        if not port["state"] or (port["state"] == "ACTIVE" and not rate):
            found.append({"name": port["name"], "unreadable": f"{port['name']} does not say its state and rate"})
        elif port["state"] == "ACTIVE" and rate:
            found.append({"name": port["name"], "gbits": float(rate.group(1))})
    return found
