"""The folders of Python wheels that hosts install from, as an air-gapped server would."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .paths import REPO_ROOT, cache_dir, content_hash, is_complete
from .shell import run, say, step

LOCKS = REPO_ROOT / "roles/framework_pytorch/files/locks"
LOCK = LOCKS / "py3.11-torch2.13.0-cpu.txt"
# PyPI has no CPU build of PyTorch, and the one above is for Python 3.11 alone: a host with another Python gets what a
# real one with its card gets, CUDA's libraries included (3 to 4 GB).
LOCK_OF = {
    "el8-python38": LOCKS / "py3.8-torch2.0.1-cu117-tf2.13.1.txt",
    "el10": LOCKS / "py3.12-torch2.14.1-cu130.txt",
    "ubuntu2204": LOCKS / "py3.10-torch2.14.1-cu130.txt",
    "ubuntu2404": LOCKS / "py3.12-torch2.14.1-cu130.txt",
    "debian13": LOCKS / "py3.13-torch2.10.0-cu128.txt",
    "debian13-nvidia": LOCKS / "py3.13-torch2.14.1-cu130.txt",
}
# Wheels for glibc 2.28 and older, whatever runs here.
PLATFORMS = (
    *(f"manylinux_2_{number}_x86_64" for number in range(28, 4, -1)),
    *(f"manylinux{name}_x86_64" for name in ("2014", "2010", "1")),
)


def lock_of(spec: Mapping[str, Any]) -> Path:
    """The lock file of a host of hosts.yml: the one that is named there, or else that of its platform."""
    return LOCKS / spec["lock"] if "lock" in spec else LOCK_OF.get(spec.get("platform", ""), LOCK)


def python_of(lock: Path) -> str:
    """The Python of a lock file, by its name: py3.11-torch2.13.0-cpu.txt is for "3.11"."""
    return lock.name.partition("-")[0].removeprefix("py")


def pytorch_of(lock: Path) -> tuple[str, str]:
    """Version and build of a lock file's PyTorch, by its name: ("2.13.0", "cpu")."""
    _, torch, build = lock.stem.split("-")[:3]
    return torch.removeprefix("torch"), build


def download_command(python: str, lock: Path, folder: Path, native: bool) -> list[str]:
    command = [python, "-m", "pip", "download", "--require-hashes", "--only-binary", ":all:", "--no-deps"]
    command += ["--dest", str(folder), "-r", str(lock)]
    if not native:
        version = python_of(lock)
        command += ["--python-version", version, "--implementation", "cp"]
        command += [word for abi in (f"cp{version.replace('.', '')}", "abi3", "none") for word in ("--abi", abi)]
        command += [word for platform in PLATFORMS for word in ("--platform", platform)]
    return command


def build_wheelhouse(lock: Path = LOCK) -> Path | None:
    """The folder with the wheels of a lock file, or None while that file does not exist."""
    if not lock.exists():
        say(f"   wheelhouse: skipped, {lock.relative_to(REPO_ROOT)} does not exist yet")
        return None
    python = python_of(lock)
    kind = "wheelhouse" if lock == LOCK else f"wheelhouse_py{python}"
    target = cache_dir() / f"{kind}-{content_hash([lock])}"
    if is_complete(target):
        return target / "wheels"
    shutil.rmtree(target, ignore_errors=True)
    (target / "wheels").mkdir(parents=True)
    native = python == f"{sys.version_info[0]}.{sys.version_info[1]}"
    with step(f"wheels for the hosts' Python {python} (pip download)"):
        run(download_command(sys.executable, lock, target / "wheels", native), timeout=3600)
    (target / "complete").touch()
    return target / "wheels"
