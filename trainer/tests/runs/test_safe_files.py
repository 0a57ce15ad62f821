"""The trainer writes into a folder that its whole group may write: nobody's link or file is written through."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from conftest import TINY

from gan_trainer.config import Config
from gan_trainer.runs.checkpoint import list_checkpoints, save_checkpoint
from gan_trainer.runs.folder import RunFolder, RunFolderError
from gan_trainer.runs.samples import save_png
from gan_trainer.safe_files import remove_leftovers, replace_text, replacing


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file elsewhere that the trainer may write and somebody else wants changed."""
    file = tmp_path / "elsewhere" / "victim"
    file.parent.mkdir()
    file.write_text("as it was")
    return file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def test_a_link_under_the_names_of_a_checkpoint_is_not_followed(folder: Path, victim: Path) -> None:
    for name in ("checkpoint-0000000001.tmp", "checkpoint-0000000001.pt"):
        (folder / name).symlink_to(victim)
    save_checkpoint(folder, 1, {"step": 1}, keep=2)
    assert victim.read_text() == "as it was"
    (newest,) = list_checkpoints(folder)
    assert not newest.is_symlink() and torch.load(newest, weights_only=True) == {"step": 1}


def test_the_name_of_a_new_file_is_another_each_time_and_never_taken_over(
    folder: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = []
    for _round in range(3):
        with replacing(folder / "file.pt"):
            names += [path.name for path in folder.glob("*.tmp")]
    assert len(set(names)) == 3
    monkeypatch.setattr("secrets.token_hex", lambda count: "0" * 2 * count)
    (folder / f"guessed.{'0' * 16}.tmp").symlink_to(victim)
    with pytest.raises(FileExistsError), replacing(folder / "guessed.pt") as file:
        file.write(b"overwritten")
    assert victim.read_text() == "as it was" and not (folder / "guessed.pt").exists()


def test_links_under_the_other_names_of_a_run(folder: Path, victim: Path) -> None:
    config = Config(**TINY, run_dir=str(folder))
    for name in ("config.yml", "stats.tmp", "memory.json"):
        (folder / name).symlink_to(victim)
    with RunFolder(folder, config) as run:
        run.begin(config, 0)
        run.log({"step": 1, "d_loss": 1.0, "g_loss": 1.0})
    assert victim.read_text() == "as it was"
    assert "image_size" in (folder / "config.yml").read_text()
    assert json.loads((folder / "stats.jsonl").read_text())["step"] == 1
    (folder / "stats.jsonl").unlink()
    (folder / "stats.jsonl").symlink_to(victim)
    with RunFolder(folder, config) as run, pytest.raises(OSError, match="symbolic link"):
        run.log({"step": 2, "d_loss": 1.0, "g_loss": 1.0})
    (folder / ".lock").unlink()
    (folder / ".lock").symlink_to(victim)
    with pytest.raises(RunFolderError, match="symbolic link"), RunFolder(folder, config):
        pass
    assert victim.read_text() == "as it was"


def test_what_a_killed_training_left_goes_with_the_next_one(folder: Path) -> None:
    (folder / "samples").mkdir()
    stems = ("checkpoint-0000000007", "stats", "config", "memory", "samples/step-0000000007")
    left = [folder / f"{stem}.{'a1' * 8}.tmp" for stem in stems]
    # Another training may be at work in a folder below this one.
    (folder / "other").mkdir()
    names = ("notes.tmp", "checkpoint-0000000007.mine.tmp", f"other/stats.{'a1' * 8}.tmp")
    kept = [folder / name for name in names]
    for path in (*left, *kept):
        path.write_text("half of it")
    with RunFolder(folder, Config(**TINY, run_dir=str(folder))):
        assert sorted(folder.rglob("*.tmp")) == sorted(kept)
    remove_leftovers(folder)


def test_after_an_error_all_is_as_before(folder: Path) -> None:
    replace_text(folder / "file.yml", "first")
    with pytest.raises(OSError, match="full"), replacing(folder / "file.yml") as file:
        file.write(b"half")
        raise OSError(28, "full")
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("file.yml", "first")]


def test_the_group_may_read_what_the_umask_lets_it(folder: Path) -> None:
    before = os.umask(0o007)
    try:
        replace_text(folder / "file.yml", "text")
    finally:
        os.umask(before)
    assert (folder / "file.yml").stat().st_mode & 0o777 == 0o660


def test_a_picture_is_one_whatever_its_file_is_called(folder: Path) -> None:
    with replacing(folder / "samples") as file:
        save_png(torch.zeros(3, 4, 4, dtype=torch.uint8), file)
    assert (folder / "samples").read_bytes().startswith(b"\x89PNG")
