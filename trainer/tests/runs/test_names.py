"""What people put into a run's folder is neither read nor removed, whatever it is called."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from conftest import TINY, kept_state

from gan_trainer import cli
from gan_trainer.config import Config, make_config
from gan_trainer.engine.train import train
from gan_trainer.inference.trained import load_trained
from gan_trainer.runs.checkpoint import CheckpointError, list_checkpoints, save_checkpoint
from gan_trainer.runs.folder import RunFolder

# None of them is a name that the trainer writes.
NAMES = (
    "checkpoint-good.pt",
    "checkpoint-0000000004-keep.pt",
    "checkpoint-0000000004 (copy).pt",
    "checkpoint-0000000004.pt.bak",
    "checkpoint-99.pt",
    "checkpoint-00000000099.pt",
    "checkpoint-000000009\u0669.pt",
    "checkpoint--000000099.pt",
    "checkpoint-0000000099.pt.pt",
    "checkpoint-0000000099.PT",
    "Checkpoint-0000000099.pt",
    "checkpoint-0000000099.pt\n",
)


def config_for(folder: Path, **changes: object) -> Config:
    base = {**TINY, "run_dir": str(folder), "device": "cpu", "steps": 4, "log_every": 1, "checkpoint_every": 2}
    return make_config({**base, "sample_every": 2, "keep_checkpoints": 2, **changes})


def everything(folder: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in names}


def steps_of(folder: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (folder / "stats.jsonl").read_text().splitlines()]


def test_copies_beside_the_checkpoints_stay_and_are_not_resumed(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    train(config_for(tmp_path))
    old = tmp_path / "checkpoint-0000000002.pt"
    for name in NAMES:
        shutil.copy(old, tmp_path / name)
    before = everything(tmp_path, NAMES)
    capsys.readouterr()
    train(config_for(tmp_path, steps=8))
    out = capsys.readouterr().out
    assert "resumes after step 4" in out
    assert f"{tmp_path}/checkpoint-good.pt is none of this trainer's checkpoints: neither read nor removed" in out
    assert everything(tmp_path, NAMES) == before
    assert steps_of(tmp_path) == list(range(1, 9))
    assert [path.name for path in list_checkpoints(tmp_path)] == [
        "checkpoint-0000000008.pt",
        "checkpoint-0000000006.pt",
    ]
    assert load_trained(tmp_path).step == 8


def test_a_folder_with_nothing_but_copies_begins_at_the_first_step(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    torch.save({"step": 9}, tmp_path / "checkpoint-best.pt")
    train(config_for(tmp_path), resume="never")
    assert "starts on cpu" in capsys.readouterr().out and kept_state(tmp_path)["step"] == 4
    assert torch.load(tmp_path / "checkpoint-best.pt", weights_only=True) == {"step": 9}


def test_folders_and_links_under_a_checkpoints_name(tmp_path: Path) -> None:
    train(config_for(tmp_path))
    (tmp_path / "checkpoint-0000000001.pt").mkdir()
    (tmp_path / "checkpoint-0000000009.pt").mkdir()
    (tmp_path / "checkpoint-0000000099.pt").symlink_to(tmp_path / "checkpoint-0000000002.pt")
    (tmp_path / "checkpoint-0000000098.pt").symlink_to("nowhere")
    train(config_for(tmp_path, steps=8))
    assert kept_state(tmp_path)["step"] == 8
    assert (tmp_path / "checkpoint-0000000001.pt").is_dir() and (tmp_path / "checkpoint-0000000009.pt").is_dir()
    assert (tmp_path / "checkpoint-0000000099.pt").is_symlink() and (tmp_path / "checkpoint-0000000098.pt").is_symlink()


def test_the_newest_is_the_highest_step_whatever_its_digits_and_date(tmp_path: Path) -> None:
    for step in (999_999, 1_000_000, 9_999_999_999, 10_000_000_000):
        save_checkpoint(tmp_path, step, {"step": step}, keep=2)
    (newest, older) = list_checkpoints(tmp_path)
    assert (newest.name, older.name) == ("checkpoint-10000000000.pt", "checkpoint-9999999999.pt")
    newest.touch()
    older.touch()
    assert kept_state(tmp_path)["step"] == 10_000_000_000


def test_a_copy_under_another_steps_name_is_passed_over_and_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    train(config_for(tmp_path))
    copied = tmp_path / "checkpoint-0000000099.pt"
    shutil.copy(tmp_path / "checkpoint-0000000002.pt", copied)
    content = copied.read_bytes()
    for steps in (8, 10):
        train(config_for(tmp_path, steps=steps))
        assert "its name is that of step 99, and it holds step 2" in capsys.readouterr().err
        assert [int(path.stem[-2:]) for path in list_checkpoints(tmp_path)] == [99, steps, steps - 2]
    assert copied.read_bytes() == content


def test_a_damaged_one_costs_no_whole_one(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Written half, or changed on the disk: the one before is taken, and as many whole ones are kept as ever."""
    train(config_for(tmp_path, steps=5))
    damaged = tmp_path / "checkpoint-0000000005.pt"
    content = damaged.read_bytes()[:-100]
    damaged.write_bytes(content)
    capsys.readouterr()
    train(config_for(tmp_path, steps=8, checkpoint_every=4))
    seen = capsys.readouterr()
    assert f"{damaged} cannot be read" in seen.err and "resumes after step 4" in seen.out
    assert damaged.read_bytes() == content
    assert [path.name[-4:] for path in list_checkpoints(tmp_path)] == ["8.pt", "5.pt", "4.pt"]


def test_a_damaged_one_that_is_written_anew_counts_again(tmp_path: Path) -> None:
    train(config_for(tmp_path))
    (tmp_path / "checkpoint-0000000004.pt").write_bytes(b"half")
    train(config_for(tmp_path, steps=8))
    assert [path.name[-4:] for path in list_checkpoints(tmp_path)] == ["8.pt", "6.pt"]


def test_only_what_a_run_replaces_is_a_leftover(tmp_path: Path) -> None:
    token = "a1" * 8
    (tmp_path / "samples").mkdir()
    names = (f"notes.{token}.tmp", f"checkpoint-good.{token}.tmp", f"samples/mine.{token}.tmp")
    for name in names:
        (tmp_path / name).write_text("mine")
    (tmp_path / f"stats.{token}.tmp").mkdir()
    (tmp_path / f"config.{token}.tmp").symlink_to("notes")
    (tmp_path / f"best.{token}.tmp").write_text("half")
    with RunFolder(tmp_path, config_for(tmp_path)):
        assert everything(tmp_path, names) == dict.fromkeys(names, b"mine")
        assert (tmp_path / f"stats.{token}.tmp").is_dir() and (tmp_path / f"config.{token}.tmp").is_symlink()
        assert not (tmp_path / f"best.{token}.tmp").exists()


def test_the_last_line_names_the_grid_of_the_highest_step(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "samples").mkdir()
    for name in ("zoo.png", "step-9.png", "step-0000000004-mine.png", "step-0000000099.png"):
        (tmp_path / "samples" / name).write_text("a picture")
    train(config_for(tmp_path))
    assert f"pictures {tmp_path}/samples/step-0000000004.png, " in capsys.readouterr().out


def test_a_best_one_of_somebody_else_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    train(config_for(tmp_path))
    shutil.copy(tmp_path / "checkpoint-0000000004.pt", tmp_path / "best.pt")
    content = (tmp_path / "best.pt").read_bytes()
    with pytest.raises(CheckpointError, match="best.pt: this trainer did not write it"):
        train(config_for(tmp_path, steps=6, distance_every=2, distance_images=8))
    assert (tmp_path / "best.pt").read_bytes() == content
    train(config_for(tmp_path, steps=6))
    assert (tmp_path / "best.pt").read_bytes() == content


def test_commands_draw_the_newest_of_the_trainers_own(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run = tmp_path / "run"
    train(config_for(run))
    shutil.copy(run / "checkpoint-0000000002.pt", run / "checkpoint-good.pt")
    (tmp_path / "c.yml").write_text(f"run_dir: {run}\n")
    capsys.readouterr()
    assert cli.main(["sample", "--config", str(tmp_path / "c.yml"), "--output", str(tmp_path / "grid.png")]) == 0
    assert "step 4" in capsys.readouterr().out
