# SPDX-License-Identifier: Apache-2.0
"""The user who runs the command that `gpu-run --calibrate` measures: root only records the result."""

import os
import pwd
from typing import Dict, Optional

from ...host.as_user import Account, ordinary_account
from ...host.files import to_int
from ..runtime_policy import LaunchError

# Variables with which sudo(8), pkexec(1) and doas(1) name their caller: a uid, or a name.
CALLER_UIDS = ("SUDO_UID", "PKEXEC_UID")
CALLER_NAMES = ("SUDO_USER", "DOAS_USER")
# Set by root's login or the change to root; with them, a user's program would look for its files in the wrong place.
OF_ROOT = (
    "SUDO_USER",
    "SUDO_UID",
    "SUDO_GID",
    "SUDO_COMMAND",
    "SUDO_HOME",
    "PKEXEC_UID",
    "DOAS_USER",
    "MAIL",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
)


def command_account(name: Optional[str], environ: Dict[str, str]) -> Optional[Account]:
    """The command's account: `name` (--user, a name or uid), or the caller of sudo; None for a caller who is not root.

    LaunchError if that would be root, if nobody is named, or if there is no such account.
    """
    if os.geteuid() != 0:
        if name is not None and name != _name_of(os.geteuid()):
            raise LaunchError(f"--user {name}: only root can run the command as somebody else")
        return None
    if name is None:
        name = _caller(environ)
    else:
        uid = to_int(name)
        name = (None if uid is None else _name_of(uid)) or name
    if name is None:
        raise LaunchError(
            "--calibrate runs the command, and not as root: call it with sudo as the user who trains, or add --user "
            "NAME"
        )
    try:
        return ordinary_account(name)
    except ValueError as error:
        raise LaunchError(f"--calibrate: {error}; name the user who trains: --user NAME")


def _caller(environ: Dict[str, str]) -> Optional[str]:
    """The name of the user who became root by sudo or the like; None for a login as root itself."""
    for variable in CALLER_UIDS:
        if environ.get(variable):
            uid = to_int(environ[variable])
            name = None if uid is None else _name_of(uid)
            if name is None:
                message = f"{variable}={environ[variable]!r} is not the uid of a user here; add --user NAME"
                raise LaunchError("--calibrate: " + message)
            return None if uid == 0 else name
    named = next((environ[variable] for variable in CALLER_NAMES if environ.get(variable)), None)
    return None if named == "root" else named


def _name_of(uid: int) -> Optional[str]:
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return None


def environment_for(account: Optional[Account], environment: Dict[str, str]) -> Dict[str, str]:
    """The environment with the account's own home and names instead of root's."""
    if account is None:
        return environment
    entry = pwd.getpwnam(account.name)
    kept = {name: value for name, value in environment.items() if name not in OF_ROOT}
    kept.update(HOME=entry.pw_dir, USER=entry.pw_name, LOGNAME=entry.pw_name, SHELL=entry.pw_shell or "/bin/sh")
    return kept
