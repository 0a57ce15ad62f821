# SPDX-License-Identifier: Apache-2.0
"""The lock of a host is a lease: each call of the run that holds it renews it, and so does who sees that run at work.

Every module is sent this, so it loads little. A lease that cannot be renewed is no reason for a call to fail.
"""

import contextlib
import fcntl
import json
import os
from typing import Any, Dict

from ..host.files import below, read_text

FOLDER = "/run/gpuwright"
RECORD = FOLDER + "/operator.json"
GUARD = FOLDER + "/operator.guard"
# By which the plays tell all that they start which run that is.
VARIABLE = "GPUWRIGHT_RUN"
UPTIME = "/proc/uptime"
# It is over minutes after the last call, so it need not be written for each of many short ones.
AGAIN_S = 15.0


def renew(run: str, root: str = "/") -> None:
    """The run was heard of at this moment, by the host's uptime. Another run's lease is left as it is."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, IndexError):
        now = float((read_text(root, UPTIME) or "").split()[0])
        if not _is_due(run, now, root):
            return
        guard = os.open(below(root, GUARD), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            # Whoever has it is taking the lock, or renews it.
            fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_due(run, now, root):
                _write(dict(_read(root), seen_s=now), root)
        finally:
            os.close(guard)


def lost_to(run: str, root: str = "/") -> str:
    """Who has taken the lock from the run over, in a word; "" if nobody has, or if that cannot be read."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        record = _read(root)
        if run and record["run"] != run:
            return str(record["who"])
    return ""


def renew_own() -> None:
    """The same for the run that has started this process, if that is one."""
    if os.environ.get(VARIABLE):
        renew(os.environ[VARIABLE])


def _is_due(run: str, now: float, root: str) -> bool:
    record = _read(root)
    return bool(record["run"] == run and not 0 <= now - record["seen_s"] < AGAIN_S)


def _read(root: str) -> Dict[str, Any]:
    with open(below(root, RECORD), encoding="utf-8") as file:
        return dict(json.load(file))


def _write(record: Dict[str, Any], root: str) -> None:
    # On a tmpfs, where nothing has to be synced; whole for whoever reads it without the guard.
    temporary = below(root, RECORD) + ".renewed"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o644)
        json.dump(record, file)
    os.replace(temporary, below(root, RECORD))
