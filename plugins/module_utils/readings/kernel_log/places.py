# SPDX-License-Identifier: Apache-2.0
"""Which device a kernel log message is about, and its text as a report may show it."""

from typing import Optional

from ...host.patterns import lazily
from .rows import BOOT, Row

PCI = lazily(r"\b([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\b")
SHORT_PCI = lazily(r"(?:\[|device=)(?:0x)?([0-9a-fA-F]{2}):(?:0x)?([0-9a-fA-F]{2})\.[0-7]")
DISK = lazily(r"\b(nvme[0-9]+(?:n[0-9]+(?:p[0-9]+)?)?)\b|\bdev(?:ice)? ([A-Za-z0-9_/-]+)|\(([A-Za-z0-9_/-]+)\)")
SERVER = lazily(
    r"server (\S+) not responding|ceph: (mds[0-9]+)|CIFS: (?:VFS: )?\\*(\S+) has not|Connection to (\S+) \(at"
    r"|evicted by ([^\s;]+)"
)
REMOTE = "kernel.remote_storage"
# Checks of disks; in other messages, what looks like the name of a disk is none.
OF_DISKS = ("kernel.nvme", "kernel.filesystem")
LONGEST_TEXT = 200


def address(text: Optional[str]) -> str:
    """The address as sysfs writes it, without the function, which the kernel leaves out; "unnamed" if there is none."""
    if not text:
        return "unnamed"
    parts = text.lower().split(":")
    domain = int(parts[0], 16) if len(parts) == 3 else 0
    return f"{domain:04x}:{parts[-2]}:{parts[-1]}"


def place(row: Row, message: str) -> str:
    """What a finding is about: a PCI address, the name of a disk or of a file server, or "host"."""
    if row.scope == BOOT:
        return "host"
    if row.check == REMOTE:
        match = SERVER.search(message)
        return next(group for group in match.groups() if group) if match else "host"
    match = PCI.search(message)
    if match:
        return address(match.group(0))
    match = SHORT_PCI.search(message)
    if match:
        return address(f"{match.group(1)}:{match.group(2)}")
    match = DISK.search(message) if row.check in OF_DISKS else None
    return next(group for group in match.groups() if group) if match else "host"


def printable(text: str) -> str:
    """The text without terminal control characters, and short enough for a report."""
    text = text[:LONGEST_TEXT]
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
