# SPDX-License-Identifier: Apache-2.0
"""json.loads for a quick start: importing json, which imports re and enum, takes longer than all the rest."""

# Importing typing would take a third of gpu-run's start time: its names are only for the type checker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Settings:
    """The settings that json.loads gives the scanner by default."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = parse_constant = float
    parse_int = int


def loads(text: str) -> "Any":
    """The value that json.loads returns, from the C scanner that json itself uses; errors are json's own."""
    stripped = text.strip(" \t\n\r")
    try:
        from _json import make_scanner

        value, end = make_scanner(_Settings)(stripped, 0)  # type: ignore[arg-type]  # it takes any object with these names
        if end == len(stripped):
            return value
    # SystemError: up to Python 3.11 the scanner looks for the class of its error among the loaded modules.
    except (ImportError, StopIteration, ValueError, SystemError):
        pass
    # Not JSON, or an interpreter without that scanner: the json library says what is wrong, and where.
    import json

    return json.loads(text)
