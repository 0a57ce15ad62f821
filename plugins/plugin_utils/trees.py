# SPDX-License-Identifier: Apache-2.0
"""The controller's side of the module file_tree: a folder of text files as one value."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

# Kinds of files that are sources. On a developer's controller, caches and other products are beside them.
SUFFIXES = (".py", ".toml", ".yml", ".md")


def tree_files(folder: str, without: Iterable[str] = ()) -> dict[str, str]:
    """Relative name and content of every source below `folder`, except in its folders `without`.

    The folders need not exist: an installed collection has no tests. FileNotFoundError if no source is left.
    """
    root = Path(folder)
    files = {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for path in sorted(root.rglob("*"))
        if path.suffix in SUFFIXES and path.is_file() and not is_product(path.relative_to(root))
        if path.relative_to(root).parts[0] not in without
    }
    if not files:
        raise FileNotFoundError(f"no sources below {folder}")
    return files


def is_product(path: Path) -> bool:
    """Whether a build or a test left this file there."""
    return any(part == "build" or part.startswith(".") or part.endswith(".egg-info") for part in path.parts)


def tree_digest(files: dict[str, str]) -> str:
    """SHA-256 over names and contents, to tell two trees apart."""
    return hashlib.sha256(
        "\0".join(f"{name}\0{content}" for name, content in sorted(files.items())).encode()
    ).hexdigest()
