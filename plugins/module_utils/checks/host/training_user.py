# SPDX-License-Identifier: Apache-2.0
"""Check of the training account."""

from typing import Any, Dict, Optional

from ...host.access import read_account, read_password_state
from ...readings.attempt import attempt
from ...verdict.check import (
    DRAIN,
    FAIL,
    STANDARD,
    Check,
    Outcome,
    failed,
    passed,
    unknown,
)
from ...verdict.evidence import Evidence
from ...verdict.reader import Reader
from ...verdict.reading_sources import by_hand

NO_LOGIN_SHELLS = ("/sbin/nologin", "/usr/sbin/nologin", "/bin/false", "/usr/bin/false")
ADMINISTRATORS = ("root", "wheel", "sudo", "docker")


def training_user(readings: Evidence, expected: Evidence) -> Outcome:
    """Training runs use an account that cannot log in: no shell, locked password, in no administrators' group."""
    name = expected.text("training_user")
    if readings.absent("training_user"):
        return failed("missing", "missing", name, f"there is no local user {name}")
    user = readings.at("training_user")
    if user.number("uid") == 0:
        return failed("is-root", "uid 0", name, f"{name} is root")
    shell = user.wish("shell")
    if shell not in NO_LOGIN_SHELLS:
        return failed("may-log-in", shell, "nologin", f"{name} has the shell {shell or '/bin/sh'}")
    groups = {group.text() for group in user.each("groups")}
    powers = sorted(groups.intersection(ADMINISTRATORS))
    if not groups:
        return unknown("no-group", f"{name} is in no group that has a name")
    if powers:
        return failed("has-powers", ", ".join(powers), "no power", f"{name} is in the group {', '.join(powers)}")
    password = user.text("password")
    if password != "locked":
        return failed("has-password", "password " + password, "locked", f"the password of {name} is not locked")
    return passed(name, name, f"{name} cannot log in")


def read_training_user(root: str, name: str) -> Optional[Dict[str, Any]]:
    account = read_account(root, name)
    if account is None:
        return None
    return dict(account, password=attempt(read_password_state, root, name))


READ_TRAINING_USER = Reader(
    name="training_user",
    level=STANDARD,
    read=lambda seen: read_training_user(seen.root, seen.expectations["training_user"]),
    source=by_hand("/etc/passwd, /etc/group and /etc/shadow", "ls -l /etc/passwd /etc/group /etc/shadow"),
    scanned=False,
)

CHECKS = (
    Check(
        id="host.training_user",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Do training runs use an account that cannot log in?",
        judge=training_user,
        needs_gpu=False,
        action="Run: ansible-playbook site.yml --tags system_training",
        readers=(READ_TRAINING_USER,),
    ),
)
