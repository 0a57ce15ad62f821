"""Everything that is kept on a node is written whole or not at all, and by one function."""

from __future__ import annotations

import ast
import functools
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpuwright.host import trees, whole_file
from gpuwright.host.secure_boot import mok_request
from gpuwright.host.written import owning
from gpuwright.launch.calibration import chosen as calibrated
from gpuwright.tuning import store
from gpuwright.verdict import report

REPOSITORY = Path(__file__).resolve().parents[3]
NODE_CODE = REPOSITORY / "plugins/module_utils"
# What opens a file for writing in another way, and why that is right.
OTHERWISE = {
    "host/secure_boot/mok_request.py": "a password's hash for mokutil, removed when that has read it",
    "host/secure_boot/signing_pair.py": "openssl's configuration, removed; the pair is synced before it is named",
    "launch/job.py": "the lock of a GPU, which has no content that counts",
    "operator/record.py": "the lock beside the operator's record",
    "operator/renewal.py": "a record in a tmpfs, replaced whole; every module is sent this file, so it loads little",
    "driver_change/kept_packages.py": "a script for dnf, removed when that has read it",
    "packages/signing_key.py": "a key in a temporary folder, for gpg to read",
    "packages/stream_switch.py": "a script for dnf, removed when that has read it",
    "sources/ask_apt.py": "copies of apt's sources in a temporary folder, for apt to read",
    "tuning/knobs.py": "values of the kernel's, which take no rename",
}
WRITES = ("w", "a", "x", "+")


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def apply_tree(path: Path) -> None:
    trees.apply_tree(str(path.parent), {path.name: "12345"}, [path.name], [])


def save_calibration(path: Path) -> None:
    kept = path.parent / calibrated.CALIBRATED_PATH[1:]
    kept.parent.mkdir(parents=True)
    calibrated.save({"a": 1}, str(path.parent))


def save_request(path: Path) -> None:
    mok_request._write_record(str(path.parent), {"schema": 1, "sha256": "00", "boot_id": "1"})


WRITERS: dict[str, Callable[[Path], None]] = {
    "write_whole": lambda path: whole_file.write_whole(str(path), b"12345"),
    "a report": lambda path: report.write_text(str(path), "12345"),
    "a record as JSON": lambda path: report.write_json(str(path), {}),
    "a file of the toolkit": apply_tree,
    "a file of the tuning": lambda path: store.put_back(
        str(path.parent), path.name, {"content": "MTIzNDU=", "mode": 0o640, "uid": os.getuid(), "gid": os.getgid()}
    ),
    "values to go back to": lambda path: store.save(
        str(path.parent), {"schema": 1, "knobs": {"a": "b"}, "files": {}, "folders": []}
    ),
    "a calibration": save_calibration,
    "a request to the firmware": save_request,
    "a bundle": lambda path: whole_file.write_new(str(path), b"12345", 0o600),
}


@pytest.mark.parametrize("name", WRITERS)
def test_content_is_on_the_disk_before_the_name_and_then_the_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """After a power cut there is the old or the new content, never an empty file."""
    order: list[str] = []
    sync, rename, link = os.fsync, os.rename, os.link

    def fsync(handle: int) -> None:
        status = os.fstat(handle)
        order.append("folder" if stat.S_ISDIR(status.st_mode) else "content" if status.st_size else "nothing")
        sync(handle)

    def renamed(source: str, target: str, **folders: int) -> None:
        order.append("name")
        rename(source, target, **folders)

    def linked(source: str, target: str, **folders: Any) -> None:
        order.append("name")
        link(source, target, **folders)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", renamed)
    monkeypatch.setattr(os, "link", linked)
    WRITERS[name](tmp_path / "file")
    assert order == ["content", "name", "folder"]


def opens_for_writing(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    if name in ("tempfile.mkstemp", "tempfile.NamedTemporaryFile", "os.replace"):
        return True
    if name == "os.open":
        return "O_WRONLY" in ast.unparse(call) or "O_RDWR" in ast.unparse(call)
    modes = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode")]
    return name in ("open", "io.open") and any(
        isinstance(mode, ast.Constant) and any(letter in str(mode.value) for letter in WRITES) for mode in modes
    )


def test_no_other_code_of_a_node_writes_files_by_itself() -> None:
    found = {
        str(path.relative_to(NODE_CODE))
        for path in NODE_CODE.rglob("*.py")
        if any(isinstance(node, ast.Call) and opens_for_writing(node) for node in ast.walk(ast.parse(path.read_text())))
    }
    assert found - {"host/whole_file.py", "host/written/owning.py"} == set(OTHERWISE)


@pytest.mark.parametrize("broken", ["rename", "fchmod", "fchown", "fsync"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    target = tmp_path / "file"
    target.write_text("old")

    def fails(*_arguments: object, **_named: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, broken, fails)
    with pytest.raises(OSError, match="No space left"):
        whole_file.write_whole(str(target), b"new", 0o600, (os.getuid(), os.getgid()))
    assert names_in(tmp_path) == ["file"] and target.read_text() == "old"


KILLED = """
import os, signal, sys
from gpuwright.host import whole_file
os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
whole_file.write_whole(sys.argv[1], b"new")
"""


def test_what_a_killed_writer_left_goes_with_a_later_write(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(target)], env={**os.environ, "PYTHONPATH": path}, check=False
    )
    assert done.returncode == -signal.SIGKILL and target.read_text() == "old"
    (left,) = (name for name in names_in(tmp_path) if name != "file")
    # Somebody may still be writing what is new.
    whole_file.write_whole(str(target), b"newer")
    assert names_in(tmp_path) == [left, "file"]
    then = target.stat().st_mtime - whole_file.LEFT_AFTER_S - 1
    os.utime(tmp_path / left, (then, then))
    others = [".file.mine.new", ".file.of.abcdefgh.new", ".other.x.new"]
    for name in others:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (then, then))
    whole_file.write_whole(str(target), b"newest")
    assert names_in(tmp_path) == [*others, "file"] and target.read_text() == "newest"


# Calls by path that change a mode or an owner, and why they cannot meet a link.
BY_PATH = {"host/placing.py": "a link itself, in an open folder", "host/service_account.py": "links themselves"}


def test_no_other_code_of_a_node_changes_modes_or_owners_by_path() -> None:
    found = set()
    for path in [*NODE_CODE.rglob("*.py"), *(REPOSITORY / "library").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("os.chmod", "os.chown", "os.lchown"):
                found.add(str(path.relative_to(NODE_CODE)))
                assert "follow_symlinks=False" in ast.unparse(node), f"{path}:{node.lineno}"
    assert found == set(BY_PATH)


@pytest.fixture
def swapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A private file elsewhere; the unfinished file becomes a link to it before mode and owner are set."""
    victim = tmp_path / "victim"
    victim.write_text("private")
    victim.chmod(0o600)
    folder = tmp_path / "others"

    def after_swap(real: Callable[..., Any], *words: Any, **named: Any) -> Any:
        for file in folder.iterdir():
            if file.name != "target":
                file.unlink()
                file.symlink_to(victim)
        return real(*words, **named)

    for name in ("chmod", "chown", "fchmod", "fchown"):
        monkeypatch.setattr(os, name, functools.partial(after_swap, getattr(os, name)))
    folder.mkdir()
    return victim


def test_a_link_in_the_place_of_the_unfinished_file_opens_no_other_file(tmp_path: Path, swapped: Path) -> None:
    whole_file.write_whole(str(tmp_path / "others/target"), b"new", 0o644, (os.getuid(), os.getgid()))
    assert stat.S_IMODE(swapped.stat().st_mode) == 0o600 and swapped.read_text() == "private"


def test_a_link_in_the_place_of_a_folder_or_file_gets_no_mode(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir(0o700)
    (tmp_path / "victim").chmod(0o700)
    (tmp_path / "link").symlink_to("victim")
    with pytest.raises(OSError, match="link"):
        owning.own_path(str(tmp_path / "link"), 0o755)
    assert stat.S_IMODE((tmp_path / "victim").stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="another user may follow every link")
def test_root_follows_only_links_that_root_made(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for name, owner in (("own", 0), ("other", 65534)):
        (tmp_path / name).symlink_to("there")
        os.chown(tmp_path / name, owner, owner, follow_symlinks=False)
    whole_file.write_whole(str(tmp_path / "own/file"), b"new")
    assert names_in(tmp_path / "there") == ["file"]
    for write in (
        lambda: whole_file.write_whole(str(tmp_path / "other/second"), b"new"),
        lambda: whole_file.write_new(str(tmp_path / "other/second"), b"new", 0o600),
        lambda: owning.make_folders(str(tmp_path / "other/second")),
        lambda: owning.own_path(str(tmp_path / "other/file"), 0o777),
    ):
        with pytest.raises(OSError, match="other is a link that belongs to uid 65534"):
            write()
    assert names_in(tmp_path / "there") == ["file"]
    assert stat.S_IMODE((tmp_path / "there/file").stat().st_mode) == 0o644


def test_an_edited_file_keeps_its_mode_and_owner(tmp_path: Path) -> None:
    file = tmp_path / "file"
    whole_file.write_edited(str(file), b"new")
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    for mode, most, now in ((0o640, 0o7777, 0o640), (0o664, 0o600, 0o600)):
        file.chmod(mode)
        if os.geteuid() == 0:
            os.chown(file, 0, 50)
        whole_file.write_edited(str(file), b"newer", most)
        assert stat.S_IMODE(file.stat().st_mode) == now and file.stat().st_gid == (
            50 if os.geteuid() == 0 else os.getgid()
        )
