"""A damaged environment is found by what the check and the role share, and the role's own tasks build it anew.

Damage is what happens to files: deleted, truncated, overwritten, hidden by a stray one, replaced by another version.
"""

from __future__ import annotations

import importlib.metadata
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gpuwright.training.environment_files import fits, read_environment
from gpuwright.training.environment_state import import_problem, judge_environment
from test_environment_modes import Environment, copying_python

RECORDED = "tiny_thing-1.0.dist-info/RECORD"


@pytest.fixture(scope="module")
def built() -> Iterator[Environment]:
    """One environment, built by the role, in a folder that an ordinary user can enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        made = Environment(Path(name))
        made.python = copying_python(made.folder)
        assert made.run(0o022) == 0, made.log
        yield made


@pytest.fixture
def copy(built: Environment) -> Iterator[Path]:
    """A copy of it, times kept, to be damaged; without pip, whose files are many."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(
            shutil.copytree(
                built.venv,
                Path(name) / "venv",
                True,
                shutil.ignore_patterns("pip*", "setuptools*", "*distutils*", "pkg_res*"),
            )
        )


def packages(venv: Path) -> Path:
    return next(venv.glob("lib/*/site-packages"))


def rewrite(file: Path, text: str) -> None:
    """Another content of the same size, as a broken disk or hand leaves it, now."""
    assert file.stat().st_size == len(text)
    file.write_text(text)


def upgrade(venv: Path) -> None:
    info = packages(venv) / "tiny_thing-1.0.dist-info"
    lines = (info / "RECORD").read_text()
    (info / "RECORD").write_text(lines.replace("tiny_thing-1.0", "tiny_thing-1.1"))
    info.rename(info.with_name("tiny_thing-1.1.dist-info"))


def uninstall(venv: Path) -> None:
    for path in packages(venv).glob("tiny_thing*"):
        shutil.rmtree(path)


def misled(venv: Path) -> None:
    (venv / "bin/python").unlink()
    (venv / "bin/python").symlink_to("/usr/bin/python3.99")


def put_folder(venv: Path) -> None:
    (packages(venv) / "tiny_thing/__init__.py").unlink()
    (packages(venv) / "tiny_thing/__init__.py").mkdir()


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "deleted": (lambda venv: (packages(venv) / "tiny_thing/__init__.py").unlink(), "__init__.py is missing"),
    "emptied": (lambda venv: (packages(venv) / "tiny_thing/__init__.py").write_text(""), "has 0 bytes instead of 10"),
    "overwritten": (
        lambda venv: rewrite(packages(venv) / "tiny_thing/__init__.py", "value = 2\n"),
        "differs from the file that was installed",
    ),
    "whole package": (lambda venv: shutil.rmtree(packages(venv) / "tiny_thing"), "is missing"),
    "package and its record": (
        uninstall,
        "names tiny-thing, which is not installed",
    ),
    "record": (lambda venv: (packages(venv) / RECORDED).unlink(), "RECORD cannot be read: No such file"),
    "record emptied": (lambda venv: (packages(venv) / RECORDED).write_text(""), "lists no file"),
    "record torn": (lambda venv: (packages(venv) / RECORDED).write_text("tiny_thing/__in"), "is not path,hash,size"),
    "record no text": (lambda venv: (packages(venv) / RECORDED).write_bytes(b"\xff\0\xfe"), "cannot be read"),
    "hidden module": (lambda venv: (packages(venv) / "json.py").write_text("boom"), "was not installed by a package"),
    "hidden deep": (
        lambda venv: (packages(venv) / "tiny_thing/json.so").write_text("boom"),
        "was not installed by a package",
    ),
    "start-up line": (lambda venv: (packages(venv) / "x.pth").write_text("import x"), "was not installed by a package"),
    "interpreter": (lambda venv: (venv / "bin/python").unlink(), "bin/python points to no interpreter"),
    "interpreter's target": (
        misled,
        "bin/python points to no interpreter",
    ),
    "another version": (upgrade, "names tiny-thing 1.0, but 1.1 is installed"),
    "lock": (lambda venv: (venv / "lock.txt").unlink(), "lock.txt is missing"),
    "library folder": (lambda venv: shutil.rmtree(venv / "lib"), "lib has no folder for packages"),
    "a folder in the file's place": (
        put_folder,
        "tiny_thing/__init__.py",
    ),
}


def judged(venv: Path, imports: tuple[str, ...] = (), **more: object) -> str:
    rest: dict[str, Any] = {"user": "nobody", "all_hashes": False, "only": [], "leave_out": [], **more}
    return judge_environment(str(venv), list(imports), **rest)


def test_what_the_role_built_is_whole(built: Environment) -> None:
    found = read_environment("/", str(built.venv))
    assert found is not None
    assert (found["problem_count"], found["problems"], found["damaged"], found["hashed"]) == (0, [], [], 0)
    assert found["distributions"] >= 2 and found["files"] > 100
    everything = read_environment("/", str(built.venv), all_hashes=True)
    assert everything is not None and everything["problem_count"] == 0 and everything["hashed"] > 100
    assert judged(built.venv, ("tiny_thing", "pip")) == ""


@pytest.mark.parametrize("damage", sorted(DAMAGE))
def test_damage_is_found_and_named(copy: Path, damage: str) -> None:
    act, words = DAMAGE[damage]
    act(copy)
    assert words in judged(copy)


def test_a_content_that_changed_in_silence_is_found_by_all_hashes(copy: Path) -> None:
    file = packages(copy) / "tiny_thing/__init__.py"
    before = file.stat()
    rewrite(file, "value = 3\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert judged(copy) == ""
    assert "differs from the file" in judged(copy, all_hashes=True)


def test_a_file_that_a_wheel_forgot_to_list_is_no_damage(copy: Path) -> None:
    # Such as pip leaves it: older than the stamp.
    (packages(copy) / "forgotten.py").write_text("")
    (copy / "gpuwright.json").write_text("{}")
    os.utime(copy / "gpuwright.json", (4e9, 4e9))
    assert judged(copy) == ""


def test_compiled_files_and_caches_are_no_damage(copy: Path) -> None:
    subprocess.run([copy / "bin/python", "-c", "import tiny_thing"], check=True)
    for path in copy.rglob("__pycache__"):
        shutil.rmtree(path)
    assert judged(copy) == ""


def test_a_module_that_cannot_be_imported_is_no_whole_environment(copy: Path) -> None:
    cache = packages(copy) / "tiny_thing/__pycache__"
    shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir()
    code = packages(copy) / "tiny_thing/__init__.py"
    python = f"import py_compile; print(py_compile.compile({str(code)!r}))"
    compiled = Path(subprocess.check_output([copy / "bin/python", "-c", python], text=True).strip())
    compiled.write_bytes(compiled.read_bytes()[:20])
    # Whatever the umask is: an ordinary user who cannot read it would take the source.
    cache.chmod(0o755)
    compiled.chmod(0o644)
    assert judged(copy) == ""
    assert judged(copy, ("tiny_thing",)).startswith("import tiny_thing: EOFError")
    assert judged(copy, ("nothing_here",)).startswith("import nothing_here: ModuleNotFoundError")
    assert "there is no user" in judged(copy, ("tiny_thing",), user="n0body")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_what_is_imported_runs_as_the_ordinary_user(tmp_path: Path, open_umask: int) -> None:
    """Importing a module runs its code, so it is not root who does."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        python = Path(name, "venv/bin/python")
        python.parent.mkdir(parents=True)
        python.write_text('#!/bin/sh\necho "uid $(id -u), groups $(id -G)" >&2; exit 1\n')
        python.chmod(0o755)
        account = pwd.getpwnam("nobody")
        said = import_problem("/", f"{name}/venv", "torch", "nobody")
        assert said == f"import torch: uid {account.pw_uid}, groups {account.pw_gid}"
        assert "cannot be tried" in import_problem("/", f"{name}/venv", "torch", "root")


def test_packages_of_others_are_theirs(copy: Path) -> None:
    (packages(copy) / "tiny_thing/__init__.py").unlink()
    assert judged(copy, leave_out=["tiny-thing"]) == ""
    assert "is missing" in judged(copy, only=["tiny-thing"])
    assert "gan-trainer is not installed" in judged(copy, only=["gan-trainer"])


CLOSED: dict[str, tuple[Callable[[Path], Path], int]] = {
    "programs": (lambda venv: venv / "bin", 0o700),
    "libraries": (lambda venv: venv / "lib", 0o750),
    "one package": (lambda venv: packages(venv) / "tiny_thing", 0o744),
    "one file": (lambda venv: packages(venv) / "tiny_thing/__init__.py", 0o600),
    "one program": (lambda venv: venv / "bin/tiny", 0o744),
    "the environment": (lambda venv: venv, 0o700),
    "a folder above it": (lambda venv: venv.parent, 0o711),
}


@pytest.mark.parametrize("what", CLOSED)
def test_what_a_mode_closes_is_named_and_no_damage(copy: Path, what: str) -> None:
    """As a umask of 077, or a hand, leaves it: root sees nothing of it, and the trainer nothing of the environment."""
    place, mode = CLOSED[what]
    program = copy / "bin/tiny"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    record = packages(copy) / RECORDED
    record.write_text(record.read_text() + "../../../bin/tiny,,\n")
    before = read_environment("/", str(copy))
    assert before is not None and (before["closed"], before["closed_count"]) == ([], 0)
    place(copy).chmod(mode)
    found = read_environment("/", str(copy))
    place(copy).chmod(0o755)
    assert found is not None and found["closed"][0] == str(place(copy)) and found["closed_count"] == 1
    assert found["problem_count"] == before["problem_count"]


def test_two_packages_may_list_one_file(copy: Path) -> None:
    info = packages(copy) / "other-2.0.dist-info"
    info.mkdir()
    (info / "RECORD").write_text("tiny_thing/__init__.py,sha256=AAAA,3\nother-2.0.dist-info/RECORD,,\n/etc/passwd,,\n")
    assert judged(copy) == ""


def test_no_environment_is_not_whole(tmp_path: Path) -> None:
    assert "there is no environment" in judged(tmp_path / "none")
    assert read_environment("/", str(tmp_path / "none")) is None
    assert "bin/python" in judged(tmp_path)


@pytest.mark.parametrize(
    ("wanted", "installed", "expected"),
    [
        ("2024.01", "2024.1", True),
        ("1.0", "1", True),
        ("2.10.0+cu128", "2.10.0+CU128", True),
        ("2.10.0+cu128", "2.10.0+cu126", False),
        ("2.10.0", "2.10.0+cu126", True),
        ("1.0.1", "1.0.10", False),
        ("1.0rc1", "1.0.rc1", True),
        ("1.0rc1", "1.0", False),
        ("10", "1", False),
    ],
)
def test_versions_are_compared_as_pip_does(wanted: str, installed: str, expected: bool) -> None:
    assert fits(wanted, installed) is expected


def test_every_package_of_this_python_is_spelled_as_its_folder() -> None:
    found = read_environment("/", str(Path(sys.prefix)))
    assert found is not None
    assert [p for p in found["problems"] if p["path"] != "lock.txt" and "no package" not in p["distribution"]] == []
    assert found["distributions"] >= len(list(importlib.metadata.distributions())) // 2


@pytest.mark.parametrize("damage", ["deleted", "hidden module", "interpreter"])
def test_the_role_builds_a_damaged_environment_anew(built: Environment, damage: str) -> None:
    before = (built.venv / "gpuwright.json").stat().st_mtime_ns
    DAMAGE[damage][0](built.venv)
    assert judged(built.venv) != ""
    assert built.run(0o022) == 0, built.log
    assert judged(built.venv, ("tiny_thing",)) == "" and (built.venv / "gpuwright.json").stat().st_mtime_ns > before
    assert built.run(0o022) == 0 and "changed=0" in built.log, built.log


def test_what_a_new_environment_does_not_mend_stops_the_run(built: Environment) -> None:
    assert built.run(0o022, __framework_pytorch_imports=["tiny_thing", "not_in_it"]) != 0
    assert "import not_in_it: ModuleNotFoundError" in built.log and "lies outside of it" in built.log
    # The model layer alone asks for the mark before it makes an environment the current one.
    assert not list(built.venvs.glob("*/gpuwright.json"))


def test_python_36_judges_the_same(run_module: Callable[..., dict], copy: Path) -> None:
    parameters = {"path": str(copy), "imports": ["tiny_thing"]}
    answer = run_module("python_environment", parameters)
    assert (answer["whole"], answer["because"], answer["changed"]) == (True, "", False)
    (packages(copy) / "tiny_thing/__init__.py").write_text("")
    answer = run_module("python_environment", parameters)
    assert not answer["whole"] and "has 0 bytes" in answer["because"]
