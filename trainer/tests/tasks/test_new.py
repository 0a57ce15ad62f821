"""`train-gan new`: the package that it writes is built, installed without a network, trained, and its test passes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import PACKAGE, PATIENCE, TINY, kept_state

from gan_trainer import cli
from gan_trainer.config import make_config
from gan_trainer.engine.loop import Trainer
from gan_trainer.errors import UsageError
from gan_trainer.precision import Precision
from gan_trainer.tasks import Part, Phase, Task, make_task
from gan_trainer.tasks.flow import Flow
from gan_trainer.tasks.task import build_checked

Run = Callable[..., subprocess.CompletedProcess]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `squares`, and beside it `site`, into which the package is installed."""
    folder = tmp_path_factory.mktemp("new")
    assert cli.main(["new", str(folder / "squares")]) == 0
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--no-build-isolation", "--quiet"]
    done = subprocess.run(
        [*pip, "--target", str(folder / "site"), str(folder / "squares")],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return folder


def environment(package: Path) -> dict[str, str]:
    return {"PYTHONPATH": f"{PACKAGE}:{package / 'site'}"}


def test_it_trains_resumes_draws_and_exports(package: Path, run_trainer: Run) -> None:
    command = ("-m", "gan_trainer.cli")
    words = ["--config", str(package / "squares/config.yml"), f"run_dir={package / 'run'}", "device=cpu"]
    small = ["num_workers=1", "checkpoint_every=2", "tensorboard=false", "batch_size=8", "sample_count=4"]
    for steps in (2, 4):
        done = run_trainer(*command, *words, *small, f"steps={steps}", env=environment(package))
        assert done.returncode == 0, done.stderr
        assert "data: 2000 images from squares.data:make" in done.stdout
    assert "resumes after step 2" in done.stdout and "reconstruction" in done.stdout and "divergence" in done.stdout
    assert {"autoencoder", "autoencoder_optimizer", "average"} <= set(kept_state(package / "run"))
    for words_of in (["sample", "--output", str(package / "grid.png")], ["export", "--formats", "torchscript"]):
        done = run_trainer(*command, words_of[0], *words, *words_of[1:], env=environment(package))
        assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.parametrize("found", ["gpu-run", "train-gan", "nothing"])
def test_the_line_that_it_prints_trains(
    found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """On a node nobody may install into the environment, and its programs are not in PATH: gpu-run finds them."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, line in (("gpu-run", 'shift 2\nexec "$PYTHON"'), ("train-gan", 'exec "$PYTHON"')):
        if name == found:
            (programs / name).write_text(f'#!/bin/sh\n{line} -m gan_trainer.cli "$@"\n')
            (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("PYTHONPATH", str(PACKAGE))
    assert cli.main(["new", str(tmp_path / "a folder" / "squares")]) == 0
    line = capsys.readouterr().out.splitlines()[-1].strip()
    shown = {"gpu-run": " gpu-run -- train-gan ", "train-gan": " train-gan ", "nothing": " -m gan_trainer.cli "}
    assert shown[found] in line
    environ = {**os.environ, "PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    command = f"{line} steps=1 device=cpu batch_size=4 num_workers=0 tensorboard=false sample_count=1"
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0 and "done: step 1" in done.stdout, done.stderr


@pytest.mark.long
def test_its_own_test_passes(package: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=package / "squares",
        env={"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", **environment(package)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_installed_trainer_has_all_that_it_writes(tmp_path: Path, run_python: Run) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--no-build-isolation", "--quiet"]
    subprocess.run([*pip, "--target", str(tmp_path / "site"), str(PACKAGE)], check=True, timeout=PATIENCE)
    words = ("-m", "gan_trainer.cli", "new", str(tmp_path / "squares"))
    done = run_python(*words, env={"PYTHONPATH": str(tmp_path / "site")})
    assert done.returncode == 0, done.stderr
    written = {path.relative_to(tmp_path / "squares").as_posix() for path in (tmp_path / "squares").rglob("*.*")}
    assert written == {
        *("pyproject.toml", "config.yml", "tests/test_squares.py"),
        *("squares/__init__.py", "squares/task.py", "squares/data.py"),
    }


def test_a_folder_that_holds_something_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes").write_text("kept")
    assert cli.main(["new", str(tmp_path / "mine")]) == 2
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes"]


@pytest.mark.parametrize("name", ["Mine", "my-task", "1st", "class", "gan_trainer", "json", "torch", "mine task"])
def test_a_name_that_python_would_not_take_is_refused(tmp_path: Path, name: str, capsys: pytest.CaptureFixture) -> None:
    assert cli.main(["new", str(tmp_path / name)]) == 2
    assert "cannot be the package's name" in capsys.readouterr().err and not (tmp_path / name).exists()


class Broken(Task):
    """Fits together until a test changes something."""

    averaged = "net"
    size = 32

    def build(self) -> dict:
        return {"net": torch.nn.Sequential(torch.nn.Linear(8, 3 * self.size**2), torch.nn.Unflatten(1, (3, 32, 32)))}

    def phases(self) -> tuple:
        nothing: Any = lambda part: None  # noqa: E731
        return (Phase("net", nothing),)


class Unnamed(Broken):
    averaged = ""


class Untrained(Broken):
    def phases(self) -> tuple:
        return ()


class Taken(Broken):
    def build(self) -> dict:
        return {"average": torch.nn.Linear(1, 1)}


class Wide(Broken):
    def build(self) -> dict:
        return {"net": torch.nn.Linear(8, 5)}


class Listed(Broken):
    def build(self) -> Any:
        return [torch.nn.Linear(8, 5)]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Unnamed, "averaged is '', expected one of net"),
        (Untrained, "its networks are net; its phases train none"),
        (Taken, "no network can be called average"),
        (Wide, r"its sampler gives \(2, 5\), expected \(2, 3, 32, 32\)"),
        (Listed, "build\\(\\) gives list, expected networks by name"),
    ],
)
def test_a_task_that_does_not_fit_together_is_named(kind: type, words: str) -> None:
    config = make_config({**TINY, "task": "somebody.tasks:build"})
    assert set(build_checked(Broken(config))) == {"net"}
    with pytest.raises(UsageError, match=f"task: somebody.tasks:build: {words}"):
        build_checked(kind(config))


def test_a_loss_that_was_not_announced_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(self: Flow, part: Part) -> tuple:
        return (loss := self.networks["velocity"](part.batch["images"], part.batch["time"]).mean()), {"mse": loss}

    monkeypatch.setattr(Flow, "match", wrong)
    trainer = Trainer(make_config({**TINY, "task": "flow"}), torch.device("cpu"), Precision("fp32", ""))
    with pytest.raises(UsageError, match="task: flow: a loss shows 'mse'; its `shown` has loss"):
        trainer.step(torch.zeros(4, 3, 32, 32, dtype=torch.uint8))


def test_what_is_no_task_is_named() -> None:
    with pytest.raises(UsageError, match="task: builtins:repr: expected a gan_trainer.tasks.Task, found str"):
        make_task(make_config({**TINY, "task": "builtins:repr"}))


@pytest.mark.parametrize("options", [{"a": [1]}, {"a": None}, {1: "a"}, "a", [1]])
def test_options_are_plain_values(options: object) -> None:
    with pytest.raises(UsageError, match="options: .* is not keys with plain values"):
        make_config({"options": options})
