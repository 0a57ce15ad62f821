# SPDX-License-Identifier: Apache-2.0
"""The matrix of which versions fit together: a folder of YAML files, no two with the same top-level name."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

# The C loader is ten times as fast; without it, the result is the same.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
SHIPPED = Path(__file__).resolve().parents[3] / "roles/preflight/files/matrix"
# The solver asks the package gpu for cards (gpu/device_table.py); their rows are more than half of the matrix.
CARDS = "devices.yml"


def read_matrix(folder: str | Path, without: Sequence[str] = ()) -> dict[str, Any]:
    """The content of all YAML files of `folder` as one dict; files named in `without` are not read.

    A process, and its forks, parse files once, until one of them is changed. ValueError for files that are not a
    matrix, OSError and yaml.YAMLError as they come.
    """
    # A checkout can also be reached through its link in collections/: real paths show that the files are the same.
    files = sorted(file for file in Path(folder).resolve().glob("*.yml") if file.name not in without)
    if not files:
        raise ValueError(f"no YAML file in {folder}: this is where the matrix of versions is expected")
    stats = [file.stat() for file in files]
    stamps = tuple((str(file), stat.st_mtime_ns, stat.st_size) for file, stat in zip(files, stats, strict=True))
    return dict(_parsed(stamps))


@functools.lru_cache(maxsize=4)
def _parsed(stamps: tuple[tuple[str, int, int], ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, _modified, _size in stamps:
        content = yaml.load(Path(name).read_text(encoding="utf-8"), Loader=LOADER)
        if not isinstance(content, dict):
            raise ValueError(f"{name} must hold names and what belongs to them")
        twice = sorted(set(found) & set(content))
        if twice:
            raise ValueError(f"{name} defines {', '.join(twice)} a second time")
        found.update(content)
    return found
