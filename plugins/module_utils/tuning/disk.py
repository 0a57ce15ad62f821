# SPDX-License-Identifier: Apache-2.0
"""Which disk lies below a folder, and how it is known again after a reboot."""

import os

from ..host.files import below, exists, names_in, read_text, resolve


class NotHere(Exception):
    """The host has no such thing, or it is not this host's to set; the message says why."""


def mount_table(root):
    """`[(mount point, major:minor, file system)]` in the order in which they were mounted (proc(5), mountinfo)."""
    rows = []
    for line in (read_text(root, "/proc/self/mountinfo") or "").splitlines():
        words = line.split(" ")
        if len(words) < 10 or "-" not in words:
            continue
        point = words[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        rows.append((point, words[2], words[words.index("-") + 1]))
    return rows


def mount_of(root, folder):
    """The row of the file system on which `folder` lies, or will lie when it is made."""
    best = None
    for row in mount_table(root):
        inside = folder == row[0] or folder.startswith(row[0].rstrip("/") + "/")
        # Of equal mount points the later hides the earlier.
        if inside and (best is None or len(row[0]) >= len(best[0])):
            best = row
    if best is None:
        raise NotHere(f"/proc/self/mountinfo names no file system for {folder}")
    return best


def disk_below(root, folder):
    """Name of the one disk (as in /sys/block) that holds `folder`; NotHere for networks, memory and several disks."""
    point, number, kind = mount_of(root, folder)
    device = "/sys/dev/block/" + number
    if not exists(root, device):
        raise NotHere(f"{folder} lies on {point} ({kind}), which is no disk of this host")
    disks = sorted(_disks(root, _device_name(root, device)))
    if len(disks) != 1:
        raise NotHere(f"{folder} lies on {len(disks)} disks ({', '.join(disks)}): set them by hand")
    return disks[0]


def _device_name(root, path):
    return os.path.basename(resolve(root, path) or path)


def _disks(root, name, depth=0):
    """Disks below a device: through partitions, and through what device mapper and md are made of."""
    if exists(root, f"/sys/class/block/{name}/partition"):
        parent = os.path.basename(os.path.dirname(resolve(root, "/sys/class/block/" + name) or ""))
        return {parent}
    slaves = names_in(root, f"/sys/class/block/{name}/slaves")
    if not slaves or depth > 8:
        return {name}
    return set().union(*(_disks(root, slave, depth + 1) for slave in slaves))


def is_flash(root, disk):
    """False for a spinning disk; NotHere when the kernel does not say."""
    word = read_text(root, f"/sys/block/{disk}/queue/rotational")
    if word not in ("0", "1"):
        raise NotHere(f"the kernel does not say whether {disk} turns")
    return word == "0"


def udev_match(root, disk):
    """The part of a udev rule that knows this disk under every name: its world wide or serial number."""
    for path, words in (
        ("wwid", 'ATTR{{wwid}}=="{}"'),
        ("device/wwid", 'ATTRS{{wwid}}=="{}"'),
        ("serial", 'ATTR{{serial}}=="{}"'),
        ("device/serial", 'ATTRS{{serial}}=="{}"'),
    ):
        number = read_text(root, f"/sys/block/{disk}/{path}")
        # Quotes, and what udev takes for patterns, cannot stand in a rule.
        if number and not set(number) & set("\"'*?[]|\\"):
            return words.format(number)
    return f'KERNEL=="{disk}"'


def device_file(root, disk):
    return below(root, "/dev/" + disk)
