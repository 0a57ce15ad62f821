"""The releases of ansible-core that the toolkit claims to work with, each in an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

CACHE = Path(
    os.environ.get("GPUWRIGHT_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuwright"
)
# What all of them need. PyPI has the newest of each minor release, as of 2026-11-28.
BESIDE = ("jinja2==3.1.6", "markupsafe==3.0.4", "pyyaml==6.0.4", "cryptography==50.0.2", "packaging==26.4")
RELEASES = {
    "2.16": "2.16.19",
    "2.17": "2.17.14",
    "2.18": "2.18.19",
    "2.19": "2.19.14",
    "2.20": "2.20.10",
    "2.21": "2.21.5",
}
# The one that `make venv` installs, with which the others are compared, and the last that manages EL 8.
PINNED = "2.16"


class Core(NamedTuple):
    """One release: its number, and the folder of its programs."""

    minor: str
    programs: Path

    @property
    def version(self) -> str:
        return RELEASES[self.minor]


def chosen(asked: str) -> list[str]:
    """Minor releases to test: `asked` for ("2.19", or several with commas), or all. SystemExit for an unknown one."""
    names = [name.strip() for name in asked.split(",") if name.strip()] or list(RELEASES)
    if unknown := [name for name in names if name not in RELEASES]:
        sys.exit(f"CORE={asked}: {', '.join(unknown)} is none of {', '.join(RELEASES)}. Leave CORE out for all.")
    return names


def python() -> str:
    """A Python 3.12 that makes environments; SystemExit where this machine has none."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    known = ["/usr/bin/python3.12", shutil.which("python3.12") or "", *map(str, root.glob("versions/3.12*/bin/python"))]
    # A name in PATH may be a shim that refuses to run, so each is tried.
    question = "import ensurepip, sys; sys.exit(sys.version_info[:2] != (3, 12))"
    for name in filter(None, known):
        if Path(name).exists() and subprocess.run([name, "-c", question], capture_output=True).returncode == 0:
            return name
    sys.exit("ansible-core 2.20 and newer need Python 3.12, and this machine has none (looked in PATH and pyenv)")


def made(minor: str) -> Core:
    """The environment of this release, made once for each set of pins."""
    folder = CACHE / "cores" / minor
    pins = (f"ansible-core=={RELEASES[minor]}", *BESIDE)
    stamp, wanted = folder / "pins.txt", "\n".join((python(), *pins))
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python(), "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *pins]
        subprocess.run(pip, check=True)
        stamp.write_text(wanted)
    return Core(minor, folder / "bin")
