"""The Python of EL 10 and of Ubuntu for their stand-ins: a copy of this machine's, as Debian's userland has another."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .shell import FleetError

# The Python of a system's installer, if the stand-in's userland has none of that version.
PYTHON_OF = {"el8-python38": "3.8", "el10": "3.12", "ubuntu2204": "3.10", "ubuntu2404": "3.12"}
# What an environment with pip is made from; distributions package some of it separately.
QUESTION = """
import ctypes, ensurepip, json, ssl, sys, sysconfig, venv
ensurepip.version()
shared = sysconfig.get_config_var("INSTSONAME") if sysconfig.get_config_var("Py_ENABLE_SHARED") else ""
print(json.dumps({
    "version": sys.version,
    "program": sysconfig.get_config_var("BINDIR") + "/python%d.%d" % sys.version_info[:2],
    "library": sysconfig.get_path("stdlib"),
    "headers": sysconfig.get_path("include"),
    "shared": sysconfig.get_config_var("LIBDIR") + "/" + shared if shared else "",
    "wheels": sysconfig.get_config_var("WHEEL_PKG_DIR") or "",
}))
"""
UNWANTED = ("__pycache__", "test", "idlelib", "tkinter", "turtledemo", "site-packages", "dist-packages", "config-*")


@dataclass(frozen=True)
class Interpreter:
    """A Python of this machine: `sys.version`, program, standard library, headers, and the shared library or "".

    wheels  folder of the distribution in which ensurepip finds pip's wheel, "" where it has its own
    """

    version: str
    program: Path
    library: Path
    headers: Path
    shared: str
    wheels: str


def candidates(version: str) -> list[str]:
    """Programs that may be this Python; a name in PATH may be a shim that refuses to run, so each is tried."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = shutil.which(f"python{version}")
    return [*([found] if found else []), *map(str, sorted(root.glob(f"versions/{version}.*/bin/python{version}")))]


def find_python(version: str) -> Interpreter:
    """This machine's Python of a version such as "3.12". Raises FleetError if none is complete."""
    for name in candidates(version):
        answer = subprocess.run([name, "-I", "-c", QUESTION], capture_output=True, text=True)
        if answer.returncode == 0:
            told = json.loads(answer.stdout)
            program, library, headers = (Path(told[name]) for name in ("program", "library", "headers"))
            if (headers / "Python.h").is_file():
                return Interpreter(told["version"], program, library, headers, told["shared"], told["wheels"])
    raise FleetError(
        f"EL 10, Ubuntu and an EL 8 with Python 3.8 are made with this machine's Python {version}, and none was found "
        f"that can make environments (venv, ensurepip, ssl) and has its headers. Install Python {version} with its "
        "venv and headers, or use fleets of other systems."
    )


def copy_python(found: Interpreter, version: str, root: Path) -> None:
    """Put an interpreter below `root` where a distribution has it: /usr/bin, /usr/lib, /usr/lib64."""
    (root / "usr/bin").mkdir(parents=True, exist_ok=True)
    shutil.copy(found.program.resolve(), root / f"usr/bin/python{version}")
    library = root / f"usr/lib/python{version}"
    shutil.copytree(found.library, library, symlinks=True, ignore=shutil.ignore_patterns(*UNWANTED))
    (library / "site-packages").mkdir()
    # Of python3-devel, whose stand-in is a name like that of python3.
    shutil.copytree(found.headers, root / f"usr/include/python{version}")
    if found.shared:
        (root / "usr/lib64").mkdir(parents=True, exist_ok=True)
        shutil.copy(found.shared, root / "usr/lib64")
    if found.wheels:
        shutil.copytree(found.wheels, root / found.wheels.strip("/"), dirs_exist_ok=True)
