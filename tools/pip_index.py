"""What the index that pip is configured for says about packages: their versions, and what their wheels require.

No package is installed. pip's own messages are not shown: they name the index with its user.
"""

from __future__ import annotations

import atexit
import functools
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

# pip takes each tag literally: a wheel for glibc 2.18 is not one for 2.28.
PLATFORMS = tuple(
    f"{name}_x86_64"
    for name in (
        *(f"manylinux_2_{minor}" for minor in range(28, 4, -1)),
        "manylinux2014",
        "manylinux2010",
        "manylinux1",
        "linux",
    )
)


# The first pip that, in a dry run, reads only the metadata of a wheel.
READS_WITHOUT_DOWNLOAD = (24, 1)
ONE_AT_A_TIME = threading.Lock()


class NoAnswerError(Exception):
    """Why the index had no answer, as one sentence without its address."""


def _pip(*words: str) -> str:
    """What pip prints. Raises NoAnswerError."""
    # This machine's constraints or wheel folders are not part of the index.
    environment = {**os.environ, "PIP_CONSTRAINT": os.devnull, "PIP_FIND_LINKS": "", "PIP_NO_INPUT": "1"}
    with ONE_AT_A_TIME:
        newer = _newer_pip()
    environment |= {"PYTHONPATH": newer} if newer else {}
    command = [sys.executable, "-m", "pip", "--no-color", "--disable-pip-version-check"]
    done = subprocess.run([*command, *words], capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        # pip explains why an index had nothing only in verbose mode, which takes time.
        done = subprocess.run([*command, "-vv", *words], capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise NoAnswerError(_reason(done.stdout + done.stderr))
    return done.stdout


@functools.cache
def _newer_pip() -> str:
    """A folder with the newest pip, if this environment's would download whole wheels; "" otherwise."""
    if tuple(int(part) for part in importlib.metadata.version("pip").split(".")[:2]) >= READS_WITHOUT_DOWNLOAD:
        return ""
    folder = tempfile.mkdtemp(prefix="gpuwright-pip-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, "pip"]
    environment = {**os.environ, "PIP_CONSTRAINT": os.devnull, "PIP_NO_INPUT": "1"}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    return "" if done.returncode else folder


def _reason(told: str) -> str:
    # pip continues with the next index, and then says for each package that there is none.
    for pattern, reason in (
        (r"Could not fetch URL .* 40[13] ", "refuses the login"),
        (r"Could not fetch URL .*(too many 5\d\d| 5\d\d )", "answers with an error of its own"),
        (r"Could not fetch URL .*(connection error|Max retries|timed out|SSL)", "cannot be reached"),
        (r"No matching distribution|Could not find a version", "does not have it"),
    ):
        if re.search(pattern, told):
            return f"the index that pip is configured for {reason}"
    return "pip could not read the index that it is configured for"


def versions(package: str, python: str) -> list[str]:
    """Final releases with a wheel for this Python on 64-bit Linux, newest first. Raises NoAnswerError."""
    words = ["index", "versions", package, "--python-version", python, "--only-binary", ":all:"]
    answer = _pip(*words, *(word for name in PLATFORMS for word in ("--platform", name)))
    found = re.search(r"Available versions: (.*)", answer)
    # A local version ("2.13.0+cpu") is not a separate release.
    return [name for name in found.group(1).split(", ") if re.fullmatch(r"[0-9.]+", name)] if found else []


def report_on(pins: list[str], python: str, file: Path) -> list[dict[str, Any]]:
    """What pip reports about exact versions ("torch==2.10.0"), one entry for each wheel. Raises NoAnswerError.

    file  keeps the report; if it exists, no index is asked
    """
    if not file.exists():
        words = ["install", "--dry-run", "--ignore-installed", "--no-deps", "--python-version", python]
        # An index without separate metadata has it in the wheel: pip reads a few kilobytes at its end instead of 900
        # MB.
        words += ["--use-feature=fast-deps", "--report", str(file), "--only-binary", ":all:"]
        words += ["--target", str(file.parent)]
        _pip(*words, *(word for name in PLATFORMS for word in ("--platform", name)), *pins)
    return json.loads(file.read_text())["install"]


def wheel_requirements(package: str, version: str, python: str, folder: Path) -> list[str]:
    """`Requires-Dist` of a wheel, from a report in `folder` or else from pip. Raises NoAnswerError."""
    (wheel,) = report_on([f"{package}=={version}"], python, folder / f"{package}-{version}-{python}.json")
    return wheel["metadata"].get("requires_dist", [])
