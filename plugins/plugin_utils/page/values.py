# SPDX-License-Identifier: Apache-2.0
"""Values of a report for people: nothing raises, whatever a damaged or hostile report contains."""

from __future__ import annotations

from typing import Any, TypeGuard

# As gpu_verify wrote it, or as anybody may have changed it since.
Report = dict[str, Any]

NOT_READ = "not read"
# A quick verification has few of the readings of a whole one.
NOT_LOOKED_AT = "not looked at"
LARGEST = 1e15
MOST_OF_A_REMARK = 300


def look(record: Any, *path: Any) -> Any:
    """The value at `path`; None if there is none, words if it could not be read or nobody has looked at it."""
    if isinstance(record, str) and record.startswith((NOT_READ, NOT_LOOKED_AT)):
        return record
    for depth, key in enumerate(path):
        if isinstance(record, dict) and "unreadable" in record:
            return f"{NOT_READ}: {record['unreadable']}"
        try:
            record = record[key]
        except (KeyError, IndexError, TypeError):
            reading = depth == 1 and path[0] == "readings" and isinstance(record, dict)
            return NOT_LOOKED_AT if reading else None
    if isinstance(record, dict) and "unreadable" in record:
        return f"{NOT_READ}: {record['unreadable']}"
    return record


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def in_words(value: Any) -> str:
    """A value for people."""
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(in_words(member) for member in value) or "none"
    return str(value)


def shorten(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[: letters - 1] + "…"


def is_number(value: Any) -> TypeGuard[float]:
    """A number of which a bar can be drawn; JSON also has numbers that no float can hold."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < LARGEST


def simulated(report: dict[str, Any] | None) -> str:
    """What is simulated on the host, from its inventory; "" if nothing is."""
    words = look(report, "simulated")
    return shorten(in_words(words), MOST_OF_A_REMARK) if words else ""
