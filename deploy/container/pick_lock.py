# SPDX-License-Identifier: Apache-2.0
"""Print the lock file for this Python: pick_lock.py FOLDER PYTORCH. Used while the image is built."""

from __future__ import annotations

import sys
from pathlib import Path


def pick(folder: Path, python: str, pytorch: str) -> Path:
    """The lock file of `pytorch`, such as torch2.10.0-cu128, for `python`, such as 3.11; LookupError lists others."""
    lock = folder / f"py{python}-{pytorch}.txt"
    if lock.is_file():
        return lock
    known = sorted(file.stem.partition("-")[2] for file in folder.glob(f"py{python}-*.txt"))
    if not known:
        raise LookupError(f"there is no lock file for Python {python}, which the base image has; take another base")
    raise LookupError(f"there is no lock file {lock.name}; for Python {python} PYTORCH can be: {', '.join(known)}")


def main(arguments: list[str]) -> int:
    try:
        print(pick(Path(arguments[0]), "{}.{}".format(*sys.version_info[:2]), arguments[1]))
    except LookupError as error:
        print(f"pick_lock: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
