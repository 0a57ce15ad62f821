# SPDX-License-Identifier: Apache-2.0
"""Say what is wrong with a pinned value that no row has: a typing error, newer than the matrix, or never released.

roles/preflight/files/matrix/released.yml lists all releases, whether they have a row or not.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import (
    is_part_of,
    is_version,
    version_key,
)

from .candidates import AT_LEAST, CPU_BUILD, ON_DEMAND, as_sentence, pin_label
from .clash import MOST_CHOICES, conflict, value_in
from .search import Problem

FOLDER = "roles/preflight/files/matrix/"
# Where a new version gets its row.
ROWS_IN = {
    "driver_branch": "drivers.yml",
    "cuda": "cuda.yml",
    "cudnn": "libraries.yml",
    "nccl": "libraries.yml",
    "pytorch": "pytorch.yml",
    "tensorflow": "tensorflow.yml",
}
WHEELS = "which does not know for which Pythons, CUDA and GPUs its wheels are; it needs a lock, too (make lock)"
# What matters, and is not known of a new major version, branch or series: why it is not planned like a newer release.
NOT_KNOWN = {
    "driver_branch": "which does not know which GPUs it drives, and with which kernel modules",
    "cuda": "which does not know which driver and GPUs it needs",
    "cudnn": "which does not know its packages, and which CUDA and GPUs it needs",
    "nccl": "which does not know its packages, and which CUDA it needs",
    "pytorch": WHEELS,
    "tensorflow": WHEELS,
}
MOST_KNOWN = 30
Answer = dict[str, Any] | None


def unknown_value(
    problem: Any, facts: list[Any], matrix: dict[str, Any], name: str, value: str, find_answer: Callable[..., Answer]
) -> dict[str, Any]:
    """The conflict for a pin with such a value. `find_answer(pins)` is the search with more pins: what it finds is
    offered."""
    allowed = known_values(name, problem.candidates)
    ended = [as_sentence(reason) for reason in _ended(problem, facts, name, value)]
    known = "Known: " + ", ".join(_newest_of_series(allowed))
    text = ". ".join([_what(matrix, name, value, allowed)] + ended + [known]) + "."
    best = find_answer({name: AT_LEAST + "0"} if name in ON_DEMAND else {})
    choices = [value_in(best or {}, name)] + _nearest(value, allowed)
    fitting = [choice for choice in dict.fromkeys(choices) if choice and find_answer({name: choice})]
    clash = [pin_label(name, value)]
    return conflict(text, clash, [{name: choice} for choice in fitting[:MOST_CHOICES]])


def _newest_of_series(versions: list[str]) -> list[str]:
    """A list too long to read, shortened to the last of each series, 2.13.1 for 2.13."""
    if len(versions) <= MOST_KNOWN:
        return versions
    return list({tuple(version.split(".")[:2]): version for version in versions}.values())


def known_values(name: str, candidates: dict[str, list[Any]]) -> list[str]:
    values = {
        candidate.row["version"] if name in ("cudnn", "nccl") else candidate.pins[name]
        for group in candidates.values()
        for candidate in group
        if candidate.pins.get(name)
    }
    return sorted(values, key=lambda value: (version_key(value) if is_version(value) else (), value))


def _what(matrix: dict[str, Any], name: str, value: str, allowed: list[str]) -> str:
    label, as_of = pin_label(name, value), matrix["as_of"]
    if name == "driver_branch" and value in matrix["floating_streams"]["names"]:
        return f"{label} is a module stream that moves on by itself to branches that may not drive the GPUs"
    if name == "python" and is_version(value):
        return f"{label}: no system that this version installs has it"
    if name not in ROWS_IN or not is_version(value):
        return f"{label} is not known"
    # A version with a row was released; the list has those without one.
    released = sorted(set(matrix["released"].get(name, [])) | set(allowed), key=version_key)
    row = f"copy the row of {allowed[-1]} in {FOLDER}{ROWS_IN[name]} and change it"
    if version_key(value) > version_key(max(released, key=version_key)):
        return f"{label} is newer than this matrix (as of {as_of}), {NOT_KNOWN[name]}; to add it, {row}"
    oldest = min(released, key=version_key)
    if version_key(value) < version_key(oldest) and not is_part_of(oldest, value):
        return f"{label} is older than anything in this matrix, which begins with {oldest}"
    if name == "driver_branch":
        return f"{label} is not known"
    if any(is_part_of(value, known) for known in released):
        # With a number too many.
        return f"{label} is not known"
    return f"{label} was never released, as far as this matrix knows (as of {as_of})"


def _ended(problem: Problem, facts: list[Any], name: str, value: str) -> list[str]:
    """Why a GPU rules the value out whatever its row would say: support that has ended does not come back."""
    if name not in ROWS_IN or not is_version(value):
        return []
    older = [
        candidate
        for group in problem.candidates.values()
        for candidate in group
        if candidate.pins.get(name)
        and candidate.pins.get("pytorch_build") != CPU_BUILD
        and version_key(candidate.pins[name]) <= version_key(value) + (0,) * 4
    ]
    if not older:
        return []
    newest = max(version_key(candidate.pins[name]) for candidate in older)
    at_newest = [candidate for candidate in older if version_key(candidate.pins[name]) == newest]
    found = []
    for fact in facts:
        if fact.kind == "gpu":
            refusals = [problem.refusal(fact, candidate) for candidate in at_newest]
            if all(refusals) and not all(problem.refusal(fact, candidate) for candidate in older):
                found.append(refusals[0])
    return found


def _nearest(value: str, allowed: list[str]) -> list[str]:
    """The known values around a version, or those that are spelled alike."""
    versions = [known for known in allowed if is_version(known)]
    if not is_version(value) or not versions:
        return difflib.get_close_matches(value, allowed, MOST_CHOICES)
    below = [known for known in versions if version_key(known) < version_key(value)]
    above = [known for known in versions if version_key(known) > version_key(value)]
    return below[-1:] + above[:1]


def slips(one: str, other: str) -> int:
    """How many letters were mistyped, left out, added, or changed with their neighbour."""
    before, last = [0], list(range(len(other) + 1))
    for line, letter in enumerate(one, 1):
        row = [line]
        for place, own in enumerate(other, 1):
            row.append(min(last[place] + 1, row[-1] + 1, last[place - 1] + (letter != own)))
            if line > 1 < place and one[line - 2 : line] == own + other[place - 2]:
                row[-1] = min(row[-1], before[place - 2] + 1)
        before, last = last, row
    return last[-1]
