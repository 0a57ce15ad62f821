# SPDX-License-Identifier: Apache-2.0
"""What the kernel writes about faults, as a table: one row for each form, judged in the order of the rows.

Xid and SXid have a table of their own (`xid_table`), machine checks and memory errors are groups of lines
(`hardware_records`). A pattern begins where the message does, so that a name inside a message is no finding.
Sources are files of the Linux kernel (4.18 to 6.17) and of NVIDIA's open kernel modules (535 to 610).
"""

import re

from .kernel_rows import CORRECTED, UNCORRECTED, WATCH
from .kernel_rows_gpu import DEVICE_ROWS
from .kernel_rows_host import HOST_ROWS
from .verdict import CONTACT_SUPPORT

ROWS = DEVICE_ROWS + HOST_ROWS
# Kinds that come from groups of lines or are made by the reader: (name, check, kind, remedy).
GROUPS = (
    ("hardware", "kernel.hardware_errors", UNCORRECTED, CONTACT_SUPPORT),
    ("hardware_corrected", "kernel.hardware_errors", CORRECTED, ""),
    ("hardware_undecided", "kernel.hardware_errors", WATCH, ""),
    ("hardware_before", "kernel.hardware_errors", WATCH, ""),
)

_NAMED = {row.name: (row.check, row.kind, row.remedy) for row in reversed(ROWS)}
_NAMED.update({name: (check, kind, remedy) for name, check, kind, remedy in GROUPS})
ONE = re.compile("|".join("(?P<r{}>{})".format(number, row.pattern) for number, row in enumerate(ROWS)))


def row_of(message):
    """(row, its match) of the first row that takes this message, or None."""
    match = ONE.match(message)
    return (ROWS[int(match.lastgroup[1:])], match) if match else None


def about(name):
    """(check, kind, remedy) of a name in `kernel_log.findings`; None for a name that no row has."""
    return _NAMED.get(name)
