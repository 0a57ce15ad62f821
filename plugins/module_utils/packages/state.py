# SPDX-License-Identifier: Apache-2.0
"""What an interrupted or broken package manager left behind, read before it is given more work."""

import re
import time
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from ..host.files import resolve
from ..host.patterns import lazily

HISTORY = "/var/lib/dnf/history.sqlite"
# What puts a package on the node: install, downgrade, obsoleting, upgrade, reinstall (libdnf, TransactionItemAction).
PUTS = (1, 2, 4, 6, 9)
# State of a transaction that dnf began and never closed; 1 is done, 2 is failed (libdnf, TransactionState).
BEGUN = 0
MOST_LINES = 3
DAMAGE = lazily(r"error|BDB|malformed|corrupt")
# lock_holder names who holds the lock; rpm calls that an error, too.
IN_USE = lazily(r"lock on |lock is held|Resource temporarily unavailable")
VERIFY = ["rpm", "--verifydb"]
# Only dependencies: files are not compared.
CHECK = ["rpm", "-Va", "--nofiles", "--nodigest"]
NAMES = ["rpm", "-q", "--qf", "%{NAME} %{ARCH}\\n"]


def read_package_state(ask: Callable[..., Any], root: str = "/") -> Dict[str, Any]:
    """`{verify, check, unfinished}`: what rpm says about its database and dependencies (None: no answer in time)."""
    return {"verify": ask(VERIFY), "check": ask(CHECK), "unfinished": read_unfinished(root)}


def read_unfinished(root: str = "/") -> Any:
    """`{id, began, command}` if dnf's last transaction never ended, else None; also None if that cannot be read."""
    import sqlite3

    path = resolve(root, HISTORY)
    if path is None:
        return None
    try:
        # Read-only and without waiting: a running dnf is reported elsewhere.
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1)
        try:
            row = database.execute("SELECT id, dt_begin, cmdline, state FROM trans ORDER BY id DESC LIMIT 1").fetchone()
        finally:
            database.close()
    except sqlite3.Error:
        return None
    if row is None or row[3] != BEGUN:
        return None
    began = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(row[1]))
    return {"id": row[0], "began": began, "command": row[2] or "by a program"}


def unfinished_items(root: str = "/") -> List[str]:
    """Packages, name-version-release.arch, that transactions of dnf put on the node and that no later one has finished.

    Their scriptlets may not have run, although rpm calls them installed. Empty if dnf's history cannot be read.
    """
    import sqlite3

    path = resolve(root, HISTORY)
    question = (
        "SELECT trans.id, trans.state, rpm.name, rpm.version, rpm.release, rpm.arch FROM trans "
        "JOIN trans_item ON trans_item.trans_id = trans.id JOIN rpm ON rpm.item_id = trans_item.item_id "
        "WHERE trans_item.action IN ({}) ORDER BY trans.id".format(", ".join(map(str, PUTS)))
    )
    found: Dict[Tuple[str, str], str] = {}
    try:
        if path is None:
            return []
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1)
        try:
            for _id, state, name, version, release, arch in database.execute(question):
                found.pop((name, arch), None)
                if state == BEGUN:
                    found[name, arch] = f"{name}-{version}-{release}.{arch}"
        finally:
            database.close()
    except sqlite3.Error:
        return []
    return sorted(found.values())


def installed_twice(ask: Callable[..., Any], names: Sequence[str]) -> List[str]:
    """Those of `names` that rpm has in two versions of one architecture, sorted; [] if it does not answer."""
    rows = (ask(NAMES + list(names)) or "").splitlines() if names else []
    return sorted({row.split(" ")[0] for row in rows if rows.count(row) > 1})


def half_replaced(ask: Callable[..., Any], root: str = "/") -> List[str]:
    """Names of packages of which an interrupted transaction left the old version beside the new one, sorted.

    rpm installs the new packages of a transaction first and removes the old ones at its end.
    """
    return installed_twice(ask, sorted({item.rsplit("-", 2)[0] for item in unfinished_items(root)}))


def state_findings(state: Mapping[str, Any], lock_holder: Any) -> List[Any]:
    """`[(id, problem, evidence, next, stops)]` for what `read_package_state` returned."""
    found = []
    verify, check, unfinished = state["verify"], state["check"], state["unfinished"]
    if verify is None:
        text = "The rpm database was not verified"
        found.append(
            (
                "packages.unverified",
                text,
                "rpm --verifydb gave no answer in time",
                "Run `sudo rpm --verifydb` on the node.",
                False,
            )
        )
    elif any(DAMAGE.search(line) and not IN_USE.search(line) for line in verify.splitlines()):
        step = (
            "With no other package manager running: `sudo rpm --rebuilddb`, until `sudo rpm --verifydb` prints nothing."
        )
        found.append(("packages.database", "The rpm database is damaged", _short(verify.splitlines()), step, True))
    if unfinished and not lock_holder:
        text = "dnf's last transaction never finished; packages of it may be half-installed"
        seen = "transaction {id}, begun {began}: {command}".format(**unfinished)
        step = (
            "A run that installs the driver also finishes it. By hand: see `sudo dnf history info {id}`, then "
            "`sudo dnf reinstall` of its packages."
        ).format(**unfinished)
        found.append(("packages.unfinished", text, seen, step, False))
    broken = re.findall(r"(?m)^Unsatisfied dependencies for .+", check or "")
    if broken:
        step = "Run `dnf check` on the node. dnf may refuse to install anything until this is fixed."
        found.append(
            ("packages.dependencies", "Installed packages have unmet dependencies", _short(broken), step, False)
        )
    return found


def _short(lines: Sequence[str]) -> str:
    more = f" and {len(lines) - MOST_LINES} more" if len(lines) > MOST_LINES else ""
    return "; ".join(line.strip()[:160] for line in lines[:MOST_LINES]) + more
