# SPDX-License-Identifier: Apache-2.0
"""The compiled files of an environment: pip would make them one after the other, three quarters of its time."""

import os
import re

from ..host.bounded import run_bounded
from ..host.files import below
from .environment_files import packages_folders

COMPILE_SECONDS = 1800
# Beyond these an installation gains seconds, and a training that runs here loses cores.
MOST_WORKERS = 8
# How compileall names a file that it cannot read or write; what else it names is a source for another Python.
UNWRITTEN = re.compile(r"^\w+: (\[Errno [0-9]+\] .+)$", re.MULTILINE)


def compile_packages(path: str, root: str = "/") -> str:
    """Compile what the environment's packages have and is not compiled: why that failed, "" if it did not.

    A file that its Python cannot compile is none, as for pip: some packages bring files for newer versions of Python.
    Without compiled files every start of torch takes seconds longer, as nobody but root may write them.
    """
    folders = packages_folders(below(root, path))
    if not folders:
        # Without a folder, compileall takes those of the interpreter, which are the system's.
        return ""
    workers = min(MOST_WORKERS, len(os.sched_getaffinity(0)))
    # -S: root runs no code from packages, of which .pth files are a part. A failure that says more is no source's.
    python = [below(root, path) + "/bin/python", "-I", "-S", "-W", "ignore"]
    command = [*python, "-m", "compileall", "-q", "-j", str(workers), *folders]
    done = run_bounded(command, COMPILE_SECONDS, before_start=_for_everybody)
    unwritten = UNWRITTEN.search(done.stdout)
    if done.rc == 0 or (done.rc == 1 and not unwritten and not done.stderr.strip()):
        return ""
    last = done.stderr.strip().splitlines()[-1:]
    words = done.problem or (unwritten.group(1) if unwritten else "".join(last)) or f"compileall ended with {done.rc}"
    return f"the packages cannot be compiled: {words[:600]}"


def _for_everybody() -> None:
    """Root's umask may be 077."""
    os.umask(0o022)
