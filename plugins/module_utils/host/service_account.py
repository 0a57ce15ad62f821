# SPDX-License-Identifier: Apache-2.0
"""An account that programs run as: its group, no password and no login shell; what differs, and how it is put right."""

import os
import re
import shutil
import stat
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .bounded import Finished, run_bounded
from .files import read_text
from .written.owning import own_path

SECONDS = 120
NOT_FOUND = 2
SKELETON = "/etc/skel"
WRITABLE_BY_OTHERS = 0o022
UMASK = re.compile(r"(?m)^\s*UMASK\s+(?P<umask>[0-7]+)")


class Account(NamedTuple):
    """What is wanted; the comment is how an account of an earlier run is known."""

    name: str
    group: str
    home: str
    shell: str
    comment: str


class Known(NamedTuple):
    """A line of the passwd database, from a file or a directory service; `locked`: no password opens it."""

    uid: int
    gid: int
    comment: str
    home: str
    shell: str
    locked: bool


class Change(NamedTuple):
    """One difference, and the command that puts it right; none where the folder itself is made."""

    what: str
    before: str
    after: str
    command: List[str]


Run = Callable[[Sequence[str], float], Finished]


def find_account(name: str, root: str = "/", run: Run = run_bounded) -> Optional[Known]:
    """The account, None if there is none; OSError if the databases cannot be asked."""
    line = _entry("passwd", name, run)
    if line is None:
        return None
    _name, password, uid, gid, comment, home, shell = line
    return Known(int(uid), int(gid), comment, home, shell, _password(name, password, root).startswith("!"))


def find_group(name: str, run: Run = run_bounded) -> Optional[int]:
    """The group's number, None if there is none; OSError."""
    line = _entry("group", name, run)
    return int(line[2]) if line else None


def _entry(database: str, name: str, run: Run) -> Optional[List[str]]:
    done = run(["getent", database, name], SECONDS)
    if done.rc == NOT_FOUND:
        return None
    if done.rc != 0:
        raise OSError(f"getent {database} {name} gave no answer: {done.problem or done.stderr.strip()}")
    return done.stdout.strip().splitlines()[0].split(":")


def _password(name: str, password: str, root: str) -> str:
    """The hash in /etc/shadow, or the passwd line's own word for an account that has none there."""
    lines = (line.split(":") for line in (read_text(root, "/etc/shadow") or "").splitlines())
    return next((line[1] for line in lines if line[0] == name and len(line) > 1), password)


def changes(wanted: Account, known: Optional[Known], gid: Optional[int]) -> List[Change]:
    """What is to be done, in order, but for the home of an account that exists."""
    found = []
    if gid is None:
        found.append(Change(f"group {wanted.group}", "absent", "present", ["groupadd", "-r", wanted.group]))
    if known is None:
        words = ["-g", wanted.group, "-c", wanted.comment, "-d", wanted.home, "-s", wanted.shell, "-m", "-r"]
        return [*found, Change(f"user {wanted.name}", "absent", "present", ["useradd", *words, wanted.name])]
    compared: List[Tuple[str, str, str, List[str]]] = [
        ("comment", known.comment, wanted.comment, ["-c", wanted.comment]),
        ("home", known.home, wanted.home, ["-d", wanted.home]),
        ("shell", known.shell, wanted.shell, ["-s", wanted.shell]),
        ("password", "locked" if known.locked else "not locked", "locked", ["-L"]),
    ]
    if gid != known.gid:
        compared.insert(0, ("group", str(known.gid), wanted.group, ["-g", wanted.group]))
    for what, before, after, words in compared:
        if before != after:
            found.append(Change(f"{what} of {wanted.name}", before, after, ["usermod", *words, wanted.name]))
    return found


def home_changes(name: str, home: str) -> List[Change]:
    """Nobody else may leave files in a home that is there: its user's programs would read them. OSError."""
    mode = stat.S_IMODE(os.stat(home).st_mode)
    kept = mode & ~WRITABLE_BY_OTHERS
    return [Change(f"home of {name}", oct(mode), oct(kept), ["chmod", "go-w", home])] if kept != mode else []


def bring_about(steps: Sequence[Change], run: Run = run_bounded) -> None:
    """Run their commands; OSError with what the command said."""
    for step in steps:
        done = run(step.command, SECONDS)
        if done.rc != 0:
            said = done.problem or done.stderr.strip() or f"exit status {done.rc}"
            raise OSError(f"{' '.join(step.command[:1])} for {step.what} failed: {said}")


def make_home(home: str, uid: int, gid: int, root: str = "/") -> None:
    """The home that useradd would have made, for an account that has lost it; OSError."""
    if os.path.isdir(SKELETON):
        shutil.copytree(SKELETON, home, symlinks=True)
    else:
        os.makedirs(home)
    found = UMASK.search(read_text(root, "/etc/login.defs") or "")
    # From the bottom, so that what is the account's already is in no folder that it could change before its turn.
    for folder, folders, files in os.walk(home, topdown=False):
        for name in [*folders, *files]:
            os.chown(os.path.join(folder, name), uid, gid, follow_symlinks=False)
    own_path(home, 0o777 & ~int(found.group("umask") if found else "022", 8), (uid, gid))


def shown(steps: Sequence[Change]) -> List[Dict[str, Any]]:
    """The differences, as Ansible's --diff prints them."""
    return [
        {"before": {"path": step.what, "account": step.before}, "after": {"path": step.what, "account": step.after}}
        for step in steps
    ]
