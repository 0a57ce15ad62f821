"""A node on which every check passes, as `checks.collect` would describe it; tests break one value at a time.

Put together from the parts of the families of checks, `checks/<family>/healthy_<family>.py`. A part may have
`READINGS`, `OTHER_NODES`, `ROWS` (see test_checks_sad_paths), `NOT_TRIED` (see advice) and `put_files(host)`, which
writes the files that the readings come from (see healthy_files).
"""

from __future__ import annotations

import importlib
import pickle
from pathlib import Path
from typing import Any

import healthy_probe
from healthy_plan import EXPECTATIONS
from healthy_smoke import SMOKE
from node_names import Changes

PARTS = [
    importlib.import_module(path.stem) for path in sorted((Path(__file__).parents[1] / "checks").glob("*/healthy_*.py"))
]
READINGS: dict[str, Any] = dict(healthy_probe.READINGS)
# A path begins in the readings, or in the expectations or the smoke test when its first word says so.
OTHER_NODES: dict[str, Changes] = {}
for part in PARTS:
    READINGS.update(getattr(part, "READINGS", {}))
    OTHER_NODES.update(getattr(part, "OTHER_NODES", {}))
ELSEWHERE = ("expectations", "smoke")


def copied(value: Any) -> Any:
    """As copy.deepcopy, and several times faster for records of plain values: tests ask for ten thousands of them."""
    return pickle.loads(pickle.dumps(value))


def readings(check_id: str = "") -> dict:
    """The node's readings; with the name of a check, those of a healthy node on which it is no SKIP."""
    found = copied(READINGS)
    for path, value in OTHER_NODES.get(check_id, {}).items():
        if path[0] not in ELSEWHERE:
            put(found, path, value)
    return found


def expectations(**changes: object) -> dict:
    return {**copied(EXPECTATIONS), **changes}


def elsewhere(check_id: str, part: str) -> dict:
    """The expectations of, or the smoke test on, a healthy node on which that check is no SKIP."""
    found = copied({"expectations": EXPECTATIONS, "smoke": SMOKE}[part])
    for path, value in OTHER_NODES.get(check_id, {}).items():
        if path[0] == part:
            put(found, path[1:], value)
    return found


def put(record: Any, path: tuple, value: object) -> None:
    """Set a copy of the value at `path`, a sequence of keys and list indexes."""
    for key in path[:-1]:
        record = record[key]
    record[path[-1]] = copied(value)


def leaves(record: object, path: tuple = ()) -> list[tuple]:
    """Paths of every value in nested records and lists, containers included."""
    found = [path] if path else []
    members = record.items() if isinstance(record, dict) else enumerate(record) if isinstance(record, list) else ()
    for key, value in members:
        found += leaves(value, (*path, key))
    return found


def smoke() -> dict:
    return copied(SMOKE)
