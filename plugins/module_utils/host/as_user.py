# SPDX-License-Identifier: Apache-2.0
"""Run a program as an ordinary user: root's rights and environment are given up for good before it starts."""

import os
import pwd
import shutil
from typing import Callable, Dict, List, NamedTuple

from .access import read_lines
from .bounded import Finished, run_bounded
from .written.owning import own_path

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# uid, gid and the like have 32 bits; the highest value means "no change" to the kernel (setresuid(2)).
HIGHEST_ID = 2**32 - 2

Account = NamedTuple("Account", [("name", str), ("uid", int), ("gid", int), ("gids", List[int])])
Account.__doc__ = """An account as the kernel sees it: its name, uid, gid, and all its groups."""


class NoUser(ValueError):
    """There is no account of that name."""

    code = "no-user"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no user {name}")


def find_account(name: str, root: str = "/") -> Account:
    """The account of that name; ValueError if there is none.

    On this machine, its user database is asked (including LDAP and the like); below another `root`, the files there.
    """
    if root != "/":
        return _account_below(root, name)
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise NoUser(name)
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, os.getgrouplist(entry.pw_name, entry.pw_gid))


def ordinary_account(name: str, root: str = "/") -> Account:
    """The account as which root runs programs that are not root's; ValueError also for one that has root's uid.

    A caller who is not root gets their own account, since they can use no other.
    """
    if os.geteuid() != 0:
        return Account(str(os.geteuid()), os.geteuid(), os.getegid(), os.getgroups())
    account = find_account(name, root)
    if not 0 < account.uid <= HIGHEST_ID:
        raise ValueError(f"user {name} has uid {account.uid}, but this process does not run as root")
    return account


def _account_below(root: str, name: str) -> Account:
    for fields in read_lines(root, "/etc/passwd"):
        if fields[0] == name and len(fields) > 3:
            uid, gid = int(fields[2]), int(fields[3])
            groups = [line for line in read_lines(root, "/etc/group") if len(line) > 3]
            more = {int(line[2]) for line in groups if name in line[3].split(",")}
            return Account(name, uid, gid, sorted(more | {gid}))
    raise NoUser(name)


def giving_up_root(account: Account) -> Callable[[], None]:
    """Called in root's child before its program starts; raises OSError rather than continue with any root right."""

    def become() -> None:
        # In this order: without uid 0 nobody may change groups.
        os.setgroups(account.gids)
        os.setresgid(account.gid, account.gid, account.gid)
        os.setresuid(account.uid, account.uid, account.uid)

    return become


def run_as(command: List[str], account: Account, seconds: float) -> Finished:
    """Run `command` for at most `seconds` s as `account`, in a new, empty home; a `bounded.Finished`.

    It gets nothing of the caller's environment, and its files are private. OSError if no folder can be made.
    """
    become = giving_up_root(account) if os.geteuid() == 0 else None
    import tempfile

    home = tempfile.mkdtemp(prefix="gpuwright-")
    try:
        if become is not None:
            own_path(home, 0o700, (account.uid, account.gid))

        def before_start() -> None:
            os.umask(0o077)
            if become is not None:
                become()
            os.chdir(home)

        return run_bounded(command, seconds, environment=environment_of(account.name, home), before_start=before_start)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def environment_of(name: str, home: str) -> Dict[str, str]:
    """The whole environment of a program that must not depend on who started it."""
    return {"HOME": home, "PATH": PATH, "LANG": "C.UTF-8", "USER": name, "LOGNAME": name}
