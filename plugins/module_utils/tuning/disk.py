# SPDX-License-Identifier: Apache-2.0
"""Which disks, and devices made of them, are below a folder, and how each is recognised after a reboot."""

import os
from typing import Any, List, Tuple

from ..host.files import below, exists, names_in, read_text, resolve

# No storage has more layers and disks than this below a single file system.
MOST_DEVICES = 256


class NotHere(Exception):
    """The host has no such thing, or cannot set it itself; the message says why."""


def mount_table(root: str) -> Any:
    """`[(mount point, major:minor, file system)]` in the order in which they were mounted (proc(5), mountinfo)."""
    rows = []
    for line in (read_text(root, "/proc/self/mountinfo") or "").splitlines():
        words = line.split(" ")
        if len(words) < 10 or "-" not in words:
            continue
        point = words[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        rows.append((point, words[2], words[words.index("-") + 1]))
    return rows


def mount_of(root: str, folder: str) -> Tuple[str, str, str]:
    """The row of the file system that `folder` is on, or will be on once it is created."""
    best = None
    for row in mount_table(root):
        inside = folder == row[0] or folder.startswith(row[0].rstrip("/") + "/")
        # Of equal mount points, the later one hides the earlier one.
        if inside and (best is None or len(row[0]) >= len(best[0])):
            best = row
    if best is None:
        raise NotHere(f"/proc/self/mountinfo names no file system for {folder}")
    return best


def devices_below(root: str, folder: str) -> List[str]:
    """Names (as in /sys/block) of the device that the file system of `folder` is on and of all below it, topmost first.

    A file system reads ahead as its own device says, whatever the disks below LVM, encryption or md say. NotHere for
    network and memory file systems.
    """
    point, number, kind = mount_of(root, folder)
    device = "/sys/dev/block/" + number
    if not exists(root, device):
        raise NotHere(f"{folder} lies on {point} ({kind}), which is not a disk of this host")
    found = []  # type: List[str]
    todo = [_device_name(root, device)]
    while todo and len(found) < MOST_DEVICES:
        name = _whole(root, todo.pop(0))
        if name not in found:
            found.append(name)
            todo += sorted(names_in(root, f"/sys/class/block/{name}/slaves"))
    return found


def disks_below(root: str, folder: str) -> List[str]:
    """Those of `devices_below` that are not made of other devices."""
    return [name for name in devices_below(root, folder) if not names_in(root, f"/sys/class/block/{name}/slaves")]


def _device_name(root: str, path: str) -> str:
    return os.path.basename(resolve(root, path) or path)


def _whole(root: str, name: str) -> str:
    """The disk of a partition, else the device itself."""
    if not exists(root, f"/sys/class/block/{name}/partition"):
        return name
    return os.path.basename(os.path.dirname(resolve(root, "/sys/class/block/" + name) or ""))


def is_flash(root: str, disk: str) -> bool:
    """False for a spinning disk; NotHere if the kernel does not say."""
    word = read_text(root, f"/sys/block/{disk}/queue/rotational")
    if word not in ("0", "1"):
        raise NotHere(f"the kernel does not say whether {disk} spins")
    return word == "0"


def udev_match(root: str, disk: str) -> str:
    """The part of a udev rule that recognises this device by any name: its world wide or serial number, or its UUID."""
    for path, words in (
        ("dm/uuid", 'ATTR{{dm/uuid}}=="{}"'),
        ("md/uuid", 'ATTR{{md/uuid}}=="{}"'),
        ("wwid", 'ATTR{{wwid}}=="{}"'),
        ("device/wwid", 'ATTRS{{wwid}}=="{}"'),
        ("serial", 'ATTR{{serial}}=="{}"'),
        ("device/serial", 'ATTRS{{serial}}=="{}"'),
    ):
        number = read_text(root, f"/sys/block/{disk}/{path}")
        # Quotes, and characters that udev takes for patterns, cannot be in a rule.
        if number and not set(number) & set("\"'*?[]|\\"):
            return words.format(number)
    return f'KERNEL=="{disk}"'


def device_file(root: str, disk: str) -> str:
    return below(root, "/dev/" + disk)
