"""The folder of Python wheels that hosts install from, as an air-gapped server would."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from .paths import REPO_ROOT, cache_dir, content_hash, is_complete
from .shell import run, say, step

LOCK = REPO_ROOT / "roles/framework_pytorch/files/locks/py3.11-torch2.13.0-cpu.txt"
# Wheels for the hosts' Python 3.11 and glibc 2.28, whatever Python runs here.
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64",
             "manylinux_2_12_x86_64", "manylinux2010_x86_64", "manylinux_2_5_x86_64", "manylinux1_x86_64")  # fmt: skip
TARGET = ["--python-version", "3.11", "--implementation", "cp", "--abi", "cp311", "--abi", "abi3", "--abi", "none"]


def download_command(python: str, lock: Path, folder: Path, native: bool) -> list[str]:
    command = [python, "-m", "pip", "download", "--require-hashes", "--only-binary", ":all:", "--no-deps"]
    command += ["--dest", str(folder), "-r", str(lock)]
    if not native:
        command += [*TARGET, *(word for platform in PLATFORMS for word in ("--platform", platform))]
    return command


def build_wheelhouse() -> Path | None:
    """The wheelhouse's folder, or None while the lock file does not exist."""
    if not LOCK.exists():
        say(f"   wheelhouse: skipped, {LOCK.relative_to(REPO_ROOT)} does not exist yet")
        return None
    target = cache_dir() / f"wheelhouse-{content_hash([LOCK])}"
    if is_complete(target):
        return target / "wheels"
    shutil.rmtree(target, ignore_errors=True)
    (target / "wheels").mkdir(parents=True)
    native = sys.version_info[:2] == (3, 11)
    with step("wheels for the hosts (pip download)"):
        run(download_command(sys.executable, LOCK, target / "wheels", native), timeout=1800)
    (target / "complete").touch()
    return target / "wheels"
