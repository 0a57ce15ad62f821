"""The trainer's wheel: what is in it, when it is built, and that a node gets it and keeps it whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.plugin_utils import trainer_wheel
from conftest import REPOSITORY
from test_environment_switch import Node, new_node

NOTHING = Path("/nonexistent")
VERSION = yaml.safe_load((REPOSITORY / "galaxy.yml").read_text())["version"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the trainer's project."""
    ignored = shutil.ignore_patterns("__pycache__", "tests", ".*")
    return Path(shutil.copytree(REPOSITORY / "trainer", tmp_path / "trainer", ignore=ignored))


def test_it_holds_the_package_and_nothing_else(project: Path, tmp_path: Path) -> None:
    (project / "tests").mkdir()
    (project / "tests/test_x.py").write_text("")
    (project / "gan_trainer/__pycache__").mkdir()
    (project / "gan_trainer/__pycache__/x.cpython-311.pyc").write_bytes(b"x")
    (project / "gan_trainer/cli.py.orig").write_text("left by an editor")
    with zipfile.ZipFile(trainer_wheel.wheel(tmp_path / "out", project, NOTHING)) as wheel:
        names = set(wheel.namelist())
        metadata = wheel.read(f"gan_trainer-{VERSION}.dist-info/METADATA").decode()
        scripts = wheel.read(f"gan_trainer-{VERSION}.dist-info/entry_points.txt").decode()
    package = REPOSITORY / "trainer/gan_trainer"
    # With what `train-gan new` copies.
    kept = [path for suffix in ("py", "toml", "yml") for path in package.rglob(f"*.{suffix}")]
    assert {name for name in names if ".dist-info/" not in name} == {
        str(path.relative_to(package.parent)) for path in kept
    }
    assert "gan_trainer/template/config.yml" in names
    assert f"Version: {VERSION}" in metadata and "train-gan=gan_trainer.cli:main" in scripts


def test_the_same_sources_make_the_same_bytes(project: Path, tmp_path: Path) -> None:
    first = trainer_wheel.wheel(tmp_path / "one", project, NOTHING)
    for path in project.rglob("*.py"):
        os.utime(path, (1, 1))
        path.chmod(0o600)
    before = os.umask(0o077)
    try:
        second = trainer_wheel.wheel(tmp_path / "two", project, NOTHING)
    finally:
        os.umask(before)
    assert (
        first.read_bytes() == second.read_bytes()
        and first.name == second.name == f"gan_trainer-{VERSION}-py3-none-any.whl"
    )


def test_it_is_built_once_and_anew_for_other_sources(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = trainer_wheel.wheel(tmp_path / "out", project, NOTHING)
    with monkeypatch.context() as patch:
        patch.setattr(trainer_wheel, "build", lambda *_: pytest.fail("built again"))
        assert trainer_wheel.wheel(tmp_path / "out", project, NOTHING) == first
    (project / "gan_trainer/cli.py").write_text("x = 1\n")
    other = trainer_wheel.wheel(tmp_path / "out", project, NOTHING)
    assert other != first and zipfile.ZipFile(other).read("gan_trainer/cli.py") == b"x = 1\n"
    # Nothing is left of the work, and what another process built in between is taken.
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted([first.parent.name, other.parent.name])
    assert trainer_wheel.build(trainer_wheel.sources(project), other.parent) == other


def test_one_that_was_built_before_is_taken_only_for_its_sources(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = tmp_path / "role"
    before = trainer_wheel.wheel(built, project, NOTHING)
    monkeypatch.setattr(trainer_wheel, "BACKEND", "no_such_backend")
    assert trainer_wheel.wheel(tmp_path / "out", project, built) == before
    (project / "README.md").write_text("changed")
    with pytest.raises(trainer_wheel.WheelError, match=r"has no no_such_backend\. Start from the environment of `make"):
        trainer_wheel.wheel(tmp_path / "out", project, built)


def test_a_build_that_fails_names_its_cause_and_leaves_nothing(project: Path, tmp_path: Path) -> None:
    text = (project / "pyproject.toml").read_text()
    (project / "pyproject.toml").write_text(text.replace('name = "gan_trainer"', 'name = "elsewhere"'))
    with pytest.raises(trainer_wheel.WheelError, match="elsewhere"):
        trainer_wheel.wheel(tmp_path / "out", project, NOTHING)
    assert list((tmp_path / "out").iterdir()) == []
    shutil.rmtree(project / "gan_trainer")
    with pytest.raises(FileNotFoundError, match="gan_trainer"):
        trainer_wheel.wheel(tmp_path / "out", project, NOTHING)


def test_make_leaves_one_for_the_role(project: Path) -> None:
    """As a checkout elsewhere has it, so that nothing is written into this one."""
    checkout = project.parent
    for part in ("plugins", "collections", "tools"):
        shutil.copytree(REPOSITORY / part, checkout / part, symlinks=True)
    done = subprocess.run([sys.executable, checkout / "tools/trainer_wheel.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    digest = trainer_wheel.source_digest(project)
    assert done.stdout == f"roles/model_trainer/files/wheels/{digest}/gan_trainer-{VERSION}-py3-none-any.whl\n"
    assert "trainer-wheel:" in (REPOSITORY / "Makefile").read_text()


@pytest.fixture
def node() -> Iterator[Node]:
    with new_node() as made:
        made.own_trainer = False
        yield made


def version(venv: Path) -> str:
    command = [str(venv / "bin/python"), "-c", "import gan_trainer; print(gan_trainer.__version__)"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def test_a_node_gets_it_and_keeps_it_whole(node: Node) -> None:
    assert node.run("framework", "model") == 0, node.log
    venv = node.current
    assert venv is not None and version(venv) == VERSION
    assert node.run("framework", "model") == 0 and "changed=0" in node.log, node.log
    module = next(venv.glob("lib/*/site-packages/gan_trainer/cli.py"))
    text = module.read_text()
    module.write_text(text[:-1])
    assert node.run("model", check=True) == 0 and "changed=0" not in node.log, node.log
    assert module.read_text() != text
    assert node.run("model") == 0 and "changed=0" not in node.log, node.log
    assert module.read_text() == text
    assert node.run("model", check=True) == 0 and "changed=0" in node.log, node.log


def test_a_fresh_node_is_only_looked_at_in_check_mode(node: Node) -> None:
    assert node.run("framework", "model", check=True) == 0, node.log
    assert node.current is None
