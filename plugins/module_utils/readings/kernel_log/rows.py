# SPDX-License-Identifier: Apache-2.0
"""The form of a row about messages of the kernel; `rows_gpu`, `_network` and `_host` hold the rows."""

from typing import NamedTuple

# What a finding is. UNCORRECTED ends its check in FAIL, CORRECTED and WATCH in WARN, LOST says that lines are missing;
# HARMLESS rows stand before a wider pattern that would take their lines.
UNCORRECTED = "uncorrected"
CORRECTED = "corrected"
WATCH = "watch"
LOST = "lost"
HARMLESS = "harmless"
CLASSES = (UNCORRECTED, CORRECTED, WATCH, LOST, HARMLESS)

# Whose fault it is: of one device, whose address stands in the line, or of the node until its next boot.
DEVICE = "device"
BOOT = "boot"


class Row(NamedTuple):
    """One form of message: its name in `kernel_log.findings`, the check that judges it, and what it asks for."""

    name: str
    check: str
    kind: str
    scope: str
    pattern: str
    remedy: str
    source: str


# An address as PCI drivers print it; a driver's name stands before it.
AT = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
DRIVER_AT = r"[A-Za-z0-9_-]+ " + AT + ": "
