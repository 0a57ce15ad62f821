# SPDX-License-Identifier: Apache-2.0
"""From plain values to a checked dataclass: each fault names the key, the value and what is allowed."""

from __future__ import annotations

import difflib
import math
from dataclasses import field, fields
from typing import Any, get_type_hints

from .own import FORM, is_own

TYPE_NAMES = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    dict: "keys with plain values",
}


def option(
    default: Any, help: str, low: float = -math.inf, high: float = math.inf, choices: tuple = (), own: bool = False
) -> Any:
    """A key with its meaning and either its closed range or its choices; `own` allows a function of a package, too."""
    metadata = {"help": help, "low": low, "high": high, "choices": choices, "own": own}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def check_values(schema: type, values: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The values in the types of the dataclass `schema`, and one line for each fault."""
    options = {item.name: item for item in fields(schema)}
    types = get_type_hints(schema)
    faults, good = [], {}
    for key, value in values.items():
        if key not in options:
            close = difflib.get_close_matches(str(key), options, 1)
            hint = f"did you mean {close[0]}?" if close else "known keys: " + ", ".join(sorted(options))
            faults.append(f"{key}: unknown key with value {value!r}; {hint}")
            continue
        # YAML 1.1 reads a bare on or off as a truth value.
        if isinstance(value, bool) and "on" in options[key].metadata["choices"]:
            value = "on" if value else "off"
        converted = convert(value, types[key])
        allowed = describe(options[key].metadata, types[key])
        if converted is None:
            faults.append(f"{key}: {value!r} is not {TYPE_NAMES[types[key]]}; allowed: {allowed}")
        elif not is_within(converted, options[key].metadata):
            faults.append(f"{key}: {value!r} is out of range; allowed: {allowed}")
        good[key] = converted
    return good, faults


def convert(value: Any, kind: type) -> Any:
    """`value` as `kind`, or None. YAML reads 2e-4 as text, so a number may come as one."""
    if kind is float and isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            return None
        return number if math.isfinite(number) else None
    if kind is dict and isinstance(value, dict) and not all(is_plain(key, item) for key, item in value.items()):
        return None
    return value if type(value) is kind else None


def is_plain(key: object, value: object) -> bool:
    """Whether a checkpoint and a YAML file can hold it as it is."""
    return isinstance(key, str) and isinstance(value, (str, bool, int, float))


def is_within(value: Any, limits: Any) -> bool:
    if limits["choices"]:
        return value in limits["choices"] or (limits["own"] and is_own(value))
    return isinstance(value, (str, bool, dict)) or limits["low"] <= value <= limits["high"]


def describe(limits: Any, kind: type) -> str:
    if limits["choices"]:
        return ", ".join(map(str, limits["choices"])) + (f", or {FORM}" if limits["own"] else "")
    return TYPE_NAMES[kind] if limits["low"] == -math.inf else f"{limits['low']} to {limits['high']}"
