"""--check: what a training could not use is told with 2 before it begins, and nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from conftest import TINY

from gan_trainer import cli
from gan_trainer.config import as_yaml, make_config
from gan_trainer.engine.train import train


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    config = make_config({**TINY, "run_dir": str(tmp_path / "run"), "device": "cpu", "steps": 2})
    (tmp_path / "c.yml").write_text(as_yaml(config))
    return tmp_path / "c.yml"


def check(file: Path, *words: str) -> int:
    return cli.main(["--config", str(file), "--check", *words])


def test_settings_alone_say_what_to_train(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    words = [f"{key}={value}" for key, value in {**TINY, "run_dir": tmp_path / "run", "device": "cpu"}.items()]
    assert cli.main([*words, "--check"]) == 0
    assert "train-gan: data: synthetic" in capsys.readouterr().out
    assert cli.main(["--check"]) == cli.EXIT_USAGE
    assert "--config FILE, or settings such as data=FOLDER" in capsys.readouterr().err


def test_what_could_train_is_told_and_left_alone(file: Path, capsys: pytest.CaptureFixture) -> None:
    assert check(file) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("train-gan: data: synthetic") and not (file.parent / "run").exists()
    assert lines[-1].startswith("train-gan: checked: nothing stands in the way")


@pytest.mark.parametrize(
    ("words", "ranks", "message"),
    [
        (["data=/no/such/folder"], "", "data: '/no/such/folder' is not a folder"),
        (["task=json:loads"], "", "task: json:loads"),
        (["model=json:loads"], "", "model: json:loads"),
        (["precision=fp16", "device=auto"], "", "precision: fp16 needs a GPU"),
        (["auto_batch=true", "device=auto"], "", "auto_batch: true needs a GPU"),
        ([], "3", "batch_size: 4 cannot be cut into 3 processes x 1 accumulated parts; allowed: multiples of 3"),
    ],
)
def test_what_cannot_be_used_ends_with_2(
    file: Path,
    words: list[str],
    ranks: str,
    message: str,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GPU_JOB_RANKS", ranks)
    assert check(file, *words) == 2
    assert message in capsys.readouterr().err and not (file.parent / "run").exists()


def test_another_experiment_in_the_folder_ends_with_2(file: Path, capsys: pytest.CaptureFixture) -> None:
    train(make_config({**TINY, "run_dir": str(file.parent / "run"), "device": "cpu", "steps": 2}))
    assert check(file) == 0 and check(file, "loss=hinge") == 2
    assert "holds another experiment" in capsys.readouterr().err
    assert check(file, "loss=hinge", "--resume", "changed") == 0
