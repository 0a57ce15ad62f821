"""Debian packages that conditions need on a host and that no host has: fetched once, unpacked into one folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from gpuwright_fleet.base import SUITE, apt_options, controller_sources
from gpuwright_fleet.paths import cache_dir, content_hash, is_complete
from gpuwright_fleet.podman import podman
from gpuwright_fleet.shell import run, step

# A clock that is wrong for each program of a host, and a Python of another version without dnf's bindings.
NAMES = ("libfaketime", "pypy3")
ON_HOST = "/opt/world"


def unpacked() -> Path:
    """The folder with the packages and what they need, made once; raises FleetError without a network."""
    target = cache_dir() / f"world-{content_hash([Path(__file__)])}"
    if is_complete(target):
        return target / "root"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    command: list[str | Path] = ["mmdebstrap", "--mode=root", "--variant=extract", "--format=directory"]
    command += [f"--include={','.join(NAMES)}", *(f"--aptopt={option}" for option in apt_options())]
    command += ["--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*"]
    with step("packages for conditions (mmdebstrap)"):
        run([*command, SUITE, target / "root", *controller_sources()], timeout=900)
    for name in ("usr/share/doc", "usr/share/man", "usr/share/locale", "var"):
        shutil.rmtree(target / "root" / name, ignore_errors=True)
    (target / "complete").touch()
    return target / "root"


def bring(container: str) -> None:
    """Copy them to a host, apart from its own files."""
    podman("cp", str(unpacked()), f"{container}:{ON_HOST}")
