# SPDX-License-Identifier: Apache-2.0
"""train-gan new FOLDER: a small package with your own task and data, that trains at once."""

from __future__ import annotations

import argparse
import keyword
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Iterator

from ..errors import UsageError

PLACEHOLDER = "NAME"
TEMPLATE = "template"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", help="folder to create; its last part is the name of the package")


def run(options: argparse.Namespace) -> int:
    folder = Path(options.folder).absolute()
    name = folder.name
    # The name goes into Python, YAML and TOML.
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name) or name in taken_names():
        raise UsageError(
            f"new {options.folder}: {name!r} cannot be the package's name; expected lower-case letters, digits and _, "
            "not a name that Python uses itself, and not gan_trainer or torch"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"new {options.folder}: already exists and is not empty; choose another folder")
    try:
        for place, text in files(name):
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"new {options.folder}: cannot be written: {error.strerror}") from error
    print(f"train-gan: {folder} has a task, data and a test. It trains with:\n  {command(folder)}")
    return 0


def command(folder: Path) -> str:
    """Trains with the new package as it lies there. On a node nobody may install into the environment, whose programs
    only gpu-run finds; elsewhere the one that was started does it."""
    program = f"{shlex.quote(sys.executable)} -m gan_trainer.cli"
    if shutil.which("gpu-run"):
        program = "gpu-run -- train-gan"
    elif shutil.which("train-gan"):
        program = "train-gan"
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH", ""))))
    return f"PYTHONPATH={shlex.quote(path)} {program} --config {shlex.quote(str(folder / 'config.yml'))}"


def taken_names() -> set[str]:
    return {"gan_trainer", "torch", "numpy", "yaml", "tests", *getattr(sys, "stdlib_module_names", ())}


def files(name: str) -> Iterator[tuple[str, str]]:
    """Path below the new folder and content of each file."""
    template = Path(__file__).parents[1] / TEMPLATE
    for path in sorted(template.rglob("*")):
        place = path.relative_to(template)
        if path.suffix not in (".py", ".toml", ".yml") or place == Path("__init__.py"):
            continue
        folder = "tests/" if place.name.startswith("test_") else ""
        text = path.read_text(encoding="utf-8").replace(PLACEHOLDER, name)
        yield folder + place.as_posix().replace("package", name), text
