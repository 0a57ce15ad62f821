# SPDX-License-Identifier: Apache-2.0
"""Which packages somebody has installed by typing a command, from the histories that dnf and apt keep."""

import re
import sqlite3
from typing import Iterator, Set

from ..host.files import read_text, resolve
from .state import HISTORY

APT_HISTORY = "/var/log/apt/history.log"
# libdnf, TransactionItemAction: INSTALL. A program that uses dnf as a library, as Ansible does, has no command line.
TYPED = (
    "SELECT rpm.name, rpm.arch FROM trans JOIN trans_item ON trans_item.trans_id = trans.id "
    "JOIN rpm ON rpm.item_id = trans_item.item_id WHERE trans_item.action = 1 AND trans.cmdline > ''"
)
# With this option Ansible calls apt-get; nobody types it.
BY_ANSIBLE = "Dpkg::Options::=--force-conf"
PACKAGE = re.compile(r"([^ ,:()]+:[^ ,:()]+) \([^)]*\)")


def installed_by_hand(family: str, root: str = "/") -> Set[str]:
    """Names as `listing.installed` has them; empty where there is no history that can be read."""
    return set(_of_apt(root) if family == "debian" else _of_dnf(root))


def _of_dnf(root: str) -> Iterator[str]:
    path = resolve(root, HISTORY)
    if path is None:
        return
    try:
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)
        try:
            rows = database.execute(TYPED).fetchall()
        finally:
            database.close()
    except sqlite3.Error:
        return
    yield from (f"{name}.{arch}" for name, arch in rows)


def _of_apt(root: str) -> Iterator[str]:
    """A newer part of the log only: what is older than that was there before any run that is still open."""
    for part in (read_text(root, APT_HISTORY) or "").split("\n\n"):
        lines = dict(line.partition(": ")[::2] for line in part.splitlines())
        if lines.get("Commandline") and BY_ANSIBLE not in lines["Commandline"]:
            yield from PACKAGE.findall(lines.get("Install", ""))
