"""What a broken or interrupted package manager left behind is named before it is given more work."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import pytest
from gpuwright.packages.state import (
    CHECK,
    VERIFY,
    half_replaced,
    read_package_state,
    read_unfinished,
    state_findings,
    unfinished_items,
)

# As libdnf makes it.
TABLE = """CREATE TABLE trans (id INTEGER PRIMARY KEY AUTOINCREMENT, dt_begin INTEGER NOT NULL, dt_end INTEGER,
    rpmdb_version_begin TEXT, rpmdb_version_end TEXT, releasever TEXT NOT NULL, user_id INTEGER NOT NULL, cmdline TEXT,
    state INTEGER NOT NULL)"""
FINE = {"verify": "", "check": "", "unfinished": None}


def history(root: Any, *states: int) -> str:
    folder = root / "var/lib/dnf"
    folder.mkdir(parents=True)
    with sqlite3.connect(folder / "history.sqlite") as database:
        database.execute(TABLE)
        for state in states:
            row = (1795259208, "8", 0, "-y install dkms", state)
            database.execute(
                "INSERT INTO trans (dt_begin, releasever, user_id, cmdline, state) VALUES (?,?,?,?,?)", row
            )
    return str(root)


@pytest.mark.parametrize(("states", "found"), [((), False), ((1,), False), ((0, 1), False), ((2,), False)])
def test_what_ended_is_no_finding(tmp_path: Any, states: tuple[int, ...], found: bool) -> None:
    assert bool(read_unfinished(history(tmp_path, *states))) is found


def test_a_transaction_that_never_ended(tmp_path: Any) -> None:
    """State and missing end as dnf left them when it was killed within a transaction."""
    unfinished = read_unfinished(history(tmp_path, 1, 0))
    assert unfinished == {"id": 2, "began": "2026-11-21 11:06 UTC", "command": "-y install dkms"}
    rows = state_findings({**FINE, "unfinished": unfinished}, None)
    assert [(row[0], row[1].split(";")[0], row[4]) for row in rows] == [
        ("packages.unfinished", "dnf's last transaction never finished", False)
    ]
    assert "transaction 2" in rows[0][2] and "dnf history info 2" in rows[0][3]
    # One that runs at this moment has not ended either.
    assert state_findings({**FINE, "unfinished": unfinished}, {"pid": 7, "command": "dnf"}) == []


@pytest.mark.parametrize("content", [b"", b"no database", None])
def test_a_history_that_cannot_be_read_is_no_finding(tmp_path: Any, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "var/lib/dnf").mkdir(parents=True)
        (tmp_path / "var/lib/dnf/history.sqlite").write_bytes(content)
    assert read_unfinished(str(tmp_path)) is None


@pytest.mark.parametrize(
    ("change", "problem", "stops"),
    [
        ({"verify": "error: rpmdb: BDB0689 Packages page 3 is on free list"}, "The rpm database is damaged", True),
        ({"verify": "error: database disk image is malformed"}, "The rpm database is damaged", True),
        ({"verify": None}, "The rpm database was not verified", False),
        ({"check": "Unsatisfied dependencies for a-1:\n\tb is needed by a-1"}, "Installed packages have unmet", False),
    ],
)
def test_each_state_is_named(change: dict[str, Any], problem: str, stops: bool) -> None:
    rows = state_findings({**FINE, **change}, None)
    assert len(rows) == 1 and rows[0][1].startswith(problem) and rows[0][4] is stops
    assert rows[0][0] and rows[0][2] and rows[0][3]


def test_a_healthy_state_is_no_finding() -> None:
    assert state_findings(FINE, None) == []
    # A file that was changed is no missing dependency.
    assert state_findings({**FINE, "check": "S.5....T.  c /etc/hosts"}, None) == []
    assert state_findings({**FINE, "check": None}, None) == []


def test_a_database_that_somebody_uses_is_not_damaged() -> None:
    said = "error: can't create transaction lock on /var/lib/rpm/.rpm.lock (Resource temporarily unavailable)"
    assert state_findings({**FINE, "verify": said}, {"pid": 7, "command": "dnf"}) == []
    assert state_findings({**FINE, "verify": said + "\nerror: rpmdb: page 3 is damaged"}, None)[0][4]


def test_many_broken_packages_are_counted() -> None:
    said = "\n".join(f"Unsatisfied dependencies for p{number}-1:" for number in range(9))
    assert state_findings({**FINE, "check": said}, None)[0][2].endswith("p2-1: and 6 more")


def test_rpm_is_asked_once_for_each(tmp_path: Any) -> None:
    asked = []

    def ask(command: Sequence[str]) -> str:
        asked.append(command)
        return ""

    state = read_package_state(ask, str(tmp_path))
    assert state == FINE and asked == [VERIFY, CHECK]


ITEMS = """CREATE TABLE trans_item (id INTEGER PRIMARY KEY AUTOINCREMENT, trans_id INTEGER, item_id INTEGER,
    repo_id INTEGER, action INTEGER NOT NULL, reason INTEGER NOT NULL, state INTEGER NOT NULL);
CREATE TABLE rpm (item_id INTEGER UNIQUE NOT NULL, name TEXT NOT NULL, epoch INTEGER NOT NULL, version TEXT NOT NULL,
    release TEXT NOT NULL, arch TEXT NOT NULL)"""
# Numbers of libdnf: what a transaction does to a package.
INSTALL, UPGRADE, UPGRADED, REINSTALL, REINSTALLED = 1, 6, 7, 9, 10


@pytest.mark.parametrize(
    ("rows", "left"),
    [
        # (transaction, action, package, version), in transactions of which the second and the fourth never ended.
        ([(1, INSTALL, "dkms", "3.0")], []),
        (
            [(2, INSTALL, "dkms", "3.0"), (2, INSTALL, "kmod", "580")],
            ["dkms-3.0-1.el8.x86_64", "kmod-580-1.el8.x86_64"],
        ),
        ([(2, UPGRADE, "kmod", "580"), (2, UPGRADED, "kmod", "570")], ["kmod-580-1.el8.x86_64"]),
        # Installed again, or replaced, by one that ended.
        ([(2, INSTALL, "kmod", "580"), (3, REINSTALL, "kmod", "580"), (3, REINSTALLED, "kmod", "580")], []),
        ([(2, INSTALL, "kmod", "580"), (3, UPGRADE, "kmod", "590")], []),
        ([(2, INSTALL, "kmod", "580"), (3, INSTALL, "jq", "1")], ["kmod-580-1.el8.x86_64"]),
        # And once more by one that did not.
        ([(3, INSTALL, "kmod", "580"), (4, REINSTALL, "kmod", "580")], ["kmod-580-1.el8.x86_64"]),
    ],
)
def test_what_killed_transactions_left(tmp_path: Any, rows: list[tuple[Any, ...]], left: list[str]) -> None:
    assert unfinished_items(with_items(tmp_path, rows)) == left


def with_items(tmp_path: Any, rows: list[tuple[Any, ...]]) -> str:
    """A root whose history has these rows: (transaction, action, package, version)."""
    root = history(tmp_path, 1, 0, 1, 0)
    with sqlite3.connect(tmp_path / "var/lib/dnf/history.sqlite") as database:
        database.executescript(ITEMS)
        for number, (transaction, action, name, version) in enumerate(rows):
            database.execute("INSERT INTO rpm VALUES (?,?,?,?,?,?)", (number, name, 0, version, "1.el8", "x86_64"))
            values = (transaction, number, None, action, 1, 0)
            database.execute(
                "INSERT INTO trans_item (trans_id, item_id, repo_id, action, reason, state) VALUES (?,?,?,?,?,?)",
                values,
            )
    return root


@pytest.mark.parametrize(
    ("installed", "twice"),
    [
        ("kmod x86_64\nkmod x86_64\nlibs x86_64\n", ["kmod"]),
        # What the transaction did not come to.
        ("kmod x86_64\npackage libs is not installed\n", []),
        # The old versions are gone; only scriptlets may be missing.
        ("kmod x86_64\nlibs x86_64\n", []),
        # Two architectures are not two versions.
        ("kmod x86_64\nlibs x86_64\nlibs i686\n", []),
        # rpm did not answer.
        (None, []),
    ],
)
def test_old_versions_that_a_killed_transaction_did_not_come_to(
    tmp_path: Any, installed: Any, twice: list[str]
) -> None:
    kmod = [(2, UPGRADE, "kmod", "580"), (2, UPGRADED, "kmod", "570")]
    rows = [*kmod, *((number, action, "libs", version) for number, action, _, version in kmod)]
    asked: list[Any] = []

    def ask(command: Sequence[str]) -> Any:
        asked.append(command)
        return installed

    assert half_replaced(ask, with_items(tmp_path, rows)) == twice
    assert asked == [["rpm", "-q", "--qf", "%{NAME} %{ARCH}\\n", "kmod", "libs"]]


def test_rpm_is_not_asked_where_every_transaction_ended(tmp_path: Any) -> None:
    root = with_items(tmp_path, [(1, INSTALL, "kmod", "580")])
    assert half_replaced(lambda command: pytest.fail(str(command)), root) == []


@pytest.mark.parametrize("content", [b"", b"no database", None])
def test_without_a_history_nothing_is_left(tmp_path: Any, content: bytes | None) -> None:
    test_a_history_that_cannot_be_read_is_no_finding(tmp_path, content)
    assert unfinished_items(str(tmp_path)) == []
