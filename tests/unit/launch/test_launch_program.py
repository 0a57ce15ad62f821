"""`gpu-run -- python` is the environment's Python; what a user has chosen stays; what is not there is answered."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from gpuwright.launch.program import ENVIRONMENT, environment_folder, not_found

MODULE_UTILS = Path(__file__).resolve().parents[3] / "tests/node_library"


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\necho {text}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def node(tmp_path: Path) -> Path:
    for name in ("python", "python3", "torchrun", "train-gan", "pip", "activate"):
        program(tmp_path / ENVIRONMENT[1:], name, "ours")
    return tmp_path


def run(node: Path, python: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess:
    start = f"import sys; sys.path.insert(0, {str(MODULE_UTILS)!r}); from gpuwright.launch.launcher import main;"
    command = [python, "-I", "-c", start + f"sys.exit(main(sys.argv[1:], {str(node)!r}))", *arguments]
    environment = {"PATH": "/usr/bin:/bin", **environ}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_the_environments_python_runs(node, node_python):
    done = run(node, node_python, "--", "python", "train.py")
    assert (done.returncode, done.stdout) == (0, "ours\n"), done.stderr
    # What it starts finds the same one.
    program(node / ENVIRONMENT[1:], "torchrun", "$(python)")
    assert run(node, node_python, "torchrun").stdout == "ours\n"


def test_it_is_said_by_explain_and_by_the_shell_line(node, node_python):
    path = f"{node}{ENVIRONMENT}/python3"
    told = run(node, node_python, "--explain", "--", "python3").stdout
    assert path in told and "of the current environment, since PATH has the system's own" in told
    answer = json.loads(run(node, node_python, "--json", "--", "python3").stdout)
    assert [row["value"] for row in answer["settings"] if row["setting"] == "program"] == [path]
    assert answer["environment"]["PATH"].startswith(f"{node}{ENVIRONMENT}:")


@pytest.mark.parametrize(
    ("name", "environ", "taken"),
    [
        ("python", {"PATH": "/usr/bin"}, True),
        ("python", {}, True),
        ("torchrun", {"PATH": "/nowhere:/bin"}, True),
        ("python", {"PATH": "{node}/mine:/usr/bin"}, False),
        ("python", {"PATH": "/usr/bin", "VIRTUAL_ENV": "/home/me/venv"}, False),
        ("python", {"PATH": "/usr/bin", "CONDA_PREFIX": "/home/me/conda"}, False),
        ("/usr/bin/python3", {"PATH": "/usr/bin"}, False),
        ("./python", {"PATH": "/usr/bin"}, False),
        ("bash", {"PATH": "/usr/bin"}, False),
        ("", {"PATH": "/usr/bin"}, False),
    ],
)
def test_when_a_name_means_the_environments_program(node, name, environ, taken):
    program(node / "mine", "python", "mine")
    environ = {key: value.format(node=node) for key, value in environ.items()}
    folder, why = environment_folder(name, environ, str(node))
    assert bool(folder) == taken and why


def test_what_is_not_there_is_answered_with_what_is(node, node_python):
    done = run(node, node_python, "--", "pyhton")
    assert done.returncode == 127 and done.stderr.count("\n") == 1
    assert done.stderr.startswith(
        f"gpu-run: pyhton: command not found; {node}{ENVIRONMENT} has python, train-gan, torchrun"
    )
    assert "activate" not in done.stderr and "pip" not in done.stderr
    assert "there is no environment at " in not_found("x", "/nowhere")


def test_a_folder_that_is_closed_to_its_user_is_not_said_to_be_missing(monkeypatch):
    def closed(_folder):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.listdir", closed)
    assert "is closed to you: sudo gpu-doctor says how root opens it" in not_found("x", "/nowhere")
    assert not_found("/x/y", str(node)) == "/x/y: command not found"


def test_without_an_environment_nothing_changes(tmp_path):
    assert environment_folder("python", {"PATH": "/usr/bin"}, str(tmp_path)) == ("", "as it was given")
    assert sys.executable
