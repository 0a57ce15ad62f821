"""file_tree: exact trees, in one step per file, and nothing outside the folder."""

from __future__ import annotations

from pathlib import Path

import pytest

FILES = {"a.py": "one\n", "sub/b.py": "two\n"}


def test_writes_then_has_nothing_to_do(run_module, tmp_path: Path) -> None:
    dest = tmp_path / "tree"
    first = run_module("file_tree", {"dest": str(dest), "files": FILES})
    assert (first["changed"], first["written"]) == (True, ["a.py", "sub/b.py"])
    assert (dest / "sub/b.py").read_text() == "two\n"
    assert (dest / "sub/b.py").stat().st_mode & 0o777 == 0o644
    assert run_module("file_tree", {"dest": str(dest), "files": FILES})["changed"] is False


@pytest.mark.parametrize("spoil", ["content", "mode", "link", "extra", "missing"])
def test_repairs_drift(run_module, tmp_path: Path, spoil: str) -> None:
    dest = tmp_path / "tree"
    run_module("file_tree", {"dest": str(dest), "files": FILES})
    victim = dest / "a.py"
    if spoil == "content":
        victim.write_text("changed by hand")
    elif spoil == "mode":
        victim.chmod(0o666)
    elif spoil == "link":
        victim.unlink()
        victim.symlink_to("/etc/hostname")
    elif spoil == "extra":
        (dest / "left_behind.py").write_text("old")
    else:
        victim.unlink()
    assert run_module("file_tree", {"dest": str(dest), "files": FILES})["changed"] is True
    assert victim.read_text() == "one\n" and not victim.is_symlink()
    assert sorted(str(path.relative_to(dest)) for path in dest.rglob("*") if path.is_file()) == ["a.py", "sub/b.py"]


def test_check_mode_predicts_and_writes_nothing(run_module, tmp_path: Path) -> None:
    answer = run_module("file_tree", {"dest": str(tmp_path / "tree"), "files": FILES}, check=True)
    assert answer["changed"] is True
    assert not (tmp_path / "tree").exists()


@pytest.mark.parametrize("files", [{}, {"../outside": "x"}, {"/etc/outside": "x"}])
def test_refuses(run_module, tmp_path: Path, files: dict) -> None:
    answer = run_module("file_tree", {"dest": str(tmp_path / "tree"), "files": files})
    assert answer["failed"] is True
    assert "Mend" in answer["msg"] or "Use ansible.builtin.file" in answer["msg"]
    assert not (tmp_path / "tree").exists()


def test_bytecode_is_left_alone(run_module, tmp_path: Path) -> None:
    dest = tmp_path / "tree"
    run_module("file_tree", {"dest": str(dest), "files": FILES})
    cache = dest / "__pycache__"
    cache.mkdir()
    (cache / "a.cpython-36.pyc").write_bytes(b"\0")
    assert run_module("file_tree", {"dest": str(dest), "files": FILES})["changed"] is False
