# SPDX-License-Identifier: Apache-2.0
"""One name for a disk, whichever of its parts the kernel speaks of: nvme0n1p2 and nvme0 are nvme0, sda3 is sda."""

from ..host.patterns import lazily

PART = lazily(r"(nvme[0-9]+)n[0-9]+(?:p[0-9]+)?|((?:sd|vd|xvd|hd)[a-z]+)[0-9]*|(mmcblk[0-9]+)p[0-9]+")


def disk_name(name: str) -> str:
    """The disk of a partition or namespace; any other name as it is."""
    found = PART.fullmatch(name)
    return next(part for part in found.groups() if part) if found else name
