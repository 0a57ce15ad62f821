# SPDX-License-Identifier: Apache-2.0
"""What the kernel writes about faults, as a table: one row for each kind of message, tried in the order of the rows.

Xid and SXid have their own table (`gpu.xid.table`), machine checks and memory errors are groups of lines
(`hardware_records`). A pattern begins where the message begins, so that a name inside a message is not a finding.
Sources are files of the Linux kernel (4.18 to 6.17) and of NVIDIA's open kernel modules (535 to 610).
"""

import hashlib
import re
from functools import lru_cache
from typing import Dict, Optional, Tuple

from ...gpu.xid.table import HIGHEST_XID
from ...host.patterns import lazily
from ...verdict.check import CONTACT_SUPPORT
from .rows import CORRECTED, LOST, UNCORRECTED, WATCH, Row
from .rows_gpu import DEVICE_ROWS
from .rows_host import HOST_ROWS, NAMED_ROWS
from .rows_network import NETWORK_ROWS
from .rows_start import RESET_ROWS, START_ROWS

ROWS = NAMED_ROWS + DEVICE_ROWS + START_ROWS + RESET_ROWS + NETWORK_ROWS + HOST_ROWS
# Kinds that come from groups of lines or are made by the reader: (name, check, kind, remedy).
GROUPS = (
    ("hardware", "kernel.hardware_errors", UNCORRECTED, CONTACT_SUPPORT),
    ("hardware_corrected", "kernel.hardware_errors", CORRECTED, ""),
    ("hardware_undecided", "kernel.hardware_errors", WATCH, ""),
    ("hardware_before", "kernel.hardware_errors", WATCH, ""),
)

_NAMED = {row.name: (row.check, row.kind, row.remedy) for row in reversed(ROWS)}
_NAMED.update({name: (check, kind, remedy) for name, check, kind, remedy in GROUPS})
ONE = lazily("|".join(f"(?P<r{number}>{row.pattern})" for number, row in enumerate(ROWS)))
# Far longer than the rows' messages; a pattern must not search a whole page.
LONGEST = 512


@lru_cache(maxsize=256)
def row_of(message: str) -> Optional[Tuple[Row, int]]:
    """(row, how many messages it says are lost, else 1) for the first row that matches this message, or None.

    A flooded log has the same few messages over and over.
    """
    match = ONE.match(message, 0, LONGEST)
    if not match:
        return None
    row = ROWS[int(str(match.lastgroup)[1:])]
    numbers = (int(group) for group in match.groups() if group and group.isdecimal()) if row.kind == LOST else iter(())
    return row, next(numbers, 1)


def cause_of(message: str) -> Tuple[str, Dict[str, str]]:
    """(action, what fills it) if this message of a finding names its cause; ("", {}) if it does not."""
    found = row_of(message)
    if found is None or not found[0].action:
        return "", {}
    match = re.match(found[0].pattern, message)
    return found[0].action, {} if match is None else match.groupdict()


def identity() -> str:
    """Names these rows: what was found by other ones does not count for them."""
    text = repr((ROWS, GROUPS, HIGHEST_XID)).encode("utf-8")
    return hashlib.sha256(text).hexdigest()


def about(name: str) -> Optional[Tuple[str, str, str]]:
    """(check, kind, remedy) of a name in `kernel_log.findings`; None for a name that no row has."""
    return _NAMED.get(name)
