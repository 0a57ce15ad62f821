# SPDX-License-Identifier: Apache-2.0
"""The file by which an environment is known as complete: written last, and taken away from one that is damaged."""

import contextlib
import hashlib
import json
import os
from typing import Any, Mapping

from ..host.whole_file import write_whole


def mark_checksum(path: str, name: str) -> str:
    """SHA-256 of the mark in the environment `path`, "" if there is none, or if `name` is empty; OSError."""
    if not name:
        return ""
    try:
        with open(os.path.join(path, name), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def set_mark(path: str, name: str, content: Mapping[str, Any]) -> None:
    """Write it, in one step; OSError."""
    text = json.dumps(content, indent=4, sort_keys=True) + "\n"
    write_whole(os.path.join(path, name), text.encode(), owner=(os.geteuid(), os.getegid()))


def take_mark(path: str, name: str) -> None:
    """Remove it; OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(path, name))
