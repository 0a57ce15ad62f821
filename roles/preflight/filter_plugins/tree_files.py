# SPDX-License-Identifier: Apache-2.0
"""Controller's side of the module file_tree: a folder of text files as one value."""

from __future__ import annotations

import hashlib
from pathlib import Path

# Made by Python and its build tools beside the sources, never copied.
LEFT_OUT = ("__pycache__", "build", ".pytest_cache")


def tree_files(folder: str) -> dict[str, str]:
    """Relative name and content of every text file below `folder`. Raises FileNotFoundError where there is none."""
    root = Path(folder)
    files = {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for path in sorted(root.rglob("*"))
        if path.is_file()
        and not any(part in LEFT_OUT or part.endswith(".egg-info") for part in path.relative_to(root).parts)
    }
    if not files:
        raise FileNotFoundError(f"no files below {folder}")
    return files


def tree_digest(files: dict[str, str]) -> str:
    """SHA-256 over names and contents, to tell two trees apart."""
    return hashlib.sha256(
        "\0".join(f"{name}\0{content}" for name, content in sorted(files.items())).encode()
    ).hexdigest()


class FilterModule:
    """Filters of the role preflight."""

    def filters(self) -> dict:
        return {"tree_files": tree_files, "tree_digest": tree_digest}
