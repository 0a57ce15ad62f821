# SPDX-License-Identifier: Apache-2.0
"""The trainer's wheel: built on the controller from `trainer/`, byte for byte the same for the same sources.

Nodes install it and need no build backend. flit_core, which is in the controller's environment, builds it in the run
that first needs it; `make trainer-wheel` leaves one beside the role for a controller without flit_core.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from ansible_collections.gpuwright.node.plugins.plugin_utils.trees import tree_digest, tree_files

from .started import ROOT

PROJECT = ROOT / "trainer"
PACKAGE = "gan_trainer"
# By digest of the sources: a wheel made from other sources is never used.
BUILT = ROOT / "roles/model_trainer/files/wheels"
BACKEND = "flit_core"
# The earliest time that a zip file can store.
SOURCE_DATE_EPOCH = "315532800"
BUILD_SECONDS = 60
LAST_LINES = 5


class WheelError(Exception):
    """There is no wheel; the text says why and what to do next."""


def sources(project: Path = PROJECT) -> dict[str, str]:
    """Relative name and content of everything that the wheel is made from; FileNotFoundError names what is missing."""
    package = {f"{PACKAGE}/{name}": text for name, text in tree_files(str(project / PACKAGE)).items()}
    return {**package, **{name: (project / name).read_text("utf-8") for name in ("README.md", "pyproject.toml")}}


def source_digest(project: Path = PROJECT) -> str:
    """SHA-256 over the sources."""
    return tree_digest(sources(project))


def version(project: Path = PROJECT) -> str:
    """The version of its wheel."""
    found = re.search(r'^version = "([^"]+)"', (project / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    return found.group(1) if found else "0"


def wheel(folder: Path, project: Path = PROJECT, built: Path = BUILT) -> Path:
    """The wheel of the project: the one in `built`, else the one in `folder`, else built there now.

    Raises WheelError.
    """
    files = sources(project)
    digest = tree_digest(files)
    for place in (built, folder):
        found = sorted((place / digest).glob("*.whl"))
        if found:
            return found[0]
    return build(files, folder / digest)


def build(files: dict[str, str], target: Path) -> Path:
    """Build the wheel of these sources into the folder `target`, which appears when complete. Raises WheelError."""
    if importlib.util.find_spec(BACKEND) is None:
        raise WheelError(
            f"The trainer's wheel cannot be built: {sys.executable} on the controller has no {BACKEND}. Start from the "
            f"environment of `make venv`, or install {BACKEND} for this Python, or run `make trainer-wheel` elsewhere "
            f"and copy {BUILT} from there."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        project, out = Path(name, "project"), Path(name, "out")
        for file, text in files.items():
            (project / file).parent.mkdir(parents=True, exist_ok=True)
            (project / file).write_text(text, "utf-8")
        done = subprocess.run(
            [sys.executable, "-m", f"{BACKEND}.wheel", "--outdir", str(out), str(project)],
            env={**os.environ, "SOURCE_DATE_EPOCH": SOURCE_DATE_EPOCH},
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
        )
        if done.returncode != 0 or not list(out.glob("*.whl")):
            last = "\n".join(done.stderr.splitlines()[-LAST_LINES:])
            raise WheelError(f"The trainer's wheel cannot be built from {PROJECT}; fix what {BACKEND} names:\n{last}")
        try:
            out.rename(target)
        except OSError:
            # Another process of the same run was faster, with the same content.
            if not list(target.glob("*.whl")):
                raise
    return next(target.glob("*.whl"))
