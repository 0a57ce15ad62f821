# SPDX-License-Identifier: Apache-2.0
"""How far root has read the journal of this boot, and what was found there: kept, so that a check reads what is new.

Without it, a log of many megabytes would be read again every few minutes. What is kept counts for this boot and this
release's rows only; anything doubtful in it, and the log is read from its beginning.
"""

import os
from typing import Any, Dict, NamedTuple, Optional

from ...verdict.kept_file import LIMIT_BYTES, read_kept, write_kept
from ...verdict.report import json_text
from .events import KernelEvents
from .table import identity

PATH = "/var/lib/gpuwright/kernel-log.json"
BOOT_ID_PATH = "/proc/sys/kernel/random/boot_id"
SCHEMA = 1


class Position(NamedTuple):
    """Events so far, and journald's name of the last record that they come from."""

    events: KernelEvents
    cursor: str


def read_position(root: str, boot_id: str) -> Optional[Position]:
    """What was kept of this boot; None if there is nothing that counts."""
    try:
        record = read_kept(root, PATH, SCHEMA)
        if record is None or not boot_id or record["boot_id"] != boot_id or record["rows"] != identity():
            return None
        return Position(KernelEvents.of_state(record["events"]), str(record["cursor"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def keep_position(root: str, boot_id: str, position: Position) -> None:
    """Keep it, if root reads; that it cannot be kept only makes the next reading longer."""
    if os.geteuid() != 0 or not boot_id or not position.cursor:
        return
    record: Dict[str, Any] = {
        "schema": SCHEMA,
        "boot_id": boot_id,
        "rows": identity(),
        "cursor": position.cursor,
        "events": position.events.state(),
    }
    if len(json_text(record)) > LIMIT_BYTES:
        return
    try:
        write_kept(root, PATH, record)
    except (OSError, ValueError):
        return
