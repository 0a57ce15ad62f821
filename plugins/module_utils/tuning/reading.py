# SPDX-License-Identifier: Apache-2.0
"""The current values of system_tuning's settings, beside the values they were set to."""

from typing import Any, Mapping

from ..host.files import exists, resolve
from ..host.written.state_file import ANY, OTHERS, read_state
from . import knobs as tuning_knobs
from .file_texts import RECORD

ROW = {"name": str, "wanted": str, "reason": str, "keys": {str: str}, OTHERS: ANY}
FORM = {"schema": {1}, "settings": [ROW], "skipped": [ANY], OTHERS: ANY}


def load_record(root: str) -> Any:
    """tuning.json as a record; None if the node is not tuned. ValueError if it cannot be used."""
    if not exists(root, RECORD):
        return None
    return read_state(resolve(root, RECORD) or "", FORM, shown=RECORD)


def read_tuning(root: str) -> Any:
    """`[{name, wanted, found, reason}]`, None if the node is not tuned; `found` may be {"unreadable": why}."""
    known = load_record(root)
    if known is None:
        return None
    return [
        {"name": row["name"], "wanted": row["wanted"], "found": read_found(root, row), "reason": row["reason"]}
        for row in known["settings"]
    ]


def read_found(root: str, row: Mapping[str, Any]) -> Any:
    """The wanted value if every key of the row has its wanted one, else the first that differs."""
    try:
        for key, wanted in sorted(row["keys"].items()):
            found = tuning_knobs.read_all(root, key)
            if found != wanted:
                return f"{key.split()[1]} {_words(found)}" if key.startswith("file ") else found
    except (tuning_knobs.NotHere, OSError, ValueError) as error:
        return {"unreadable": str(error)}
    return row["wanted"]


def _words(found: Any) -> Any:
    return "missing" if found == "missing" else "changed by hand"
