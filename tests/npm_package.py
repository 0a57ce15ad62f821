"""Packages of the npm registry, held against the hash that their user pins and kept in the cache."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import tarfile
from pathlib import Path

CACHE = Path(
    os.environ.get("GPUWRIGHT_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuwright"
)
INSTALL_NODE = Path(__file__).with_name("install-node")


class PackageError(Exception):
    """The package cannot be fetched, or is not the pinned one; the text says what to do."""


def fetch(name: str, version: str, integrity: str) -> Path:
    """The package's file. `integrity` as npm writes it: sha512- and the digest in base64. Raises PackageError."""
    file_name = f"{name.lstrip('@').replace('/', '-')}-{version}.tgz"
    folder = CACHE / name.rpartition("/")[2]
    package = folder / file_name
    if not package.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _run(str(INSTALL_NODE), problem="node and npm")
        command = ("npm", "pack", f"{name}@{version}", "--silent", "--pack-destination", str(folder))
        _run(*command, problem=f"{name} {version} cannot be fetched; put its package at {package}")
    digest = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
    if f"sha512-{digest}" != integrity:
        raise PackageError(f"{package} is not the pinned {name} {version}: delete it and run again")
    return package


def read(package: Path, member: str) -> bytes:
    """One file of a package, named from the package's root."""
    with tarfile.open(package) as archive:
        found = archive.extractfile(f"package/{member}")
        if found is None:
            raise PackageError(f"{package} has no file {member}")
        return found.read()


def _run(*command: str, problem: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise PackageError(f"{problem}: {done.stderr.strip()[-400:]}")
