"""A controller for each release of ansible-core: an environment of this machine, or one in a container."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from releases_of_core import BESIDE, PYTHONS, RELEASES

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
# The imports below lie in that folder, so they come after it.
sys.path.append(str(REPOSITORY / "tests/fleet"))

from gpuwright_fleet.base import build_base  # noqa: E402
from gpuwright_fleet.cli import locked  # noqa: E402
from gpuwright_fleet.image import import_base  # noqa: E402
from gpuwright_fleet.podman import containers_conf  # noqa: E402

CACHE = Path(
    os.environ.get("GPUWRIGHT_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuwright"
)
# As AWX, or a colleague: another container of this machine, whose processes nobody sees from here.
ELSEWHERE = ("unshare", "--pid", "--fork", "--mount-proc")
# Of a container: Debian 13.
SUITE, ITS_PYTHON = "trixie", "3.13"


class Core(NamedTuple):
    """One release: its number, the folder of its programs, and the image that they run in, "" for this machine."""

    minor: str
    programs: Path
    image: str = ""

    @property
    def version(self) -> str:
        return RELEASES[self.minor]

    def command(self, program: str, *arguments: str, folder: Path, elsewhere: bool = False) -> list[str]:
        """A command in `folder`; `elsewhere`: on another controller, of whose processes nobody knows here."""
        whole = [str(self.programs / program), *arguments]
        if not self.image:
            return [*(ELSEWHERE if elsewhere else []), *whole]
        # Each container is a controller of its own.
        begin = words(self.image, (CACHE, folder.parent, REPOSITORY / ".fleet"))
        return [*begin[:-1], f"--workdir={folder}", begin[-1], *whole]


def built() -> str:
    """The name of the container's image; built from this machine's own mirror where it is not there yet."""
    with locked("build"):
        return import_base(build_base(HERE / "controller", SUITE))


def words(image: str, folders: Sequence[Path]) -> tuple[str, ...]:
    """What a command begins with that runs in the image, with this machine's network, variables and these folders."""
    volumes = [f"--volume={folder}:{folder}" for folder in folders]
    settings = f"CONTAINERS_CONF={containers_conf()}"
    return ("env", settings, "podman", "run", "--rm", "--network=host", "--env-host", *volumes, image)


def install(image: str, folder: Path, pins: Sequence[str]) -> None:
    """An environment in `folder`: this machine's pip knows where packages come from, the container's makes programs."""
    with tempfile.TemporaryDirectory() as temporary:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--dest", temporary]
        subprocess.run([*pip, "--python-version", ITS_PYTHON, *pins], check=True)
        inside = words(image, (folder.parent, Path(temporary)))
        subprocess.run([*inside, "python3", "-m", "venv", str(folder)], check=True)
        pip = [f"{folder}/bin/pip", "install", "--quiet", "--no-index", "--find-links", temporary]
        subprocess.run([*inside, *pip, *pins], check=True)


def python(minor: str) -> str:
    """A Python of this machine that this release runs on and that makes environments; "" if there is none."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for version in PYTHONS[minor]:
        found = map(str, sorted(root.glob(f"versions/{version}.*/bin/python")))
        known = [f"/usr/bin/python{version}", shutil.which(f"python{version}") or "", *found]
        # A name in PATH may be a shim that refuses to run, so each is tried.
        question = f"import ensurepip, sys; sys.exit('%d.%d' % sys.version_info[:2] != '{version}')"
        for name in filter(None, known):
            if Path(name).exists() and subprocess.run([name, "-c", question], capture_output=True).returncode == 0:
                return name
    return ""


def made(minor: str) -> Core:
    """The environment of this release, made once for each set of pins; in a container where no Python here suits it."""
    folder, here, image = CACHE / "cores" / minor, python(minor), ""
    if not here:
        image = built()
    pins = (f"ansible-core=={RELEASES[minor]}", *BESIDE)
    stamp, wanted = folder / "pins.txt", "\n".join((here or image, *pins))
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        if image:
            install(image, folder, pins)
        else:
            subprocess.run([here, "-m", "venv", str(folder)], check=True)
            pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *pins]
            subprocess.run(pip, check=True)
        stamp.write_text(wanted)
    return Core(minor, folder / "bin", image)
