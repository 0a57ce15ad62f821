# SPDX-License-Identifier: Apache-2.0
"""Versions that may exist and have no row: lists of releases are never complete, and a repository has the last word.

Such a version gets the row of its nearest relative, marked as not verified, so that the plan warns. It is planned only
where it is pinned. Of a new major version, driver branch or series of PyTorch nothing is known that matters, and those
stay refused (`unknown`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import (
    is_part_of,
    major,
    version_key,
)

from ..software.bulletins import fixed_versions

Row = dict[str, Any]
# How NVIDIA writes the versions of its drivers: 580.142, 580.95.05.
DRIVER_FORM = re.compile(r"[0-9]{3}\.[0-9]{2,3}(\.[0-9]{2})?")
# How many numbers a version of these has, at most three digits each; the first two are the series.
NUMBERS = {"cuda": 2, "cudnn": 4, "nccl": 3, "pytorch": 3, "tensorflow": 3}
# Named by two numbers, in packages too: a third one says which update it is.
BY_TWO = {"cuda": "CUDA's packages", "python": "Python's packages"}
# How far a release may be from the last known one of a series that is no longer the newest.
NEXT = 2
# NVIDIA builds new cuDNN and NCCL for the two newest major versions of CUDA.
CUDA_MAJORS = 2


def known_drivers(matrix: Mapping[str, Any], branch: str) -> list[str]:
    """Releases of a branch, oldest first: those that are listed, and those that bulletins name as fixed."""
    fixed = {version for version in fixed_versions(matrix["bulletins"]) if major(version) == branch}
    return sorted(fixed | set(matrix["released"]["driver_version"].get(branch, [])), key=version_key)


def doubt_of_release(matrix: Mapping[str, Any], version: str) -> str:
    """What is not known of an exact driver, as the end of a sentence; "" for one that was released."""
    known = known_drivers(matrix, major(version))
    if version in known:
        return ""
    text = f"whether {version} was released"
    if not known:
        return text
    near = nearest_driver(known, version)
    which = "newer than" if version_key(version) > version_key(known[-1]) else "not on the list, whose nearest is"
    return f"{text}: it is {which} {near}, as far as this matrix knows (as of {matrix['as_of']})"


def nearest_driver(known: Sequence[str], version: str) -> str:
    def distance(other: str) -> list[int]:
        ours, theirs = ([*version_key(text), 0, 0] for text in (version, other))
        return [abs(ours[place] - theirs[place]) for place in range(3)]

    return min(known, key=distance)


def with_unlisted(
    matrix: dict[str, Any], pins: Mapping[str, str], labels: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """The matrix with rows for pinned versions that may exist, the pins without updates, and what the plan warns of.

    labels  {pin: inventory variable}
    """
    matrix, pins, warnings = dict(matrix), dict(pins), []
    for name, value in pins.items():
        update = re.fullmatch(r"([0-9]{1,3}\.[0-9]{1,3})\.[0-9]{1,3}", value) if name in BY_TWO else None
        if update:
            pins[name] = update.group(1)
            text = '{} "{}": {} are named after {} alone, and the repository\'s update of it is installed'
            warnings.append(text.format(labels[name], value, BY_TWO[name], update.group(1)))
    for name, numbers in NUMBERS.items():
        value = pins.get(name, "")
        if re.fullmatch(rf"[0-9]{{1,2}}(\.[0-9]{{1,3}}){{1,{numbers - 1}}}", value):
            matrix[name] = ADDED[name](matrix, name, value)
    return matrix, pins, warnings


def may_exist(value: str, known: Iterable[str], listed: Iterable[str] = ()) -> bool:
    """Whether a version without a row can have been released: newer in the newest major, or next in its series.

    listed  versions that are known to exist; a gap between known ones stays a gap
    """
    listed = list(listed)
    if any(is_part_of(text, value) or is_part_of(value, text) for text in listed):
        return True
    key, keys = version_key(value), [version_key(text) for text in (*known, *listed)]
    newest, last = max(keys), max((other[:3] for other in keys if other[:2] == key[:2]), default=())
    if key > newest and key[0] == newest[0]:
        return True
    # A series that another one has followed gets few more releases, one after the other.
    return len(key) > 2 and len(last) > 2 and last[2] <= key[2] <= last[2] + NEXT


def _doubt(matrix: Mapping[str, Any], what: str, relative: str, is_listed: bool = False) -> dict[str, Any]:
    text = "{} it has no row here (as of {}), and what holds for {} is taken to hold for it"
    first = "" if is_listed else f"whether {what} was released;"
    text = text.format(first, matrix["as_of"], relative).strip()
    return {"verified": False, "unverified": text, "unlisted": True}


def _cuda(matrix: Mapping[str, Any], name: str, value: str) -> dict[str, Row]:
    """A newer minor version: packages and least driver go by rules, and GPUs are dropped by major versions."""
    rows: dict[str, Row] = matrix[name]
    if value in rows or not may_exist(value, rows):
        return rows
    newest = max(rows, key=version_key)
    return {**rows, value: {**rows[newest], **_doubt(matrix, f"CUDA {value}", f"CUDA {newest}")}}


def _library(matrix: Mapping[str, Any], name: str, value: str) -> list[Row]:
    """cuDNN or NCCL, as the nearest older one of the same major version."""
    rows: list[Row] = matrix[name]
    whole = [str(row.get("package_version", row["version"])) for row in rows]
    listed = [*matrix["released"].get(name, []), *(row["version"] for row in rows)]
    short = ".".join(value.split(".")[:3])
    same = [row for row in rows if major(row["version"]) == major(value)]
    if any(is_part_of(text, value) for text in whole) or not same or not may_exist(value, whole, listed):
        return rows
    majors = sorted({row["cuda_major"] for row in same}, key=version_key)[-CUDA_MAJORS:]
    older = [row for row in same if version_key(row["version"]) <= version_key(value)]
    found = {row["cuda_major"]: row for row in sorted(older, key=lambda row: version_key(row["version"]))}
    near = [row for cuda_major, row in found.items() if cuda_major in majors]
    if not near:
        first = min((row["version"] for row in same), key=version_key)
        near = [row for row in same if row["version"] == first]
    # The repository knows the rest of the version; NCCL's packages name the CUDA that they were built with, too.
    exact = len(value.split(".")) == (4 if name == "cudnn" else 3)
    title = {"cudnn": "cuDNN", "nccl": "NCCL"}[name]
    more = []
    for row in near:
        changed = {"version": short, "package_version": value, "package_pattern": value if exact else value + ".*"}
        built_for = f"{row['cuda_major']}.*" if row["built_for"] else ""
        is_listed = any(is_part_of(text, value) for text in listed)
        doubt = _doubt(matrix, f"{title} {value}", f"{title} {row['version']}", is_listed)
        more.append({**row, **changed, "built_for": built_for, **doubt})
    return [*rows, *more]


def _framework(matrix: Mapping[str, Any], name: str, value: str) -> dict[str, Row]:
    """A later release of a series of PyTorch or TensorFlow: a series keeps its Pythons, GPUs and CUDA."""
    rows: dict[str, Row] = matrix[name]
    row = rows.get(".".join(value.split(".")[:2]))
    known = [release for other in rows.values() for release in other["releases"]]
    if row is None or value in known or value.count(".") < 2 or not may_exist(value, known):
        return rows
    title = {"pytorch": "PyTorch", "tensorflow": "TensorFlow"}[name]
    return {**rows, value: {**row, "releases": [value], **_doubt(matrix, f"{title} {value}", row["releases"][-1])}}


ADDED: dict[str, Callable[[Mapping[str, Any], str, str], Any]] = {
    "cuda": _cuda,
    "cudnn": _library,
    "nccl": _library,
    "pytorch": _framework,
    "tensorflow": _framework,
}
