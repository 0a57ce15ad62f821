# SPDX-License-Identifier: Apache-2.0
"""Which processes on the host were started by a run that holds, or held, its lock.

A play passes the id of its run to everything that it starts, as the environment variable GPUWRIGHT_RUN, and every child
inherits it: dnf, dkms, a compiler, pip. By this, a process is found whose run's controller is gone. Services that
systemd starts for a run do not belong to it: they get systemd's environment.
"""

import contextlib
import json
import os
import select
import signal
import time
from typing import Any, Dict, Iterable, List, NamedTuple

from ..host.files import below, link_target, names_in, read_text
from ..host.processes import command_name, parent_of, process_ids
from .renewal import VARIABLE

# Helpers that gpg and D-Bus leave behind on purpose. They inherit the environment but do no work for the run.
LINGERING = ("gpg-agent", "dirmngr", "keyboxd", "scdaemon", "dbus-daemon", "dbus-launch", "ssh-agent")
# The call write(2) in /proc/<pid>/syscall, of x86-64 and of arm64, and its first argument: standard output or error.
WRITE, STANDARD = ("1", "64"), {"0x1": 1, "0x2": 2}
# Since OpenSSH 9.8 it is sshd-session.
LISTENER = "sshd"
LIMIT_BYTES = 1024 * 1024
DEADLINE_S = 10.0


class Work(NamedTuple):
    """A process of a run: its id on the host, the kernel's name for it, and the run."""

    pid: int
    command: str
    run: str


def run_of(environment: bytes) -> str:
    """The run that an environment (/proc/<pid>/environ: NAME=value, each ended by a null byte) names; "" for none."""
    start = VARIABLE.encode() + b"="
    for entry in environment.split(b"\0"):
        if entry.startswith(start):
            return entry[len(start) :].decode("utf-8", "replace")
    return ""


def work_of_others(own_run: str, root: str = "/", deadline_s: float = DEADLINE_S) -> List[Work]:
    """Processes of all runs but `own_run`, by pid. Needs root, to see everybody's environment.

    If a process hangs in a driver with its memory locked, the kernel makes anybody who reads its environment wait. So a
    child reads, for at most `deadline_s`; a process that cannot be read by then hangs, and so does no work.
    """
    found = _read_in_child(root, deadline_s)
    works = [Work(pid, command_name(root, pid), run) for pid, run in sorted(found.items())]
    return [work for work in works if work.run != own_run and work.command not in LINGERING]


def end_unheard(works: Iterable[Work], root: str = "/") -> None:
    """End processes of a run that is over if all that is left of them is to tell ssh something. Needs root.

    A module that was cut off while it was sent is an error, which Python reports with the line: the whole module. sshd
    does not take it: it reads no more of the session, and keeps the pipe for as long as the connection lasts. Each run
    that waits for this process keeps the connection alive.
    """
    for work in works:
        if _is_unheard(root, work.pid):
            with contextlib.suppress(OSError):
                os.kill(work.pid, signal.SIGKILL)


def _is_unheard(root: str, pid: int) -> bool:
    """Whether it waits in write(2) to a pipe that is read by the sshd above it, and by no program of the run."""
    words = (read_text(root, f"/proc/{pid}/syscall") or "").split()
    if len(words) < 2 or words[0] not in WRITE or words[1] not in STANDARD:
        return False
    written = link_target(root, f"/proc/{pid}/fd/{STANDARD[words[1]]}") or ""
    above = parent_of(root, pid)
    while above and not command_name(root, above).startswith(LISTENER):
        above = parent_of(root, above)
    listens = f"/proc/{above}/fd"
    return written.startswith("pipe:") and written in [
        link_target(root, f"{listens}/{name}") for name in (names_in(root, listens) if above else [])
    ]


def _read_in_child(root: str, deadline_s: float) -> Dict[int, str]:
    """{pid: run} of all processes that belong to a run, as far as they could be read in time."""
    pids = [pid for pid in process_ids(root) if pid != os.getpid()]
    found: Dict[int, str] = {}
    deadline = time.monotonic() + deadline_s
    while pids and time.monotonic() < deadline:
        answered, hanging = _ask_child(root, pids, deadline)
        found.update({pid: run for pid, run in answered.items() if run})
        # The process that blocked the reading is left out, and the rest is read again.
        pids = [pid for pid in pids if pid not in answered and pid != hanging]
    return found


def _ask_child(root: str, pids: List[int], deadline: float) -> Any:
    """({pid: run or ""} of those that a child could read, the pid that it could not get beyond or None)."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            for pid in pids:
                os.write(writer, json.dumps([pid, _read_run(root, pid)]).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(writer)
    lines = _lines_until(reader, deadline, quiet_s=2.0)
    os.close(reader)
    answered = dict(json.loads(line.decode()) for line in lines)
    # Not waited for any longer: a process that hangs in the kernel does not notice the signal.
    os.kill(child, signal.SIGKILL)
    _collect(child)
    return answered, next((pid for pid in pids if pid not in answered), None)


def _read_run(root: str, pid: int) -> str:
    # What works in a container (another pid namespace) is of a run whose host that container is, with its own lock.
    if link_target(root, f"/proc/{pid}/ns/pid") != link_target(root, "/proc/self/ns/pid"):
        return ""
    try:
        with open(below(root, f"/proc/{pid}/environ"), "rb") as file:
            return run_of(file.read(LIMIT_BYTES))
    except OSError:
        # It has ended, or it is a kernel thread.
        return ""


def _lines_until(reader: int, deadline: float, quiet_s: float) -> List[bytes]:
    """Whole lines from the pipe until its end, the deadline, or a silence of `quiet_s` seconds."""
    data = b""
    while True:
        wait = min(quiet_s, deadline - time.monotonic())
        ready = select.select([reader], [], [], max(0.0, wait))[0]
        chunk = os.read(reader, 65536) if ready else b""
        if not chunk:
            return data.split(b"\n")[:-1]
        data += chunk


def _collect(child: int) -> None:
    for _attempt in range(20):
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        time.sleep(0.005)
