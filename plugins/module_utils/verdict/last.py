# SPDX-License-Identifier: Apache-2.0
"""A node's last verdict, by its own check or by a run of verify."""

import json
from typing import Dict, Optional

from ..host.files import read_text

# The report of the last verification, and the record that the node makes at boot and every few minutes.
FILES = ("/var/lib/gpuwright/report.json", "/var/lib/gpuwright/boot-check.json")
VERDICTS = ("PASS", "WARN", "FAIL", "UNKNOWN")


def read_last_verdict(root: str = "/") -> Optional[Dict[str, str]]:
    """`{"verdict": "FAIL", "time": "2026-01-05T10:00:00Z"}` of the newer file, None if neither can be read."""
    found = [record for record in (_read(root, path) for path in FILES) if record]
    return max(found, key=lambda record: record["time"]) if found else None


def _read(root: str, path: str) -> Optional[Dict[str, str]]:
    try:
        record = json.loads(read_text(root, path) or "")
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or record.get("verdict") not in VERDICTS or not isinstance(record.get("time"), str):
        return None
    return {"verdict": record["verdict"], "time": record["time"][:40]}
