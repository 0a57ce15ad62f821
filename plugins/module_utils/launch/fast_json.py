# SPDX-License-Identifier: Apache-2.0
"""json.loads for a quick start: importing json, with re and enum behind it, takes longer than all the rest."""

# Importing typing would take a third of a start of gpu-run: its names are for the type checker alone.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Settings:
    """What json.loads tells the scanner by default."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = parse_constant = float
    parse_int = int


def loads(text: str) -> "Any":
    """The value that json.loads gives, by the scanner in C that json itself uses; its errors are json's own."""
    stripped = text.strip(" \t\n\r")
    try:
        from _json import make_scanner

        value, end = make_scanner(_Settings)(stripped, 0)  # type: ignore[arg-type]  # it takes any object with these names
        if end == len(stripped):
            return value
    # SystemError: up to Python 3.11 the scanner looks for the class of its error among the loaded modules.
    except (ImportError, StopIteration, ValueError, SystemError):
        pass
    # Not JSON, or an interpreter without that scanner: the library says what is wrong, and where.
    import json

    return json.loads(text)
