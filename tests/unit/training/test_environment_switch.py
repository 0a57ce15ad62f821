"""A new environment becomes the current one when the trainer is in it, and not before, whichever step fails.

The roles' own tasks build real environments in a temporary folder, as site.yml, framework.yml and model.yml run them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import REPOSITORY
from given_facts import as_facts
from test_environment_modes import PLAYBOOK, copying_python, make_wheel, nobody_works, pack_wheel

ROLES = {
    "framework": ("framework_pytorch", ["venv"]),
    "model": ("model_trainer", ["package"]),
}
# The package that the roles look for, with another module: this one needs no PyTorch.
TRAINER = "gan_trainer-1.0-py3-none-any.whl"


class Node:
    """Runs of the two layers on a folder of environments; the trainer is a package of one line, or the real one."""

    own_trainer = True

    def __init__(self, folder: Path) -> None:
        self.folder, self.venvs, self.wheel = folder, folder / "venvs", folder / TRAINER
        (folder / "wheels").mkdir()
        self.digest, self.log = make_wheel(folder / "wheels"), ""
        self.python = copying_python(folder)
        nobody_works(folder)
        self.make_trainer("trainer")

    def make_trainer(self, word: str) -> None:
        """The wheel on the controller, whose module says this word."""
        pack_wheel(self.wheel, "gan_trainer", {"tiny_trainer.py": f"word = {word!r}\n"})

    def run(self, *layers: str, tags: str = "all", lock: str = "", check: bool = False, **variables: Any) -> int:
        """As site.yml with both layers, or a layer's playbook alone; `lock` makes another environment of the plan."""
        file = self.folder / "lock.txt"
        file.write_text(f"tiny-thing==1.0 --hash=sha256:{self.digest}\n{lock}")
        known = {
            "gpu_node": {"os": {"family": "redhat"}},
            "gpu_node_plan": {
                "python": {"version": "3", "executable": self.python, "packages": []},
                "pytorch": {"version": "1.0", "build": "cpu", "lock": "lock.txt", "locked": True, "index_url": ""},
            },
            "framework_pytorch_lock_file": str(file),
            "framework_pytorch_wheelhouse": str(self.folder / "wheels"),
            "__framework_pytorch_venvs": str(self.venvs),
            "__framework_pytorch_imports": ["tiny_thing"],
            "__model_trainer_venv": str(self.venvs / "current"),
            "ansible_python_interpreter": sys.executable,
            **variables,
        }
        if self.own_trainer:
            known["__model_trainer_wheel"] = str(self.wheel)
            known["__model_trainer_digest"] = hashlib.sha256(self.wheel.read_bytes()).hexdigest()
        site = yaml.safe_load((REPOSITORY / "playbooks/site.yml").read_text())
        words = next(play.get("vars", {}) for play in site if "framework.yml" in str(play))
        plays = [self.play(layer, words if len(layers) > 1 else {}) for layer in layers]
        (self.folder / "play.yml").write_text(yaml.safe_dump(plays))
        (self.folder / "vars.json").write_text(json.dumps(as_facts(known)))
        command = [str(PLAYBOOK), "-i", "localhost,", "-c", "local", str(self.folder / "play.yml"), "--tags", tags]
        done = subprocess.run(
            [*command, "-e", f"@{self.folder}/vars.json", *["--check"] * check],
            cwd=REPOSITORY,
            env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
            capture_output=True,
            text=True,
            timeout=400,
        )
        self.log = done.stdout + done.stderr
        return done.returncode

    def play(self, layer: str, words: dict[str, Any]) -> dict[str, Any]:
        """The tasks of the layer's role from the first that touches the environment, under the tag of its playbook."""
        role, first = ROLES[layer]
        tasks = yaml.safe_load((REPOSITORY / f"roles/{role}/tasks/main.yml").read_text())
        begin = next(
            number
            for number, task in enumerate(tasks)
            if any(str(task).find(word) >= 0 for word in (f"{first[0]}.yml", "'planned'"))
        )
        files = [self.adopted(role, task) for task in tasks[begin:] if "service.yml" not in str(task)]
        play = {"hosts": "localhost", "gather_facts": False, "become": False, "vars": words}
        play["roles"] = [{"role": "gpuwright.node.preflight", "when": False}]
        play["tasks"] = [{**task, "tags": [layer]} for task in files]
        return play

    @staticmethod
    def adopted(role: str, task: dict[str, Any]) -> dict[str, Any]:
        """The same task outside its role: a file of tasks becomes one of the role, with the layer's tag in it."""
        task = dict(task)
        for word in ("ansible.builtin.import_tasks", "ansible.builtin.include_tasks"):
            if word in task:
                task["ansible.builtin.include_role"] = {
                    "name": f"gpuwright.node.{role}",
                    "tasks_from": task.pop(word).removesuffix(".yml"),
                }
        task["ansible.builtin.include_role"]["apply"] = {"tags": ["framework", "model"]}
        return task

    @property
    def current(self) -> Path | None:
        link = self.venvs / "current"
        return link.resolve() if link.is_symlink() else None

    def trainer_of(self, venv: Path) -> str:
        """What `import tiny_trainer` finds there, "" where it is not installed."""
        done = subprocess.run(
            [str(venv / "bin/python"), "-c", "import tiny_trainer; print(tiny_trainer.word)"],
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()


@contextmanager
def new_node() -> Iterator[Node]:
    # Not pytest's own folder, which the ordinary user who imports the packages cannot enter.
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Node(Path(name))


@pytest.fixture
def node() -> Iterator[Node]:
    with new_node() as made:
        yield made


@pytest.fixture(scope="module")
def first_run() -> Iterator[Node]:
    """A node after both layers, and beside it a copy of its environments."""
    with new_node() as made:
        assert made.run("framework", "model", framework_pytorch_keep=0) == 0, made.log
        shutil.copytree(made.venvs, made.folder / "kept", symlinks=True)
        yield made


@pytest.fixture
def done(first_run: Node) -> Node:
    """The same node, with its environments as both layers left them."""
    shutil.rmtree(first_run.venvs)
    shutil.copytree(first_run.folder / "kept", first_run.venvs, symlinks=True)
    first_run.make_trainer("trainer")
    return first_run


def test_a_trainer_that_cannot_be_installed_leaves_the_old_environment(done: Node) -> None:
    # None is kept besides the current one; until the switch that is the old one.
    only: dict[str, Any] = {"framework_pytorch_keep": 0}
    old = done.current
    assert old is not None and done.trainer_of(old) == "trainer"
    done.wheel.write_text("torn")
    assert done.run("framework", "model", lock="# another plan\n", **only) != 0
    assert len([path for path in done.venvs.iterdir() if not path.is_symlink()]) == 2, done.log
    assert done.current == old and done.trainer_of(old) == "trainer"
    # model.yml alone finishes what was begun.
    done.make_trainer("trainer")
    assert done.run("model", lock="# another plan\n", **only) == 0, done.log
    assert done.current not in (None, old) and done.trainer_of(done.current) == "trainer"
    assert [path for path in done.venvs.iterdir() if not path.is_symlink()] == [done.current]
    assert done.run("framework", "model", lock="# another plan\n", **only) == 0 and "changed=0" in done.log, done.log


def test_an_environment_that_cannot_be_built_leaves_the_old_one(done: Node) -> None:
    old = done.current
    assert old is not None
    assert done.run("framework", "model", lock="no-such-thing==1.0 --hash=sha256:" + "0" * 64 + "\n") != 0
    assert done.current == old and done.trainer_of(old) == "trainer"


def test_a_layer_alone(node: Node) -> None:
    """framework.yml alone has no trainer to wait for; model.yml alone takes the environment that there is."""
    assert node.run("framework") == 0, node.log
    first = node.current
    assert first is not None and node.trainer_of(first) == ""
    assert node.run("model") == 0, node.log
    assert node.current == first and node.trainer_of(first) == "trainer"
    # Another plan, for which nobody has built an environment: the trainer of the current one is kept up to date.
    node.make_trainer("newer")
    assert node.run("model", lock="# another plan\n") == 0, node.log
    assert node.current == first and node.trainer_of(first) == "newer"


def test_the_framework_layer_of_site_yml_alone_switches(done: Node) -> None:
    old = done.current
    assert done.run("framework", "model", tags="framework", lock="# another plan\n") == 0, done.log
    assert done.current not in (None, old)
