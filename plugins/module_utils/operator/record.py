# SPDX-License-Identifier: Apache-2.0
"""The lock that allows one run at a time: a record on the host that says which run is changing it.

The record is in /run, which a boot empties, and has the boot id in case it does not. It is read, judged and replaced
under flock(2), which the kernel releases when a process dies. Who holds the lock is not decided here but by the
controller (plugins/action/operator_lock.py), since only that can see whether one of its runs is still alive; a record
is replaced only if it is still the one that was judged.
"""

import contextlib
import errno
import fcntl
import os
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

from ..host.files import below, read_text
from ..host.written.aside import set_aside
from ..host.written.owning import make_folders
from ..verdict.boot_check import BOOT_ID_PATH, UPTIME_PATH
from ..verdict.kept_file import read_kept
from ..verdict.report import now_utc, write_json
from .renewal import FOLDER, GUARD, RECORD
from .runs import Work, end_unheard, work_of_others

SCHEMA = 1
# The keys of a claim, and the kind of each value.
CLAIM = {"run": str, "who": str, "controller": str, "machine": str, "pid": int, "started": str, "playbook": str}
# Used instead of a run id for a record that cannot be read.
DAMAGED = "damaged"
GUARD_WAIT_S = 20.0
GUARD_STEP_S = 0.05


class Answer(NamedTuple):
    """The answer to a request for the lock.

    held      whether this run now holds it
    holder    the record of another run, without `schema`; None if there is none, or none that can be read
    damaged   why the record cannot be read, else ""
    work      processes of other runs that are still working on this host
    quiet_s   seconds since the holder's last call, or since a process of it was seen (a damaged record: since it was
              written); None without holder
    before    the record that was replaced, None if there was none
    """

    held: bool
    holder: Optional[Dict[str, Any]] = None
    damaged: str = ""
    work: List[Work] = []
    quiet_s: Optional[float] = None
    before: Optional[Dict[str, Any]] = None


def read_lock(root: str = "/") -> Dict[str, Any]:
    """`{holder, damaged}` as in an `Answer`, whichever run asks; changes nothing and raises nothing."""
    try:
        record, damaged = _read(root)
    except OSError as error:
        return {"holder": None, "damaged": str(error)}
    return {"holder": record, "damaged": damaged}


def look(own_run: str, root: str = "/") -> Answer:
    """Who holds the lock; changes nothing. OSError if the host cannot be read."""
    record, damaged = _read(root)
    holder = None if record is None or record["run"] == own_run else record
    work = work_of_others(own_run, root) if holder or damaged else []
    return Answer(False, holder, damaged, work, _quiet_s(root, record, damaged) if holder or damaged else None)


def take(claim: Dict[str, Any], replaces: str = "", root: str = "/", judged_s: Optional[float] = None) -> Answer:
    """Take the lock, or report that this run already holds it. `claim` has the keys of CLAIM.

    `replaces` is the run whose record was found to be stale, or DAMAGED; `judged_s` its `seen_s` then, where that was
    the reason: a record that was renewed since is another one. While a process of another run is working on
    this host, the lock is not given. OSError if the record cannot be written, TimeoutError if another process keeps the
    record locked.
    """
    with _guarded(root):
        record, damaged = _read(root)
        own = record is not None and record["run"] == claim["run"]
        if not own:
            work = work_of_others(claim["run"], root)
            known_stale = replaces and replaces == (DAMAGED if damaged else record and record["run"])
            if record and judged_s is not None and record["seen_s"] > judged_s:
                known_stale = False
            if not damaged:
                # Without a record, no run holds the lock, and what works here is of runs that are over.
                end_unheard((each for each in work if record is None or (known_stale and each.run == replaces)), root)
            if work or ((record or damaged) and not known_stale):
                if record and any(each.run == record["run"] for each in work):
                    # A run that works here is heard of, whoever sees it.
                    record["seen_s"] = _uptime_s(root)
                    write_json(below(root, RECORD), dict(record, schema=SCHEMA))
                return Answer(False, record, damaged, work, _quiet_s(root, record, damaged))
        if damaged:
            # Who held it is in there, perhaps.
            set_aside(below(root, RECORD))
        written = {name: claim[name] for name in CLAIM}
        written.update(schema=SCHEMA, boot_id=_boot_id(root), seen_s=_uptime_s(root))
        written["since"] = record["since"] if own else now_utc()
        write_json(below(root, RECORD), written)
        return Answer(True, None, "", [], None, None if own else record)


def release(run: str, root: str = "/") -> bool:
    """Release the lock; False if this run did not hold it, in which case it is left as it is. OSError as in `take`."""
    if not os.path.exists(below(root, RECORD)):
        return False
    with _guarded(root):
        record, damaged = _read(root)
        if damaged or record is None or record["run"] != run:
            return False
        os.unlink(below(root, RECORD))
        return True


def _read(root: str) -> Any:
    """(record of this boot without `schema` or None, why an existing record cannot be trusted or "")."""
    try:
        record = read_kept(root, RECORD, SCHEMA)
    except (OSError, ValueError) as error:
        return None, str(error)
    if record is None or record.get("boot_id") != _boot_id(root):
        return (None, "") if record is None or isinstance(record.get("boot_id"), str) else (None, _lacks("boot_id"))
    wanted = dict(CLAIM, since=str, seen_s=float)
    wrong = [name for name, kind in sorted(wanted.items()) if type(record.get(name)) is not kind]
    if wrong:
        return None, _lacks(wrong[0])
    return {name: value for name, value in record.items() if name != "schema"}, ""


def _lacks(name: str) -> str:
    return f"{RECORD} is damaged: it has no usable value for {name}"


def _quiet_s(root: str, record: Optional[Dict[str, Any]], damaged: str) -> Optional[float]:
    # By the uptime, since the clock may be set during a run.
    if record is not None:
        return max(0.0, _uptime_s(root) - record["seen_s"])
    if not damaged:
        return None
    try:
        return max(0.0, time.time() - os.lstat(below(root, RECORD)).st_mtime)
    except OSError:
        return 0.0


def _boot_id(root: str) -> str:
    found = read_text(root, BOOT_ID_PATH)
    if not found:
        raise OSError(errno.EIO, "cannot be read", BOOT_ID_PATH)
    return found


def _uptime_s(root: str) -> float:
    try:
        return float((read_text(root, UPTIME_PATH) or "").split()[0])
    except (IndexError, ValueError):
        raise OSError(errno.EIO, "cannot be read", UPTIME_PATH)


@contextlib.contextmanager
def _guarded(root: str, wait_s: float = GUARD_WAIT_S, sleep: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """One process at a time, from reading the record to replacing it."""
    folder = below(root, FOLDER)
    with contextlib.suppress(FileExistsError):
        # Root's umask must not hide from others who is working here.
        make_folders(folder)
    # Only root's: anybody who can open a file can keep it locked.
    handle = os.open(below(root, GUARD), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise TimeoutError(errno.ETIMEDOUT, "another process keeps it locked", GUARD)
                sleep(GUARD_STEP_S)
        yield
    finally:
        os.close(handle)
