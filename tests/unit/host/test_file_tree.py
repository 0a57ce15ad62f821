"""file_tree: exact trees, in one step per file, and nothing outside the folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

FILES = {"a.py": "one\n", "sub/b.py": "two\n", "sub/notes.md": "three\n"}


def test_writes_then_has_nothing_to_do(run_module, tmp_path: Path) -> None:
    dest = tmp_path / "tree"
    first = run_module("file_tree", {"dest": str(dest), "files": FILES})
    assert (first["changed"], first["written"]) == (True, sorted(FILES))
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
    assert sorted(str(path.relative_to(dest)) for path in dest.rglob("*") if path.is_file()) == sorted(FILES)


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


def test_a_module_that_became_a_package_leaves_nothing_behind(run_module, tmp_path: Path, node_python: str) -> None:
    """An update of a flat library, and the way back: compiled files and empty folders are no part of either."""
    dest = tmp_path / "tree"
    flat, packed = {"a.py": "x = 1\n", "b.py": ""}, {"a/__init__.py": "", "a/deep/b.py": "x = 2\n", "b.py": ""}
    for files in (flat, packed, flat):
        args = {"dest": str(dest), "files": files, "compile_for": [node_python]}
        assert run_module("file_tree", args, check=True)["changed"] is True
        assert run_module("file_tree", args)["changed"] is True
        there = [path.relative_to(dest) for path in dest.rglob("*")]
        assert sorted(str(path) for path in there if path.suffix == ".py") == sorted(files)
        assert len([path for path in there if path.suffix == ".pyc"]) == len(files)
        assert {str(path) for path in there if (dest / path).is_dir() and path.name != "__pycache__"} <= {"a", "a/deep"}
        assert (dest / "a").exists() is (files is packed)
        assert run_module("file_tree", args)["changed"] is False


def test_modules_are_compiled_for_everybody(run_module, tmp_path: Path, node_python: str) -> None:
    """Under a hardened root's umask as well; what is right is left alone, what is stale or closed is made anew."""
    dest = tmp_path / "tree"
    args = {"dest": str(dest), "files": FILES, "compile_for": ["/no/such/python", node_python]}
    before = os.umask(0o077)
    try:
        assert run_module("file_tree", args)["compiled"] == ["a.py", "sub/b.py"]
    finally:
        os.umask(before)
    (inner,) = dest.glob("sub/__pycache__/b.*.pyc")
    (compiled,) = dest.glob("__pycache__/a.*.pyc")
    for file in (inner, compiled):
        assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o644, 0o755)
    assert run_module("file_tree", args)["changed"] is False
    compiled.chmod(0o600)
    assert run_module("file_tree", args, check=True)["compiled"] == ["a.py"]
    assert compiled.stat().st_mode & 0o777 == 0o600
    assert run_module("file_tree", args)["compiled"] == ["a.py"]
    assert run_module("file_tree", {**args, "files": {**FILES, "a.py": "three = 3\n"}})["compiled"] == ["a.py"]
    assert run_module("file_tree", {**args, "files": {**FILES, "a.py": "three = 3\n"}})["changed"] is False


def test_compiled_modules_are_those_that_python_takes(run_module, tmp_path: Path, node_python: str) -> None:
    dest = tmp_path / "tree"
    run_module("file_tree", {"dest": str(dest), "files": {"a.py": "x = 1\n"}, "compile_for": [node_python]})
    code = f"import sys; sys.path.insert(0, {str(dest)!r}); import a"
    done = subprocess.run([node_python, "-I", "-S", "-v", "-c", code], capture_output=True, text=True)
    assert "a.py" in done.stderr and f"code object from '{dest}/__pycache__/a." in done.stderr
    assert "wrote " not in done.stderr


def test_module_that_cannot_be_compiled_is_an_error(run_module, tmp_path: Path, node_python: str) -> None:
    args = {"dest": str(tmp_path / "tree"), "files": {"a.py": "x = = 1\n"}, "compile_for": [node_python]}
    answer = run_module("file_tree", args)
    assert answer["failed"] is True and "cannot compile it" in answer["msg"] and "Mend that" in answer["msg"]


def test_each_file_is_a_record_of_the_difference(run_module, tmp_path):
    """For a dry run: with its whole path, since nobody reads what the module was asked."""
    dest = tmp_path / "lib"
    (dest / "old").mkdir(parents=True)
    (dest / "old/gone.py").write_text("")
    answer = run_module("file_tree", {"dest": str(dest), "files": {"a.py": "x = 1\n"}}, check=True)
    rows = {(one["after"]["path"], one["before"]["content"], one["after"]["content"]) for one in answer["diff"]}
    assert rows == {
        (f"{dest}/a.py", "differs or is not there", "as in the toolkit"),
        (f"{dest}/old/gone.py", "is there", "removed"),
    }
