"""What a resumed run compares with its checkpoint: keys where they have an effect, and what the data contain."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import TINY, kept_state

from gan_trainer import cli
from gan_trainer.config import Config, make_config
from gan_trainer.data import census
from gan_trainer.runs import drift
from gan_trainer.runs.drift import DriftError, check_drift, data_differences
from gan_trainer.runs.samples import save_png

COSINE = {"lr_schedule": "cosine", "steps": 10}
FLOW = {"task": "flow"}
TAR = {"data": "a/{0..3}.tar"}


def outcome(before: dict[str, Any], now: dict[str, Any]) -> str:
    """refused, named or nothing."""
    saved = asdict(make_config({**TINY, **before}))
    try:
        told = check_drift(saved, make_config({**TINY, **now}), allowed=False)
    except DriftError as error:
        changed = check_drift(saved, make_config({**TINY, **now}), allowed=True)
        assert "--resume changed" in str(error) and changed
        return "refused"
    return "named" if told else "nothing"


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({"steps": 10}, {"steps": 20}, "nothing"),
        (COSINE, {**COSINE, "steps": 20}, "refused"),
        (COSINE, {**COSINE, "steps": 5}, "refused"),
        (COSINE, {"steps": 20}, "refused"),
        (COSINE, {**COSINE, "lr_floor": 0.5}, "refused"),
        ({"lr_floor": 0.1}, {"lr_floor": 0.5}, "nothing"),
        (TAR, {**TAR, "num_workers": 3}, "named"),
        ({"num_workers": 1}, {"num_workers": 3}, "nothing"),
        ({}, {"penalty_every": 4}, "nothing"),
        ({"r2_gamma": 1.0}, {"r2_gamma": 1.0, "penalty_every": 4}, "refused"),
        ({}, {"augment_target": 0.1}, "nothing"),
        ({"augment": "diff"}, {"augment": "diff", "augment_images": 9}, "nothing"),
        ({"augment": "ada"}, {"augment": "ada", "augment_target": 0.1}, "refused"),
        ({}, {"background": "black"}, "nothing"),
        (TAR, {**TAR, "background": "black"}, "refused"),
        (TAR, {**TAR, "synthetic_images": 77}, "nothing"),
        ({}, {"synthetic_images": 77}, "refused"),
        ({}, {"burn_in_beta2": 0.5}, "nothing"),
        ({"burn_in_steps": 9}, {"burn_in_steps": 9, "burn_in_beta2": 0.5}, "named"),
        (FLOW, {**FLOW, "latent_dim": 9}, "nothing"),
        ({}, {"max_bad_steps": 3}, "nothing"),
        ({"on_nonfinite": "skip"}, {"on_nonfinite": "skip", "max_bad_steps": 3}, "named"),
        ({}, {"lr_generator": 1e-5}, "named"),
        ({}, {"seed": 3}, "refused"),
        ({}, {"log_every": 3}, "nothing"),
    ],
)
def test_a_key_counts_where_it_has_an_effect(before: dict, now: dict, expected: str) -> None:
    assert outcome(before, now) == expected


def test_every_group_has_keys_of_the_configuration() -> None:
    keys = set(Config.__dataclass_fields__)
    groups = (drift.SHAPE_KEYS, drift.EXPERIMENT_KEYS, drift.FREE_KEYS)
    assert all(keys.issuperset(group) for group in (*groups, drift.HAS_EFFECT, drift.WHY))
    assert len(set().union(*groups)) == sum(map(len, groups))


CLASSES = {"images": 5, "files": "a", "classes": {"cat": 2, "dog": 3}}


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (CLASSES, []),
        ({**CLASSES, "files": "b"}, ["not the same ones"]),
        (
            {**CLASSES, "images": 4, "files": "b", "classes": {"cat": 2, "dog": 2}},
            ["'dog' had 3", "5 images and have 4"],
        ),
        (
            {**CLASSES, "files": "b", "classes": {"ape": 3, "cat": 2}},
            ["0 was 'cat' and is 'ape'", "1 was 'dog' and is 'cat'"],
        ),
        ({**CLASSES, "files": "b", "classes": {"cat": 2, "hound": 3}}, ["class 1 was 'dog' and is 'hound'"]),
        ({"images": 5}, ["not the same ones"]),
    ],
)
def test_differences_of_the_data_are_named(now: dict, expected: list[str]) -> None:
    found = data_differences(CLASSES, now)
    assert len(found) == len(expected) and all(part in line for part, line in zip(expected, found, strict=True))


def test_many_differences_are_counted() -> None:
    before = {"images": 9, "files": "a", "classes": {f"a{number}": 1 for number in range(9)}}
    now = {"images": 9, "files": "b", "classes": {f"b{number}": 1 for number in range(9)}}
    assert data_differences(before, now)[3:] == ["6 more differences of the data"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("cat", "dog"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(4):
            save_png(
                torch.full((3, 32, 32), 9 * number, dtype=torch.uint8), tmp_path / "images" / name / f"{number}.png"
            )
    return tmp_path / "images"


def train(folder: Path, *words: str) -> int:
    config = folder.parent / "c.yml"
    lines = {**TINY, "data": str(folder), "run_dir": str(folder.parent / "run"), "device": "cpu", "steps": 1}
    config.write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
    return cli.main(["--config", str(config), *words])


def test_a_run_notices_a_renamed_class_at_its_resume(folder: Path, capsys: pytest.CaptureFixture) -> None:
    assert train(folder, "classes=2") == 0
    (folder / "cat").rename(folder / "zebra")
    for words in (["--check"], []):
        assert train(folder, "classes=2", "steps=2", *words) == 2
        assert "class 0 was 'cat' and is 'dog'; class 1 was 'dog' and is 'zebra'" in capsys.readouterr().err
    assert train(folder, "classes=2", "steps=2", "--resume", "changed") == 0
    assert "class 0 was 'cat' and is 'dog'" in capsys.readouterr().out
    # Now these are the data of the run.
    assert train(folder, "classes=2", "steps=3") == 0


def test_a_run_notices_images_that_are_gone_and_not_that_the_folder_has_moved(
    folder: Path, capsys: pytest.CaptureFixture
) -> None:
    assert train(folder) == 0
    moved = folder.rename(folder.parent / "pictures")
    assert train(moved, "steps=2") == 0
    assert "continues with data" in capsys.readouterr().out
    (moved / "cat/0.png").unlink()
    assert train(moved, "steps=3") == 2
    assert "the data had 8 images and have 7" in capsys.readouterr().err
    shutil.copy(moved / "cat/1.png", moved / "cat/9.png")
    assert train(moved, "steps=3") == 2
    assert "as many files as before, and not the same ones" in capsys.readouterr().err


def test_a_run_that_was_begun_before_goes_on(folder: Path) -> None:
    assert train(folder) == 0
    file = next((folder.parent / "run").glob("checkpoint-*.pt"))
    state = kept_state(folder.parent / "run")
    assert state.pop("census") == census.take(make_config({**TINY, "data": str(folder)})).content
    torch.save(state, file)
    (folder / "cat/0.png").unlink()
    assert train(folder, "steps=2") == 0


def test_an_extended_cosine_says_what_happens_to_the_rate(folder: Path, capsys: pytest.CaptureFixture) -> None:
    assert train(folder, "lr_schedule=cosine", "steps=3") == 0
    assert train(folder, "lr_schedule=cosine", "steps=300") == 2
    assert "steps was 3 and is 300, where the cosine" in capsys.readouterr().err
    assert train(folder, "lr_schedule=cosine", "steps=6", "--resume", "changed") == 0
    said = capsys.readouterr().out
    assert "continues with steps 3 -> 6" in said and "times that of the run so far" in said


def test_a_key_that_a_checkpoint_does_not_know_had_the_default_of_its_time() -> None:
    """The first releases had no ramp of the average: it reached back over all steps."""
    saved = {key: value for key, value in asdict(make_config(TINY)).items() if key != "ema_rampup"}
    assert drift.saved_config(saved).ema_rampup == 0.0
    assert drift.as_begun(saved, make_config(TINY)).ema_rampup == 0.0
    assert drift.as_begun(saved, make_config({**TINY, "ema_rampup": 0.2})).ema_rampup == 0.2
