# SPDX-License-Identifier: Apache-2.0
"""Run a program of others so that nothing of it goes on afterwards, also what has left its process group.

The caller adopts the orphans of what it starts (prctl(2), PR_SET_CHILD_SUBREAPER), so that none escapes by a second
fork or a session of its own. All children of the caller are ended: only a process made for this purpose may call it,
such as that of `in_child.examine_each`.
"""

import ctypes
import os
import signal
import time
from typing import Any, Dict, List, Sequence

from ...host.bounded import run_bounded
from ...host.processes import command_name, parent_of, process_ids

SET_CHILD_SUBREAPER = 36
# The last parts of a pipeline end a moment after the shell that began it.
GRACE_SECONDS = 0.3
KILL_SECONDS = 2.0
PAUSE_SECONDS = 0.02


def run_leaving_none(command: Sequence[str], timeout: float, limit_bytes: int) -> Dict[str, Any]:
    """`{rc, stdout, stderr, timed_out, truncated, problem, left}`: as `bounded.Finished`, and the names of the programs
    that were still there after it and were ended. `timeout` in seconds. OSError if orphans cannot be adopted.
    """
    # The exit codes of a program whose parent ignores the signals of its children are lost.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if ctypes.CDLL(None, use_errno=True).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "what a program leaves behind cannot be watched")
    done = run_bounded(command, timeout, limit_bytes)
    names = _end_all(GRACE_SECONDS if done.rc is not None else 0)
    return {
        "rc": done.rc,
        "stdout": done.stdout,
        "stderr": done.stderr,
        "timed_out": done.timed_out,
        "truncated": done.truncated,
        "problem": done.problem,
        "left": names,
    }


def _end_all(grace_seconds: float) -> List[str]:
    """End all that descend from this process; the names of those that had not ended by themselves after the grace."""
    begin = time.monotonic()
    names: List[str] = []
    while True:
        _reap()
        left = _descendants()
        age_s = time.monotonic() - begin
        if not left or age_s > grace_seconds + KILL_SECONDS:
            return names
        if age_s >= grace_seconds:
            names = names or [command_name("/", pid) for pid in left]
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    pass
        time.sleep(PAUSE_SECONDS)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _descendants() -> List[int]:
    """Processes that come from this one, in any generation."""
    parents = {pid: parent_of("/", pid) for pid in process_ids()}
    found = {os.getpid()}
    grows = True
    while grows:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grows = bool(more)
    return sorted(found - {os.getpid()})
