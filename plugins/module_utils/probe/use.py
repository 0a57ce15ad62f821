# SPDX-License-Identifier: Apache-2.0
"""Who would lose work if this host rebooted now. In case of doubt, somebody is working."""

import os
import re
import struct
from typing import Any, Collection, Dict, List, Mapping, Optional, Sequence, Tuple

from ..gpu.agents import describe_process, is_agent
from ..host.files import below, names_in, read_assignments, read_bytes, to_int
from ..host.processes import command_name, parent_of, process_ids, why_hidden

SESSION_FOLDER = "/run/systemd/sessions"
SLURM_FOLDERS = ("/var/spool/slurmd", "/var/spool/slurm/d", "/var/spool/slurm/slurmd")
# glibc's struct utmp on x86_64 (utmp(5)), from which the kind, process and terminal, and the user are read.
UTMP_RECORD = struct.Struct("=h2xi32s4s32s308x")
UTMP_USER_PROCESS = 7


def read_in_use(root: str = "/", own_pid: Optional[int] = None, agents: Sequence[str] = ()) -> Dict[str, Any]:
    """GPU processes, users and jobs; the session in which the caller itself runs (`own_pid`) does not count as work.

    Nor do programs that only watch GPUs: those of `agents.AGENTS`, and also the names in `agents`.
    """
    own = read_ancestors(root, os.getpid() if own_pid is None else own_pid)
    hidden = why_hidden(root)
    found: Dict[str, Any] = {
        "gpu_processes": read_gpu_processes(root, own, agents),
        "users": read_users(root, own, hidden),
        "jobs": read_jobs(root),
    }
    if hidden:
        # Not everything is visible here; an empty list would say that nobody is working.
        found["gpu_processes"].append({"pid": None, "name": f"unknown: {hidden}"})
        found["jobs"].append(f"unknown: {hidden}")
    return found


def read_ancestors(root: str, pid: Optional[int]) -> List[int]:
    """`pid` and all its parents, except init."""
    found = []
    while pid is not None and pid > 1 and pid not in found:
        found.append(pid)
        pid = parent_of(root, pid)
    return found


def read_gpu_processes(root: str, own: Collection[int], agents: Sequence[str] = ()) -> List[Dict[str, Any]]:
    """Processes that have a GPU's device file open, as records of `agents.describe_process`."""
    found = []
    unreadable = 0
    for pid in process_ids(root):
        folder = below(root, f"/proc/{pid}/fd")
        try:
            names = os.listdir(folder)
        except PermissionError:
            unreadable += 1
            continue
        except OSError:
            continue
        if pid not in own and any(_is_gpu_file(os.path.join(folder, name)) for name in names):
            name = command_name(root, pid)
            if not is_agent(name, agents):
                found.append(describe_process(root, pid, name))
    if unreadable:
        found.append({"pid": None, "name": f"unknown: {unreadable} processes can be examined by root only"})
    return found


def _is_gpu_file(link: str) -> bool:
    try:
        return re.match(r"/dev/nvidia[0-9]", os.readlink(link)) is not None
    except OSError:
        return False


def read_users(root: str, own: Collection[int], hidden: str = "") -> List[str]:
    """Names of the users who are logged in, sorted.

    The session to which the caller belongs never counts. Other sessions of the same user count if they have a terminal
    and have not ended: a session without one is another connection of the same automation, a closing one was lost.
    `hidden`: why processes are not shown, see `why_hidden`.
    """
    sessions = [read_assignments(root, f"{SESSION_FOLDER}/{name}") for name in names_in(root, SESSION_FOLDER)]
    # Only people: cron, the login screen and user managers have other classes.
    sessions = [
        session for session in sessions if session.get("CLASS", "user").startswith("user") and "USER" in session
    ]
    own_users = {session["USER"] for session in sessions if _leader(session) in own}
    users = set()
    for session in sessions:
        open_terminal = session.get("TTY") and session.get("STATE") != "closing"
        if _leader(session) not in own and (session["USER"] not in own_users or open_terminal):
            users.add(session["USER"])
    # systemd 239 (RHEL 8) does not know the terminal of an ssh session, but utmp does.
    users.update(user for user, pid in read_terminal_logins(root, hidden) if pid not in own)
    return sorted(users)


def _leader(session: Mapping[str, str]) -> Optional[int]:
    return to_int(session.get("LEADER"))


def read_terminal_logins(root: str, hidden: str = "") -> List[Tuple[str, int]]:
    """[(user, pid)] of the logins on terminals in utmp whose process still exists, or may exist but is hidden."""
    found = []
    data = read_bytes(root, "/run/utmp") or b""
    for offset in range(0, len(data) - UTMP_RECORD.size + 1, UTMP_RECORD.size):
        kind, pid, _line, _id, user = UTMP_RECORD.unpack_from(data, offset)
        user = user.split(b"\0")[0].decode("utf-8", "replace")
        if kind == UTMP_USER_PROCESS and user and (hidden or os.path.isdir(below(root, f"/proc/{pid}"))):
            found.append((user, pid))
    return found


def read_jobs(root: str) -> List[str]:
    """Slurm jobs on this host, from the batch folders of its daemon and from its step processes."""
    jobs = set()
    for folder in SLURM_FOLDERS:
        for name in names_in(root, folder):
            match = re.match(r"job0*([0-9]+)$", name)
            if match:
                jobs.add(f"slurm job {match.group(1)}")
    steps = [pid for pid in process_ids(root) if command_name(root, pid) == "slurmstepd"]
    # Interactive steps have no batch folder, so a step daemon alone is also a job.
    return sorted(jobs) or [f"slurm step, process {pid}" for pid in steps]
