"""The file of newer tables for `preflight_knowledge`, as `make matrix-refresh` and playbooks/knowledge.yml write it."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

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


def write(folder: Path, files: dict[str, str], news: list[News], silent: list[str]) -> Path:
    """The tables whose source was read, with the proposed rows, as of today; those of silent sources keep their day."""
    added = dict(files)
    for entry in news:
        if entry.row:
            added[FILES[entry.kind]] = add_row(added[FILES[entry.kind]], entry)
    matrix = {name: part for text in added.values() for name, part in yaml.load(text, yaml.CSafeLoader).items()}
    today = datetime.date.today().isoformat()
    tables = [table for source, table in RENEWED.items() if not any(f"of {source}" in words for words in silent)]
    for name in tables:
        matrix["tables"][name]["as_of"] = today
    return knowledge.write(folder, matrix, tables)
