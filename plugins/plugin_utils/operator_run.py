# SPDX-License-Identifier: Apache-2.0
"""Which run of ansible-playbook this is, and whether another one is still alive, as far as this controller can tell.

A run is its main process: host name, pid, and the time at which it was started. Its workers are forks of it and
continue if it is killed. So the main process binds a Unix socket in the abstract namespace (unix(7)), which its forks
inherit but the programs that they start do not: the name is taken as long as any process of the run lives.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import signal
import socket
import subprocess
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleActionFail

# Lives: its main process does. Leftover: that has ended but some of its workers live. Gone: none of its processes lives
# on this controller. Unknown: this controller cannot tell.
LIVES, LEFTOVER, GONE, UNKNOWN = "lives", "leftover", "gone", "unknown"
MARKER = "gpuwright-run"
# The inode of the first pid namespace (PROC_PID_INIT_INO, linux/proc_ns.h): no container.
FIRST_PID_NAMESPACE = "4026531836"
LONGEST_TEXT = 100


def main_pid() -> int:
    """The process of ansible-playbook itself: this one, or the one that forked this worker, even if it has ended."""
    main = parent_process()
    return main.pid if main and main.pid else os.getpid()


def start_of(pid: int) -> str:
    """When the process was started, to tell it from a later one with the same pid; "" if it has ended or is hidden."""
    with contextlib.suppress(OSError):
        # The name in parentheses may itself contain spaces and parentheses. Field 22, proc(5): clock ticks since boot.
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    if Path("/proc/self/stat").exists():
        return ""
    asked = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return re.sub(r"\s+", "-", asked.stdout.strip())


def machine() -> str:
    """machine id:boot id:pid namespace; unreadable parts are empty. pids are comparable if all parts are equal."""
    namespace = ""
    with contextlib.suppress(OSError):
        namespace = re.sub(r"\D", "", str(Path("/proc/self/ns/pid").readlink()))
    return ":".join([_read("/etc/machine-id"), _read("/proc/sys/kernel/random/boot_id"), namespace])


def claim() -> dict[str, Any]:
    """Who is asking for the lock, in the format of the module operator_lock."""
    pid = main_pid()
    started, host = start_of(pid), _clean(socket.gethostname())
    playbooks = " ".join(Path(name).name for name in context.CLIARGS.get("args", ()))
    return {
        "run": f"{host}:{pid}:{started}",
        "who": _clean(_user()),
        "controller": host,
        "machine": machine(),
        "pid": pid,
        "started": started,
        "playbook": _clean(playbooks),
    }


def state_of(record: dict[str, Any]) -> str:
    """LIVES, LEFTOVER, GONE or UNKNOWN, of the run whose claim the record holds."""
    own, theirs = machine().split(":"), str(record["machine"]).split(":")
    if len(theirs) != len(own) or not own[1]:
        return UNKNOWN
    if own == theirs:
        if _lives(record["pid"], record["started"]):
            return LIVES
        return LEFTOVER if is_marked(record["pid"], record["started"]) else GONE
    same_machine = own[0] == theirs[0] != "" and own[2] == theirs[2] == FIRST_PID_NAMESPACE
    # This machine has been booted since, and no process survives that.
    return GONE if same_machine and record["controller"] == _clean(socket.gethostname()) else UNKNOWN


def holder_words(record: dict[str, Any]) -> str:
    """For example "alice from ctl-1 since 2026-11-22T06:30:00Z (site.yml, process 4711)"."""
    return "{who} from {controller} since {since} ({playbook}, process {pid})".format(**record)


def why_unknown(record: dict[str, Any]) -> str:
    """Why this controller cannot tell whether that run is still alive."""
    own, theirs = machine().split(":"), str(record["machine"]).split(":")
    if len(theirs) == len(own) and own[1] and own[1] == theirs[1]:
        return "it was started in another container of this machine, whose processes cannot be seen from here"
    return f"it was started on another controller, {record['controller']}, whose processes cannot be seen from here"


def mark(pid: int, started: str) -> socket.socket | None:
    """Mark this process and all its forks as that run, as long as the socket is open; None if that is not possible."""
    marker = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        marker.bind(f"\0{_marker(pid, started)}")
    except OSError:
        marker.close()
        return None
    return marker


def is_marked(pid: int, started: str) -> bool:
    """Whether any process of that run lives on this controller."""
    return _marker(pid, started) in {name for name, _inode in _markers()}


def leftovers() -> list[tuple[str, list[int]]]:
    """Runs of this controller whose main process has ended while workers live: ("pid 4711", pids of the workers).

    For a caller who is not root, other users' workers have no pid in the list.
    """
    prefix = _marker(0, "").removesuffix("0-")
    found = []
    for name, inode in _markers():
        pid, _dash, started = name.removeprefix(prefix).partition("-")
        if name.startswith(prefix) and pid.isdecimal() and not _lives(int(pid), started):
            found.append((f"pid {pid}", _holders(inode)))
    return sorted(found)


def end_unheard() -> None:
    """End workers of killed runs that have done their task and wait for their main process to take the answer.

    A worker has both ends of the pipe to it, so that an answer longer than the pipe keeps it for ever (pipe(7)), and
    the next one, which waits for its turn to answer (futex(2)), too. One that still talks to a node has a program for
    that, such as ssh; one that waits for a thread of its own has two.
    """
    for _run, pids in leftovers():
        for pid in pids:
            waits = _read(f"/proc/{pid}/wchan")
            alone = [one.name for one in Path(f"/proc/{pid}").glob("task/*")] == [str(pid)]
            answers = waits.endswith("pipe_write") or (alone and waits.startswith("futex_"))
            if answers and not _read(f"/proc/{pid}/task/{pid}/children"):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)


def leftover_pids(record: dict[str, Any]) -> list[int]:
    """Workers that are left of the record's run; those of other users only for root."""
    wanted = _marker(record["pid"], record["started"])
    return sorted(pid for name, inode in _markers() if name == wanted for pid in _holders(inode))


def _lives(pid: int, started: str) -> bool:
    try:
        # Found even if /proc hides the processes of others (hidepid).
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    except OverflowError:
        return False
    now = start_of(pid)
    return not now or now == started


def _marker(pid: int, started: str) -> str:
    return f"{MARKER}-{machine().rpartition(':')[2]}-{pid}-{started}"


def _markers() -> list[tuple[str, str]]:
    """(name, inode) of the markers that are bound; proc(5), /proc/net/unix: the last two columns."""
    rows = [line.split() for line in _read("/proc/net/unix").splitlines()]
    return [(row[-1][1:], row[-2]) for row in rows if row[-1].startswith(f"@{MARKER}-")]


def _holders(inode: str) -> list[int]:
    pids = []
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):
            if any(str(link.readlink()) == f"socket:[{inode}]" for link in folder.iterdir()):
                pids.append(int(folder.parent.name))
    return sorted(pids)


def _user() -> str:
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    login = os.environ.get("SUDO_USER", "")
    return f"{login} as {name}" if login and login != name else name


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""


def _clean(text: str) -> str:
    """One printable line: it is shown to another operator."""
    return "".join(char if char.isprintable() else "?" for char in text)[:LONGEST_TEXT]


def own_claim(host: str) -> dict[str, Any]:
    """Who is asking; AnsibleActionFail where that run has ended."""
    own = claim()
    if not own["started"]:
        raise AnsibleActionFail(
            f"The run that started this task, process {own['pid']} of {own['controller']}, has ended; "
            f"{host} is left as it is. Run it again. [operator.ended]"
        )
    return own
