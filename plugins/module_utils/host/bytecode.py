# SPDX-License-Identifier: Apache-2.0
"""Compiled modules of a library for ordinary users, who cannot write them and would compile at each start."""

import json
import os
from typing import Iterable, List, Optional

from .bounded import run_bounded

SECONDS = 300
# Run by the interpreter that will import the library, since only that one knows the place and format of its compiled
# files. The modes do not follow root's umask: under 077, nobody else could read them.
COMPILE = """
import importlib.util, json, os, py_compile, struct, sys

folder, write = sys.argv[1], sys.argv[2] == "write"

def is_fresh(source, cache):
    try:
        status, made = os.stat(source), os.stat(cache)
        with open(cache, "rb") as file:
            header = file.read(16)
    except OSError:
        return False
    expected = importlib.util.MAGIC_NUMBER + struct.pack(
        "<4xLL" if sys.version_info >= (3, 7) else "<LL", int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF
    )
    modes = made.st_mode & 0o777, os.stat(os.path.dirname(cache)).st_mode & 0o777
    return header.startswith(expected) and modes == (0o644, 0o755) and made.st_uid == os.geteuid()

stale = []
for path, folders, names in os.walk(folder):
    folders[:] = [name for name in folders if name != "__pycache__"]
    for name in names:
        source = os.path.join(path, name)
        cache = importlib.util.cache_from_source(source)
        if not name.endswith(".py") or is_fresh(source, cache):
            continue
        stale.append(os.path.relpath(source, folder))
        if write:
            py_compile.compile(source, cache, doraise=True)
            os.chmod(cache, 0o644)
            os.chmod(os.path.dirname(cache), 0o755)
print(json.dumps(sorted(stale)))
"""


def first_interpreter(candidates: Iterable[str]) -> Optional[str]:
    """The first of the paths that exists, as the tools' own first lines choose it; None if none does."""
    return next((path for path in candidates if os.access(path, os.X_OK)), None)


def compile_modules(folder: str, python: str, write: bool) -> List[str]:
    """Modules below `folder` whose compiled file was missing, stale or unreadable for others under `python`, by name.

    Writes them if `write` is true. Raises OSError if the interpreter or the compilation fails.
    """
    # Without the columns that a traceback would underline, less is to be loaded; older ones ignore the option.
    command = [python, "-I", "-S", "-X", "no_debug_ranges", "-c", COMPILE, folder, "write" if write else "look"]
    # With this variable, Python would check the compiled files by reading the whole source.
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    done = run_bounded(command, SECONDS, environment=environment)
    if done.rc != 0:
        last = done.problem or "".join(done.stderr.strip().splitlines()[-1:])
        raise OSError(f"{python} cannot compile it: {last}")
    return json.loads(done.stdout)
