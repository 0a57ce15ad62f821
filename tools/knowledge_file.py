"""The file of newer tables for `preflight_knowledge`, as `make matrix-refresh` and playbooks/knowledge.yml write it."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "collections"))
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.renewal import knowledge
from matrix_rows import FILES, News, add_row

# Tables that a source renews, by the words with which the sentence on its silence begins.
RENEWED = {
    "torch:": "pytorch",
    "tensorflow:": "tensorflow",
    "cuDNN:": "cudnn",
    "NCCL:": "nccl",
    "the CUDA toolkit:": "cuda",
    "the drivers' releases (": "drivers",
    "the drivers' bulletins (": "bulletins",
    "the wheels' vulnerabilities (": "wheel_holes",
}


# Whose answers name all that the table of releases has.
OF_RELEASES = {"drivers", "cudnn", "nccl"}


def write(folder: Path, files: dict[str, str], news: list[News], silent: list[str]) -> tuple[Path | None, list[str]]:
    """The file of the tables that are whole as of today, None for no table; and why others are not in it.

    A table whose source was silent is left out, and so is one with news for which a person has to write the row: with
    today's day, it would say that nothing else was released.
    """
    added = dict(files)
    for entry in news:
        if entry.row:
            added[FILES[entry.kind]] = add_row(added[FILES[entry.kind]], entry)
    matrix = {name: part for text in added.values() for name, part in yaml.load(text, yaml.CSafeLoader).items()}
    for entry in news:
        _add_releases(matrix, entry)
    awaited = [entry for entry in news if entry.awaited and not entry.row]
    wanting = {entry.kind: entry.text for entry in awaited if entry.name not in matrix[entry.kind]}
    answered = [table for source, table in RENEWED.items() if not any(f"of {source}" in words for words in silent)]
    answered += ["released"] if set(answered) >= OF_RELEASES else []
    tables = [table for table in answered if table not in wanting]
    for name in tables:
        matrix["tables"][name]["as_of"] = datetime.date.today().isoformat()
    left = [f"Not in the file: {name}, whose row somebody has to write ({text})" for name, text in wanting.items()]
    return (knowledge.write(folder, matrix, tables) if tables else None), left


def _add_releases(matrix: dict[str, Any], entry: News) -> None:
    if not entry.more:
        return
    if entry.kind in ("pytorch", "tensorflow"):
        matrix[entry.kind][entry.name]["releases"] += entry.more
    elif entry.kind == "drivers":
        matrix["released"]["driver_version"][entry.name] += entry.more
    else:
        known = matrix["released"][entry.kind]
        known += [name for name in entry.more if name not in known]
