# SPDX-License-Identifier: Apache-2.0
"""The stamp of a node on which a whole run of site.yml had nothing to do: from what it decided, and what it saw.

While both are as they were, the next run has nothing to do, and works through no role. The stamp is a file of its own
and no part of the way back: a damaged one costs one whole run.
"""

import contextlib
import hashlib
import json
import os
from typing import Any, Dict, Iterable, List, Mapping

from ..host.files import below
from ..host.written import state_file
from . import effective, places
from .ledger import LEDGER, Damaged, load
from .look import look_wide, package_stamp, read_files

STAMP = places.FOLDER + "/stamp.json"
# What earlier versions kept in its place.
EARLIER = places.FOLDER + "/settled.json"
SCHEMA = 1
# It says which files the node's administrator cares about.
MODE = 0o600
PARTS = ("accounts", "files", "links", "named", "packages", "settings", "trees", "units")
FORM = {"schema": {SCHEMA}, "inputs": str, "names": [str], "parts": {str: str}}


def parts_of(found: Mapping[str, Any]) -> Dict[str, str]:
    """Digests of what the roles want or made, from a wide look; "" for what could not be read; {} where it was none."""
    if any(name not in found for name in PARTS):
        return {}
    wanted = {path: line for path, line in found["files"].items() if places.is_wanted(path)}
    seen = dict(found, files=wanted, packages=found["stamp"])
    return {name: "" if _is_silent(seen[name]) else _digest(seen[name]) for name in PARTS}


def _is_silent(lines: Any) -> bool:
    """Whether all of a part could not be read: the same reason twice would look like the same state."""
    told = list(lines.values()) if isinstance(lines, dict) else []
    return bool(told) and all(str(line).startswith(effective.unreadable("")) for line in told)


def _digest(lines: Any) -> str:
    text = json.dumps(lines, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def parts_now(
    names: Iterable[str], root: str = "/", run: effective.RunProgram = effective.run_bounded
) -> Dict[str, str]:
    """The same of the node as it is; packages by the times of their records, so that nobody lists them. OSError."""
    files = read_files(root)
    wide: Dict[str, Any] = dict(look_wide(root, files, names, run))
    return parts_of(dict(wide, files=files, packages={}, stamp=package_stamp(root)))


def read_stamp(root: str = "/", run: effective.RunProgram = effective.run_bounded) -> Dict[str, Any]:
    """`{inputs, changed}`: from what an earlier run had nothing to do, and which parts of the node differ since then.

    {} if there is no stamp, or none that can be read. What cannot be looked at has changed.
    """
    stamp = _load(root)
    if not stamp:
        return {}
    try:
        now = parts_now(stamp["names"], root, run)
    except (OSError, ValueError) as error:
        return {"inputs": stamp["inputs"], "changed": [str(error)[:200]]}
    return {"inputs": stamp["inputs"], "changed": [name for name in PARTS if now[name] != stamp["parts"].get(name)]}


def keep_stamp(
    inputs: str, names: Iterable[str], root: str = "/", run: effective.RunProgram = effective.run_bounded
) -> List[str]:
    """Keep the stamp at the end of a run, if the node is as it was when that run took the lock; else, what differs.

    OSError, ValueError.
    """
    ledger = load(LEDGER, root)
    before = parts_of((ledger or {}).get("before") or {})
    if not before:
        return ["this run has not looked before it began"]
    wanted = sorted(set(names))
    now = parts_now(wanted, root, run)
    changed = [name for name in PARTS if not now[name] or now[name] != before[name]]
    if not changed:
        record = {"schema": SCHEMA, "inputs": inputs, "names": wanted, "parts": now}
        state_file.write_state(below(root, STAMP), record, FORM, MODE, indent=None)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(below(root, EARLIER))
    return changed


def record_stamp(asked: Mapping[str, Any], verdict: str) -> str:
    """Keep it after a verification, where that is asked for; what went wrong, "" if nothing. The verdict stands anyway.

    A node that fails is worked through by every run, so it gets none.
    """
    try:
        if asked and verdict in ("PASS", "WARN"):
            keep_stamp(str(asked["inputs"]), [str(name) for name in asked["names"]])
    except (OSError, ValueError, KeyError, Damaged) as error:
        return f"that this run had nothing to do is not noted down: {error}"
    return ""


def _load(root: str) -> Dict[str, Any]:
    """The stamp; {} if it is not one that this version wrote."""
    try:
        return dict(state_file.read_state(below(root, STAMP), FORM) or {})
    except (OSError, state_file.Damaged):
        return {}
