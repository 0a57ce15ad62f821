"""Check the types of all tests and of the fleet with mypy, one run for each folder that has a conftest.py of its own.

Within one run a module's name stands for one file, and pytest gives the name `conftest` to each folder's own. Of two
benchmarks each has a module `arms`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
TESTS = REPOSITORY / "tests"
# A program that nodes run from a folder of its own.
BURN_IN = REPOSITORY / "roles/accept/files/burn_in"
# What tests of more than one folder import by its name alone.
SHARED = (TESTS, TESTS / "fleet")
ALONE = (
    "archives",
    "blank_disk",
    "burn_in",
    "collection",
    "container",
    "cores",
    "deep",
    "digits",
    "faults",
    "gpu",
    "guards",
    "numa",
    "page",
    "schedulers",
    "testinfra",
    "vm",
    "world",
    "bench/runtime",
    "bench/trainer",
    "bench/converge",
)


def folders_with_modules(folder: Path) -> list[Path]:
    return sorted({file.parent for file in folder.rglob("*.py")})


def runs() -> list[tuple[list[Path], list[Path]]]:
    """(what is checked, folders from which it imports, the first ones first) of each run."""
    unit = folders_with_modules(TESTS / "unit")
    used = [*SHARED, *(TESTS / name for name in ("vm", "world", "faults", "guards", "bench/runtime", "gpu")), BURN_IN]
    found = [([TESTS / "unit"], [*unit, *used])]
    beside = [TESTS / "vm", TESTS / "world", TESTS / "bench/runtime", *SHARED, REPOSITORY / "trainer", BURN_IN]
    # Seeds, and programs that are forked.
    beside.append(REPOSITORY / "trainer/tests")
    # Its scripts run under an interpreter of their own.
    beside.append(TESTS / "gpu/on_torch")
    found += [([TESTS / name], [TESTS / name, *unit, *beside]) for name in ALONE]
    apart = {TESTS / name for name in ("unit", *ALONE)}
    rest = sorted(file for file in TESTS.rglob("*.py") if not apart.intersection(file.parents))
    return [*found, (rest, [*SHARED])]


def check(paths: list[Path], bases: list[Path]) -> bool:
    command = [sys.executable, "-m", "mypy", "--config-file=tests/mypy.toml", *map(str, paths)]
    environment = {**os.environ, "MYPYPATH": os.pathsep.join(map(str, bases))}
    return subprocess.run(command, cwd=REPOSITORY, env=environment).returncode == 0


def main() -> int:
    return 0 if all([check(paths, bases) for paths, bases in runs()]) else 1


if __name__ == "__main__":
    sys.exit(main())
