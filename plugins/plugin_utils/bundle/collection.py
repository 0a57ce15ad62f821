# SPDX-License-Identifier: Apache-2.0
"""The archive of the collection itself, for a controller that nothing but the bundle reaches.

From a checkout it is built by `ansible-galaxy collection build`, as `make collection` does, with the trainer's wheel in
it. From an installed collection it is put together of the files that were installed, each held to FILES.json.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import IO, Any

from ansible_collections.gpuwright.node.plugins.module_utils.host.whole_file import sync_file, sync_folder

from .. import trainer_wheel
from ..doctor_pyz import version
from ..started import ROOT
from .listing import BundleError

FOLDER = "collection"
MANIFEST, FILES = "MANIFEST.json", "FILES.json"
WHEELS = "roles/model_trainer/files/wheels"
# What a checkout's archive is built from. An inventory is the operator's, and may hold secrets.
PARTS = (
    *("galaxy.yml", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", "SUPPORT.md", "CONTRIBUTING.md"),
    *("execution-environment.yml", "callback_plugins", "docs", "library", "meta", "monitoring", "playbooks", "plugins"),
    *("requirements", "roles", "trainer"),
)
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")
GIT_SECONDS, BUILD_SECONDS = 60, 300
SHOWN = 3
# Those that ansible-galaxy gives to each member, whatever the umask was when the collection was installed.
PLAIN, PROGRAM = 0o644, 0o755


def archive(folder: Path, root: Path = ROOT) -> Path:
    """The archive of the toolkit below `root`, in `folder`; one that is there with this content stays. BundleError."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"gpuwright-node-{version(root)}.tar.gz"
    with tempfile.TemporaryDirectory(prefix="gpuwright-") as name:
        made = _built(root, Path(name)) if (root / "galaxy.yml").exists() else _packed(root, Path(name))
        if contents_of(target) != contents_of(made):
            # On the file system of the bundle first, so that the archive is never there in part.
            part = target.with_name(f".{target.name}.new")
            shutil.copyfile(made, part)
            part.chmod(PLAIN)
            sync_file(str(part))
            part.rename(target)
            sync_folder(str(target))
    return target


def contents_of(path: Path) -> dict[str, Any]:
    """What an archive says that it holds, each file by its SHA-256; empty if it is none."""
    with contextlib.suppress(OSError, tarfile.TarError, EOFError, ValueError, KeyError), tarfile.open(path) as file:
        data = {name: json.load(_member(file, name)) for name in (MANIFEST, FILES)}
        rows = {row["name"]: row for row in data[FILES]["files"]}
        return {"about": data[MANIFEST]["collection_info"], "files": rows}
    return {}


def _member(file: tarfile.TarFile, name: str) -> IO[bytes]:
    found = file.extractfile(name)
    if found is None:
        raise KeyError(name)
    return found


def _built(root: Path, work: Path) -> Path:
    """By ansible-galaxy, from a copy that has only what belongs to the toolkit."""
    stage = work / "node"
    for path in _not_ignored(root) or _walked(root):
        (stage / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / path, stage / path, follow_symlinks=False)
    try:
        wheel = trainer_wheel.wheel(stage / WHEELS, stage / "trainer", root / WHEELS)
    except (trainer_wheel.WheelError, OSError) as error:
        raise _no_archive(str(error), "Make the bundle from the environment of `make venv`, and run again") from None
    place = stage / WHEELS / wheel.parent.name / wheel.name
    if not place.exists():
        place.parent.mkdir(parents=True)
        shutil.copyfile(wheel, place)
    command = [sys.executable, "-m", "ansible", "galaxy", "collection", "build", "--output-path", str(work)]
    done = subprocess.run(command, cwd=stage, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    found = sorted(work.glob("*.tar.gz"))
    if done.returncode != 0 or not found:
        raise _no_archive(" ".join(done.stderr.split()), "Mend what ansible-galaxy names, and run again")
    return found[0]


def _not_ignored(root: Path) -> list[str]:
    """As git sees it; nothing where the checkout came without git, or belongs to somebody whom git distrusts."""
    what = ["--cached", "--others", "--exclude-standard"]
    command = ["git", "-C", str(root), "ls-files", "-z", *what, "--", *PARTS]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_SECONDS, check=False)
        names = [name for name in done.stdout.split("\0") if name]
        there = [name for name in names if (root / name).is_symlink() or (root / name).is_file()]
        return there if "galaxy.yml" in there else []
    return []


def _walked(root: Path) -> list[str]:
    found: list[str] = []
    for part in PARTS:
        place = root / part
        found += [part] if place.is_file() else []
        for path in place.rglob("*") if place.is_dir() else []:
            inside = path.relative_to(root)
            left = any(LEFT_OUT("", [name]) for name in inside.parts)
            if not left and (path.is_symlink() or path.is_file()):
                found.append(str(inside))
    return sorted(found)


def _packed(root: Path, work: Path) -> Path:
    """From the files of an installed collection, which must be those that were installed; always the same bytes."""
    step = "Install the collection again from the archive of its release, and run again"
    try:
        manifest = json.loads((root / MANIFEST).read_bytes())
        rows = json.loads((root / FILES).read_bytes())["files"]
        wrong = [] if _sha256(root / FILES) == manifest["file_manifest_file"]["chksum_sha256"] else [FILES]
        wrong += [row["name"] for row in rows if not _is_as_installed(root, row)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _no_archive(f"{root}: {error}", step) from None
    if wrong:
        more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        raise _no_archive(f"{root}: {', '.join(wrong[:SHOWN])}{more}: missing, or not as installed", step)
    made = work / "installed.tar.gz"
    names = [MANIFEST, FILES, *(row["name"] for row in rows if row["name"] != ".")]
    with (
        made.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as file,
    ):
        for name in names:
            file.add(root / name, name, recursive=False, filter=_plain)
    return made


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A member without what this machine added: times, owner, umask."""
    member.mtime, member.uid, member.gid, member.uname, member.gname = 0, 0, 0, "", ""
    member.mode = PROGRAM if member.isdir() or (member.isfile() and member.mode & 0o100) else PLAIN
    return member


def _is_as_installed(root: Path, row: dict[str, Any]) -> bool:
    """Whether a file, or a link that stays below `root`, is what FILES.json says."""
    path = root / row["name"]
    if not path.resolve().is_relative_to(root.resolve()):
        return False
    return path.is_dir() if row["ftype"] == "dir" else _sha256(path) == row["chksum_sha256"]


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _no_archive(seen: str, step: str) -> BundleError:
    return BundleError("bundle.collection", "The collection cannot be put into the bundle", seen, step)
