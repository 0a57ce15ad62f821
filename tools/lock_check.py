"""Compare the lock files with the wheels that they name. A part of `make matrix-check`.

All that a wheel requires must be locked, in a version that it accepts, and nothing else; the wheel that pip would
install must have one of the hashes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pip_index
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCKS = Path(__file__).resolve().parents[1] / "roles/framework_pytorch/files/locks"
# {package: (version, sha256 of its wheels)}
Lock = dict[str, tuple[str, set[str]]]


def read_lock(file: Path) -> Lock:
    found = {}
    for block in re.split(r"\n(?=\S)", file.read_text().strip()):
        match = re.match(r"([A-Za-z0-9._-]+)==([^\s;]+)", block)
        if match:
            hashes = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", block))
            found[str(canonicalize_name(match.group(1)))] = match.group(2), hashes
    return found


def demanded(lines: Iterable[str], python: str, extras: set[str]) -> list[Requirement]:
    """Those of the lines that count on 64-bit Linux, for a package of which these optional parts are wanted."""
    here: dict[str, Any] = {**default_environment(), "python_version": python, "python_full_version": python + ".0"}
    here |= {"platform_system": "Linux", "sys_platform": "linux", "platform_machine": "x86_64"}
    here |= {"implementation_name": "cpython", "platform_python_implementation": "CPython", "os_name": "posix"}
    return [
        line
        for line in map(Requirement, lines)
        if line.marker is None or any(line.marker.evaluate({**here, "extra": extra}) for extra in ("", *extras))
    ]


def lock_problems(asked: list[str], lock: Lock, wheels: list[pip_index.Wheel], python: str) -> list[str]:
    """What is wrong with a lock.

    asked   the requirements that it was made from
    wheels  what was read of those that pip would take
    """
    requires = {str(canonicalize_name(wheel.name)): wheel.requires for wheel in wheels}
    problems: list[str] = []
    reached: dict[str, set[str]] = {}
    waiting = [("what was asked for", line) for line in demanded(asked, python, set())]
    while waiting:
        who, line = waiting.pop()
        name = str(canonicalize_name(line.name))
        if name not in lock or name not in requires:
            problems.append(f"{who} demands {line}, which is not locked")
            continue
        if not line.specifier.contains(lock[name][0], prereleases=True):
            problems.append(f"{who} demands {line}, and {lock[name][0]} is locked")
        extras = reached.get(name, set()) | line.extras
        if name not in reached or extras != reached[name]:
            reached[name] = extras
            waiting += [(f"{name} {lock[name][0]}", one) for one in demanded(requires[name], python, extras)]
    problems += [f"{name} is locked, and nothing demands it" for name in sorted(set(lock) - set(reached))]
    for wheel in wheels:
        name = str(canonicalize_name(wheel.name))
        if wheel.sha256 and name in lock and wheel.sha256 not in lock[name][1]:
            problems.append(f"the wheel of {name} that pip takes has another hash")
    return list(dict.fromkeys(problems))


def check_locks(index: pip_index.Index, at_once: int) -> tuple[int, list[str]]:
    """How many lock files were compared with their wheels, and what is wrong with them, or why one was not read."""

    def check(file: Path) -> list[str]:
        match = re.match(r"py([0-9.]+)-", file.name)
        python = match.group(1) if match else ""
        lock = read_lock(file)
        asked = [line for line in file.with_suffix(".in").read_text().splitlines() if line and line[0] not in "#-"]
        try:
            wheels = [index.wheel(name, version, python) for name, (version, _hashes) in lock.items()]
        except pip_index.NoAnswerError as error:
            return [f"{file.name} was not read: {error}"]
        return [f"{file.name}: {problem}" for problem in lock_problems(asked, lock, wheels, python)]

    files = sorted(LOCKS.glob("*.txt"))
    with ThreadPoolExecutor(at_once) as readers:
        found = list(readers.map(check, files))
    return len(files), [problem for problems in found for problem in problems]
