# SPDX-License-Identifier: Apache-2.0
"""The controller's side of the module file_tree: a folder of text files as one value."""

from __future__ import annotations

DOCUMENTATION = r"""
---
name: tree_files
author: The gpuwright developers (@gpuwright)
version_added: 0.1.0
short_description: Return a folder of sources as one value
description:
  - For M(gpuwright.node.file_tree), which writes it on a node. Products of builds and tests are left out.
positional: without
options:
  _input:
    description: The folder, on the controller.
    type: path
    required: true
  without:
    description: Folders in it that are left out.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- ansible.builtin.debug:
    msg: "{{ (role_path ~ '/files/tool') | gpuwright.node.tree_files }}"
"""

RETURN = r"""
_value:
  description: Relative name and content of every source.
  type: dict
"""

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


class FilterModule:
    """Filters of the role preflight."""

    def filters(self) -> dict:
        return {"tree_files": tree_files, "tree_digest": tree_digest}
