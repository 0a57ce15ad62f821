"""An account for programs: what differs is put right, what is somebody's own stays, and check mode says the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from ansible_collections.gpuwright.node.plugins.module_utils.host import service_account as accounts
from host_tree import HostTree

WANTED = accounts.Account("trainer", "trainer", "/var/lib/trainer", "/sbin/nologin", "a trainer")
KNOWN = accounts.Known(991, 990, "a trainer", "/var/lib/trainer", "/sbin/nologin", True)
OPEN = accounts.Known(991, 990, "a trainer", "/var/lib/trainer", "/bin/bash", False)
# Databases of one line each, and what was asked for besides.
GETENT = """#!/bin/sh
file={0}/$1
[ -s "$file" ] || exit 2
cat "$file"
"""
NOTE = '#!/bin/sh\necho "$(basename $0) $*" >> {0}/said\n'


@pytest.mark.parametrize(
    ("known", "gid", "commands"),
    [
        (None, None, ["groupadd -r trainer",
                      "useradd -g trainer -c a trainer -d /var/lib/trainer -s /sbin/nologin -m -r trainer"]),
        (KNOWN, 990, []),
        (KNOWN._replace(gid=5), 990, ["usermod -g trainer trainer"]),
        (KNOWN._replace(gid=5), None, ["groupadd -r trainer", "usermod -g trainer trainer"]),
        (OPEN, 990, ["usermod -s /sbin/nologin trainer", "usermod -L trainer"]),
        (KNOWN._replace(comment="Alice", home="/home/alice"), 990,
         ["usermod -c a trainer trainer", "usermod -d /var/lib/trainer trainer"]),
    ],
)  # fmt: skip
def test_what_is_to_be_done(known: accounts.Known | None, gid: int | None, commands: list[str]) -> None:
    assert [" ".join(step.command) for step in accounts.changes(WANTED, known, gid)] == commands


@pytest.fixture
def node(fake_bin: Callable, tmp_path: Path) -> Path:
    fake_bin("getent", GETENT.format(tmp_path))
    for name in ("useradd", "usermod", "groupadd"):
        fake_bin(name, NOTE.format(tmp_path))
    return tmp_path


def ask(run_module: Callable[..., dict], node: Path, check: bool = False, **more: object) -> dict:
    wish = {"name": "trainer", "group": "trainer", "home": str(node / "home"), "comment": "a trainer", **more}
    return run_module("service_account", wish, check=check)


def said(node: Path) -> list[str]:
    return [line.split()[0] for line in (node / "said").read_text().splitlines()] if (node / "said").exists() else []


def test_a_node_without_one(run_module: Callable[..., dict], node: Path) -> None:
    foretold = ask(run_module, node, check=True)
    assert foretold["changed"] and foretold["group_changed"] and said(node) == []
    done = ask(run_module, node)
    assert done["diff"] == foretold["diff"] and said(node) == ["groupadd", "useradd"]


@pytest.mark.parametrize("comment", ["Alice Example,,,", ""])
def test_somebodys_own_account(run_module: Callable[..., dict], node: Path, comment: str) -> None:
    (node / "passwd").write_text(f"trainer:*:1003:1003:{comment}:{node}:/bin/bash\n")
    answer = ask(run_module, node)
    assert (answer["changed"], answer["taken"]) == (False, {"uid": 1003, "comment": comment}) and said(node) == []
    assert ask(run_module, node, adopt=True)["changed"] and "usermod" in said(node)


def test_a_finished_one_and_its_lost_home(run_module: Callable[..., dict], node: Path) -> None:
    (node / "passwd").write_text(f"trainer:!:0:0:a trainer:{node}/home:/sbin/nologin\n")
    (node / "group").write_text("trainer:x:0:\n")
    done = ask(run_module, node)
    assert done["changed"] and (node / "home").is_dir() and said(node) == []
    assert not ask(run_module, node)["changed"]


@pytest.mark.parametrize(
    ("mode", "after"), [(0o777, 0o755), (0o770, 0o750), (0o1733, 0o1711), (0o700, 0o700), (0o755, 0o755)]
)
def test_nobody_else_may_write_to_its_home(run_module: Callable[..., dict], node: Path, mode: int, after: int) -> None:
    (node / "passwd").write_text(f"trainer:!:0:0:a trainer:{node}/home:/sbin/nologin\n")
    (node / "group").write_text("trainer:x:0:\n")
    home = node / "home"
    home.mkdir()
    home.chmod(mode)
    foretold = ask(run_module, node, check=True)
    assert home.stat().st_mode & 0o7777 == mode
    done = ask(run_module, node)
    assert (foretold["diff"], done["changed"]) == (done["diff"], mode != after)
    assert home.stat().st_mode & 0o7777 == after and not ask(run_module, node)["changed"]


def test_databases_that_do_not_answer(run_module: Callable[..., dict], fake_bin: Callable, node: Path) -> None:
    fake_bin("getent", "#!/bin/sh\necho 'no directory service' >&2\nexit 3\n")
    answer = ask(run_module, node)
    assert answer["failed"] and "no directory service" in answer["msg"] and said(node) == []


@pytest.mark.parametrize(
    ("shadow", "locked"), [("trainer:!!:1::", True), ("trainer:$6$x:1::", False), ("other:!:1::", False), ("", False)]
)
def test_a_password_is_looked_for_where_it_is(tmp_path: Path, shadow: str, locked: bool) -> None:
    host = HostTree(tmp_path)
    host.put("/etc/shadow", shadow + "\n")

    def run(command: Sequence[str], timeout: float) -> accounts.Finished:
        return accounts.Finished(0, "trainer:x:991:990:c:/h:/s\n", "", False, False, False, "")

    known = accounts.find_account("trainer", host.root, run)
    assert known is not None and known.locked is locked
