"""Write an environment file for conda from a lock file of the role framework_pytorch.

    python tools/conda.py py3.11-torch2.10.0-cu128 [--folder FOLDER]

Without a name, the files in deploy/conda are written anew (`make docs`); tests/unit/docs/test_conda.py finds drift.
conda brings Python, pip and the compilers that torch.compile needs: every package comes from the lock, with its
hashes, so that a conda environment and a node's environment hold the same files. The environment file names the lock
by a relative path, so it stays where it was written.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
LOCKS = REPOSITORY / "roles/framework_pytorch/files/locks"
FOLDER = REPOSITORY / "deploy/conda"
# The most common requests: GPUs under a driver of branch 570 or newer, and the CPU. Others are one command away.
KEPT = ("py3.11-torch2.10.0-cu128", "py3.11-torch2.13.0-cpu")
NAME = re.compile(r"py(?P<python>[0-9]+\.[0-9]+)-(?P<rest>[a-z0-9.+-]+)")
# A version such as 2.13.0+cpu is never on PyPI; PyTorch's own index has it. Hashes decide what is accepted from there.
OWN_BUILD = re.compile(r"^torch==[^+\s]+\+([a-z0-9]+)", re.MULTILINE)
INDEX = "https://download.pytorch.org/whl/"
# The oldest pip that supports every hash and wheel tag in the locks; newer ones also do.
PIP = "23.0"


def environment(lock: str, path: str) -> str:
    """The environment file for the lock called `lock`; `path` leads from the environment file to the lock.

    Raises ValueError if the name is not that of a lock, or a line of the lock has no hash.
    """
    match = NAME.fullmatch(lock)
    file = LOCKS / f"{lock}.txt"
    if not match or not file.is_file():
        known = ", ".join(sorted(file.stem for file in LOCKS.glob("*.txt")))
        raise ValueError(f"{lock!r} is no lock file; there are: {known}")
    text = file.read_text()
    unlocked = [line for line in requirements(text) if "--hash=sha256:" not in line]
    if unlocked:
        raise ValueError(f"{file.name}: no hash for {unlocked[0]!r}")
    own = OWN_BUILD.search(text)
    index = f"      - --extra-index-url={INDEX}{own[1]}\n" if own else ""
    return f"""\
# conda env create --file {lock}.yml   (mamba and micromamba read it too)
# Written by tools/conda.py from {file.name}; do not edit.
---
name: gan-{match["rest"]}
channels: [conda-forge]
dependencies:
  - python={match["python"]}
  - pip>={PIP}
  - c-compiler
  - cxx-compiler
  - pip:
      - --require-hashes
      - "--only-binary=:all:"
{index}      - --requirement={path}
"""


def requirements(text: str) -> list[str]:
    """The requirements of a lock, each with its continuation lines."""
    joined = text.replace("\\\n", " ")
    return [line for line in map(str.strip, joined.splitlines()) if line and not line.startswith(("#", "--"))]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lock", nargs="*", metavar="LOCK")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="default: deploy/conda")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    for lock in options.lock or KEPT:
        path = os.path.relpath(LOCKS / f"{lock}.txt", options.folder.resolve())
        try:
            text = environment(lock, path)
        except ValueError as error:
            print(f"tools/conda.py: {error}", file=sys.stderr)
            return 2
        (options.folder / f"{lock}.yml").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
