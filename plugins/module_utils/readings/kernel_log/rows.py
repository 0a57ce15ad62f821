# SPDX-License-Identifier: Apache-2.0
"""The format of a row about kernel messages; `rows_gpu`, `_network` and `_host` hold the rows."""

from typing import NamedTuple

# Kinds of findings. UNCORRECTED makes its check FAIL, CORRECTED and WATCH make it WARN, LOST says that lines are
# missing; HARMLESS rows come before a wider pattern that would match their lines.
UNCORRECTED = "uncorrected"
CORRECTED = "corrected"
WATCH = "watch"
LOST = "lost"
HARMLESS = "harmless"
CLASSES = (UNCORRECTED, CORRECTED, WATCH, LOST, HARMLESS)

# What is at fault: one device, whose address is in the line, or the node until its next boot.
DEVICE = "device"
BOOT = "boot"


class Row(NamedTuple):
    """One kind of message: its name in `kernel_log.findings`, the check that judges it, and the required action.

    action  "" for the check's own; else the message names a cause, and this is what helps against it
    """

    name: str
    check: str
    kind: str
    scope: str
    pattern: str
    remedy: str
    source: str
    action: str = ""


# An address as PCI drivers print it, after the driver's name.
AT = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
DRIVER_AT = r"[A-Za-z0-9_-]+ " + AT + ": "
