"""What root starts as somebody else has none of root's rights, and no way back to them."""

from __future__ import annotations

import os
import pwd
import tempfile
from pathlib import Path

import pytest
from gpuwright.host.as_user import Account, find_account, ordinary_account, run_as

NOBODY = pwd.getpwnam("nobody")
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


def python(text: str) -> list[str]:
    return ["/usr/bin/python3", "-I", "-c", text]


@AS_ROOT
@pytest.mark.parametrize(
    "call", ["os.setuid(0)", "os.seteuid(0)", "os.setgid(0)", "os.setgroups([0])", "os.chown('/', 0, 0)"]
)
def test_there_is_no_way_back(call):
    done = run_as(python(f"import os; {call}"), find_account("nobody"), 20)
    assert done.rc == 1 and "PermissionError" in done.stderr


@AS_ROOT
def test_all_groups_of_the_account_and_no_other():
    os.setgroups([0, 27])
    account = Account("nobody", NOBODY.pw_uid, NOBODY.pw_gid, [NOBODY.pw_gid, 44, 4])
    done = run_as(python("import os; print(os.getresuid(), os.getresgid(), sorted(os.getgroups()))"), account, 20)
    uid, gid = NOBODY.pw_uid, NOBODY.pw_gid
    assert done.stdout.strip() == f"{(uid,) * 3} {(gid,) * 3} {sorted([gid, 44, 4])}"


@AS_ROOT
def test_nothing_is_run_when_rights_cannot_be_given_up(tmp_path):
    """The kernel refuses more groups than it can hold, as it refuses unmapped ones; the program must not start then."""
    mark = tmp_path / "mark"
    done = run_as(["touch", str(mark)], Account("x", 65534, 65534, list(range(70000))), 20)
    assert done.rc is None and done.problem and not mark.exists()


def test_the_environment_holds_nothing_of_the_callers(monkeypatch):
    monkeypatch.setenv("SECRET", "x")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/tmp/lib")
    monkeypatch.setenv("PYTHONPATH", "/tmp/py")
    done = run_as(["env"], ordinary_account("nobody"), 20)
    names = {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert names == {"HOME", "PATH", "LANG", "USER", "LOGNAME"}


def test_the_home_is_private_and_goes_away():
    text = "import os; open('a', 'w').close(); print(os.getcwd(), *(oct(os.stat(name).st_mode) for name in ('.', 'a')))"
    done = run_as(python(text), ordinary_account("nobody"), 20)
    folder, mode, file_mode = done.stdout.split()
    assert (mode, file_mode) == ("0o40700", "0o100600")
    assert Path(folder).parent == Path(tempfile.gettempdir()) and not Path(folder).exists()


def test_a_caller_who_is_not_root_runs_it_as_themselves(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    assert ordinary_account("no-such-user").uid == 1234


@AS_ROOT
@pytest.mark.parametrize("name", ["root", "no-such-user", ""])
def test_root_needs_an_ordinary_user(name):
    with pytest.raises(ValueError, match="uid 0|there is no user"):
        ordinary_account(name)
