# SPDX-License-Identifier: Apache-2.0
"""Folders for one trial beside the caches that compiled code would really use: the same file system and its options."""

from __future__ import annotations

import getpass
import os
import shutil
import tempfile
from pathlib import Path
from types import TracebackType


class CacheError(RuntimeError):
    """Compiled code could not be kept; the text says where and why."""


def triton_place() -> Path:
    """Where Triton keeps what it builds (triton/runtime/cache.py)."""
    if os.environ.get("TRITON_CACHE_DIR"):
        return Path(os.environ["TRITON_CACHE_DIR"])
    return Path(os.environ.get("TRITON_HOME") or "~").expanduser() / ".triton/cache"


def inductor_place() -> Path:
    """Where Inductor does (torch/_inductor/runtime/cache_dir_utils.py)."""
    if os.environ.get("TORCHINDUCTOR_CACHE_DIR"):
        return Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    try:
        return Path(tempfile.gettempdir()) / f"torchinductor_{user}"
    except FileNotFoundError as error:
        raise CacheError(f"there is no folder for temporary files: {error.strerror}") from error


class Caches:
    """A context: new folders in these places, or where they would be made; nothing of them stays."""

    def __init__(self) -> None:
        self.folders: dict[str, str] = {}

    def __enter__(self) -> Caches:
        try:
            for name, place in (("TRITON_CACHE_DIR", triton_place()), ("TORCHINDUCTOR_CACHE_DIR", inductor_place())):
                self.folders[name] = make_folder(place)
        except CacheError:
            self.remove()
            raise
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.remove()

    def environment(self) -> dict[str, str]:
        # One compiling process: a pool of them would outlive a deadline.
        return {**self.folders, "TORCHINDUCTOR_COMPILE_THREADS": "1"}

    def remove(self) -> None:
        for folder in self.folders.values():
            shutil.rmtree(folder, ignore_errors=True)
        self.folders.clear()


def make_folder(place: Path) -> str:
    """A new folder in `place`, or in the nearest folder above it; CacheError says why not."""
    above = next(path for path in (place, *place.absolute().parents) if path.exists())
    try:
        return tempfile.mkdtemp(prefix=".train-gan-compiling-", dir=above)
    except OSError as error:
        raise CacheError(f"compiled code would be kept in {place}, but {above}: {error.strerror}") from error
