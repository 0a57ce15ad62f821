# SPDX-License-Identifier: Apache-2.0
"""The toolkit's modules as Ansible packs them for the nodes, kept from one run to the next.

Ansible packs a module with all that it imports, some 0.4 s of a core for each of ours, and forgets that at the end of
the run. What is packed depends only on code, so it is kept under the checksum of that code, below ANSIBLE_HOME. Ansible
looks for a packed module in a folder of the run before it packs one; the kept ones are put there.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import functools
import hashlib
import io
import os
import platform
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import ansible
from ansible import constants as C

FOLDER = "gpuwright-modules"
# Of the last checkouts or versions that were used; each takes 2 to 3 MB.
MOST_KEPT = 4
# Where Ansible has found the collection. Links are not resolved, since a folder of links may hold modules of its own.
ROOT = Path(__file__).parents[2]
# As Ansible names a packed module of this collection; those of others may depend on what is not looked at here.
OURS = "ansible_collections.gpuwright.node.plugins.modules."
IMPORTED = ("library", "plugins/modules", "plugins/module_utils")


def use() -> None:
    """Let this run use what earlier ones packed, and keep what it packs itself; for the main process, once a run.

    Nothing is kept where the folder could be changed by others, or where the user has module_utils of their own.
    """
    home, used = Path(C.config.get_config_value("ANSIBLE_HOME")).expanduser(), Path(C.DEFAULT_LOCAL_TMP)
    if not any(Path(path).is_dir() for path in C.DEFAULT_MODULE_UTILS_PATH or ()):
        _use(home / FOLDER, used / "ansiballz_cache")


@functools.cache
def _use(folder: Path, used: Path) -> None:
    """Once a run, although each play calls it: reading the code takes longer than the rest."""
    key = _key()
    copy(folder / key, used)
    # Called before Ansible removes the folder of the run, for which it asked earlier. Workers end without any of this.
    atexit.register(keep, used, folder / key, lambda: _key() == key)


def copy(kept: Path, used: Path) -> None:
    """Put what was packed earlier where Ansible looks for it; what cannot be used is packed anew."""
    if not only_ours(kept):
        return
    with contextlib.suppress(OSError):
        used.mkdir(parents=True, exist_ok=True)
        for file in packed(kept):
            _write(file, used)
        # It was used last.
        os.utime(kept)


def keep(used: Path, kept: Path, unchanged: Callable[[], bool], most: int = MOST_KEPT) -> None:
    """Keep what this run has packed, and of earlier code no more than so many folders.

    unchanged  whether the code is still that for which the folder `kept` is named
    """
    with contextlib.suppress(OSError):
        new = [file for file in packed(used) if not is_whole(kept / file.name)]
        if not new or not unchanged():
            return
        for folder in (kept.parent, kept):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not only_ours(kept):
            return
        for file in new:
            _write(file, kept)
        folders = sorted(kept.parent.iterdir(), key=lambda folder: folder.stat().st_mtime, reverse=True)
        for folder in folders[most:]:
            shutil.rmtree(folder, ignore_errors=True)


def packed(folder: Path) -> Iterable[Path]:
    """Modules of this collection that lie there complete."""
    return [file for file in sorted(folder.glob(f"{OURS}*")) if not file.name.endswith("-part") and is_whole(file)]


def is_whole(file: Path) -> bool:
    """Whether it is all that Ansible wrote, an archive in base64; the end is missing after a power cut."""
    try:
        return zipfile.is_zipfile(io.BytesIO(base64.b64decode(file.read_bytes())))
    except (OSError, ValueError):
        return False


def _write(file: Path, folder: Path) -> None:
    """Copy it whole or not at all: other runs may read the folder, and write to it, at the same time. OSError."""
    descriptor, name = tempfile.mkstemp(dir=folder, prefix=".")
    try:
        with os.fdopen(descriptor, "wb") as target:
            target.write(file.read_bytes())
        Path(name).replace(folder / file.name)
    except OSError:
        Path(name).unlink()
        raise


def only_ours(folder: Path) -> bool:
    """Whether only this user can have written to the folder and to the one above it: what it holds runs as root."""
    try:
        found = [os.lstat(path) for path in (folder, folder.parent)]
    except OSError:
        return False
    return all(stat.S_ISDIR(one.st_mode) and one.st_uid == os.geteuid() and not one.st_mode & 0o022 for one in found)


def _key() -> str:
    """Checksum of all that decides what is packed: Ansible, Python, and the code that modules import."""
    found = hashlib.sha256(f"{ansible.__version__} {platform.python_version()}".encode())
    for file in sorted(Path(ansible.__file__).with_name("module_utils").rglob("*.py")):
        about = file.stat()
        found.update(f"\0{file} {about.st_size} {about.st_mtime_ns}".encode())
    for place in IMPORTED:
        for file in sorted((ROOT / place).rglob("*.py")):
            found.update(f"\0{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return found.hexdigest()[:16]
