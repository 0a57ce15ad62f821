# SPDX-License-Identifier: Apache-2.0
"""Readings that say what a later step would change, where check mode does not carry out that step at all."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..summary.words import printable
from .differences import Difference, Place

# What a reading is registered as, and what site.yml would do because the file is not there.
STAMPS = {
    "__framework_pytorch_found": "the environment would be built",
    "__framework_pytorch_state": "the environment would be built",
    "__model_trainer_state": "the trainer would be installed",
    "__system_cuda_cudnn": "cuDNN would be unpacked",
}


def of_reading(result: Mapping[str, Any], place: Place, registers: Collection[str]) -> list[Difference]:
    """The row that follows from one reading; [] if it says that everything is there, or says nothing about that."""
    planned = next((STAMPS[name] for name in registers if name in STAMPS), "")
    if place.action == "python_environment" and planned and result.get("mark_sha256") == "":
        return [_row(place, asked(result, "path"), "", "is not there", planned)]
    if place.action == "python_environment" and result.get("whole") is False:
        return [_row(place, asked(result, "path"), "content", result.get("because"), "as it was installed")]
    if place.action == "stat" and planned and not (result.get("stat") or {}).get("exists", True):
        return [_row(place, asked(result, "path"), "", "is not there", planned)]
    return []


def asked(result: Mapping[str, Any], name: str) -> str:
    """An argument of the module, from the result."""
    given = result.get("invocation")
    arguments = given.get("module_args") if isinstance(given, Mapping) else None
    return str((arguments or {}).get(name) or "")


def _row(place: Place, what: str, attribute: str, now: object, planned: str) -> Difference:
    return Difference(place.layer, place.role, place.task, what or place.task, attribute, printable(now), planned)
