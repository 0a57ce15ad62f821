"""Everything that is kept on a node is written whole or not at all, and by one function."""

from __future__ import annotations

import ast
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from gpuwright.doctor.bundle.make import write_new
from gpuwright.host import trees, whole_file
from gpuwright.host.secure_boot import mok_request
from gpuwright.launch.calibration import calibrated
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
    "packages/kept_change.py": "a script for dnf, removed when that has read it",
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
    mok_request._write_record(str(path.parent), {"a": 1})


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
    "a bundle": lambda path: write_new(str(path), b"12345"),
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

    def renamed(source: str, target: str) -> None:
        order.append("name")
        rename(source, target)

    def linked(source: str, target: str) -> None:
        order.append("name")
        link(source, target)

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
    assert found - {"host/whole_file.py"} == set(OTHERWISE)


@pytest.mark.parametrize("broken", ["rename", "chmod", "chown", "fsync"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    target = tmp_path / "file"
    target.write_text("old")

    def fails(*_arguments: object) -> None:
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
