"""A package repository with one package: a small kernel module in the place of NVIDIA's, for emulated processors.

NVIDIA's module takes minutes to compile, and under emulation an hour. Everything around it stays Debian's: DKMS,
headers, compiler, the other packages of the driver.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from gpuwright_fleet.debs import write_index
from gpuwright_fleet.shell import run

from .paths import VM_DIR

STUB = VM_DIR / "stub"
SOURCE_FOLDER = "usr/src/nvidia-current-535.261.03"
PLACE = "/srv/stub"
SOURCE_LINE = f"deb [trusted=yes] file:{PLACE} ./"


def build_repository(folder: Path) -> Path:
    """`folder` with the package and its index, as apt reads it from a disk."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name)
        tree.chmod(0o755)
        shutil.copytree(STUB / "source", tree / SOURCE_FOLDER)
        (tree / "DEBIAN").mkdir()
        for part in ("control", "postinst", "prerm"):
            shutil.copy(STUB / part, tree / "DEBIAN" / part)
        run(["dpkg-deb", "--root-owner-group", "--build", tree, folder / "nvidia-kernel-dkms.deb"])
    write_index(folder)
    return folder
