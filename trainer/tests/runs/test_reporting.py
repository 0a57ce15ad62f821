"""What a training shows while it runs: progress, TensorBoard, grids of samples, a profile."""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import struct
import termios
from pathlib import Path

import pytest
import torch
from conftest import TINY
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from gan_trainer.config import Config, make_config
from gan_trainer.engine.memory import MemoryReport
from gan_trainer.engine.train import train
from gan_trainer.models.networks import build
from gan_trainer.runs.folder import RunFolder
from gan_trainer.runs.reporting import Reporter
from gan_trainer.runs.samples import generate, make_grid, save_png, to_uint8


def config_for(folder: Path, **changes: object) -> Config:
    base = {**TINY, "run_dir": str(folder), "device": "cpu", "steps": 6, "log_every": 2, "checkpoint_every": 3}
    return make_config({**base, "sample_every": 3, "tensorboard": True, **changes})


def test_run_writes_tensorboard_samples_and_memory(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    train(config_for(tmp_path))
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    names = {"d_loss", "g_loss", "penalty", "loss_scale", "lr_generator", "lr_discriminator", "images_per_s"}
    assert names | {"data_wait", "updates_left_out"} == set(events.Tags()["scalars"])
    lines = [json.loads(line) for line in (tmp_path / "stats.jsonl").read_text().splitlines()]
    assert [(event.step, event.value) for event in events.Scalars("d_loss")] == [
        (line["step"], pytest.approx(line["d_loss"])) for line in lines
    ]
    assert [image.step for image in events.Images("samples")] == [3, 6]
    grids = sorted((tmp_path / "samples").iterdir())
    assert [path.name for path in grids] == ["step-0000000003.png", "step-0000000006.png"]
    with Image.open(grids[0]) as first, Image.open(grids[1]) as second:
        assert first.size == (64, 64) and first.tobytes() != second.tobytes()
    memory = json.loads((tmp_path / "memory.json").read_text())
    assert list(memory) == ["networks", "discriminator", "generator", "update"]
    out = capsys.readouterr().out
    assert "step 6/6  d_loss" in out
    head, first, *_rest = out[out.index("phase ") :].splitlines()
    assert re.split(" {2,}", head) == ["phase", "allocated MiB", "peak MiB", "of the memory"]
    assert re.split(" {2,}", first)[0] == "networks" and len(first) == len(head) and first.endswith("%")


def test_the_table_of_a_card_has_units_and_what_is_reserved() -> None:
    report = MemoryReport(torch.device("cpu"))
    report.note("networks")
    report.device = torch.device("cuda")
    report.phases["networks"].update(allocated_mib=16, reserved_mib=20, peak_mib=18, fraction=0.5)
    head, line = report.table().splitlines()
    assert re.split(" {2,}", head) == ["phase", "allocated MiB", "reserved MiB", "peak MiB", "of the card"]
    assert line.split() == ["networks", "16", "20", "18", "50.0%"]


def test_resumed_run_hides_what_the_lost_stretch_wrote(tmp_path: Path) -> None:
    train(config_for(tmp_path))
    (tmp_path / "checkpoint-0000000006.pt").unlink()
    train(config_for(tmp_path))
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("d_loss")] == [2, 4, 6]


def test_progress_bar_shows_rate_and_time_left(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    train(config_for(tmp_path, progress="on", tensorboard=False))
    error = capsys.readouterr().err
    assert "6/6" in error and "step/s" in error and "d_loss" in error and "<00:00" in error


@pytest.mark.parametrize(
    ("rows", "columns", "bar"), [(0, 0, False), (0, 80, False), (24, 0, False), (24, 20, False), (24, 80, True)]
)
def test_a_terminal_that_does_not_know_its_size_gets_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, rows: int, columns: int, bar: bool
) -> None:
    """Such as that of expect, of a CI system or of `docker exec -t`: a bar of its size is empty."""
    keeper, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    os.set_blocking(keeper, False)
    with os.fdopen(keeper, "rb", 0) as seen, os.fdopen(terminal, "w") as screen:
        monkeypatch.setattr("sys.stderr", screen)
        train(config_for(tmp_path, tensorboard=False))
        shown = b"".join(iter(seen.read, None)).decode()
    lines = capsys.readouterr().out
    assert ("6/6" in shown) is bar and ("step 6/6  d_loss" in lines) is not bar
    assert "done: step 6" in lines


def test_a_bar_that_was_asked_for_is_seen_without_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    train(config_for(tmp_path, progress="on", tensorboard=False))
    bars = capsys.readouterr().err.split("\r")
    assert any("6/6" in bar for bar in bars) and max(map(len, bars)) <= 81


def test_missing_tensorboard_is_told_and_does_not_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch.utils.tensorboard", None)
    reporter = Reporter(tmp_path, config_for(tmp_path), 0)
    assert reporter.board is None and "no TensorBoard events: " in capsys.readouterr().out
    reporter.close()


def test_profile_writes_trace_and_costliest_operators(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    train(config_for(tmp_path, steps=14), profile=True)
    trace = json.loads((tmp_path / "profile" / "trace.json").read_text())
    assert any("conv" in event.get("name", "") for event in trace["traceEvents"])
    table = (tmp_path / "profile" / "operators.txt").read_text()
    assert "aten::" in table and "Self CPU" in table and table in capsys.readouterr().out
    rows = [line for line in table.splitlines() if "%" in line and "Self CPU %" not in line]
    assert len(rows) == 10


def test_grid_places_images_in_reading_order(tmp_path: Path) -> None:
    images = torch.arange(1, 6, dtype=torch.uint8).reshape(5, 1, 1, 1).expand(5, 3, 2, 2)
    grid = make_grid(images)
    assert grid.shape == (3, 4, 6)
    assert grid[0, ::2, ::2].tolist() == [[1, 2, 3], [4, 5, 0]]
    save_png(grid, tmp_path / "grid.png")
    with Image.open(tmp_path / "grid.png") as file:
        assert file.size == (6, 4) and file.getpixel((2, 2)) == (5, 5, 5)


def test_samples_are_a_function_of_weights_and_seed() -> None:
    generator = build(make_config({**TINY, "model": "residual"})).generator.eval()
    one, again = generate(generator, 5, 8, seed=1, batch=2), generate(generator, 5, 8, seed=1)
    assert one.dtype == torch.uint8 and one.shape == (5, 3, 32, 32)
    # The size of the parts may change sums in their last bit, and so a colour by one.
    assert (one.int() - again.int()).abs().max() <= 1
    assert not torch.equal(one, generate(generator, 5, 8, seed=2))


def test_colours_are_rounded_and_cut() -> None:
    assert to_uint8(torch.tensor([-1.5, -1.0, 0.0, 1.0, 1.5])).tolist() == [0, 0, 128, 255, 255]


@pytest.mark.parametrize(
    ("count", "classes", "columns"),
    [(64, 0, 8), (64, 1, 8), (64, 3, 9), (64, 10, 10), (64, 4, 8), (8, 2, 4), (64, 20, 20), (16, 10, 4), (4, 2, 2)],
)
def test_a_column_of_a_grid_has_one_class(count: int, classes: int, columns: int) -> None:
    images = torch.zeros(count, 3, 2, 2, dtype=torch.uint8)
    if classes:
        images += (torch.arange(count) % classes + 1).to(torch.uint8)[:, None, None, None]
    grid = make_grid(images, classes)
    assert grid.shape[2] == 2 * columns and grid.shape[1] * grid.shape[2] >= 4 * count
    if 1 < classes <= count // 2:
        for column in grid[0, ::2, ::2].T:
            assert len(set(column[column > 0].tolist())) == 1


def test_numbers_that_are_none_are_null_in_the_statistics(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """NaN and Infinity are no JSON: other readers stop at such a line."""
    config = make_config({"run_dir": str(tmp_path), "tensorboard": False})
    line = {"step": 50, "d_loss": math.nan, "g_loss": -math.inf, "penalty": 0.5, "peak_memory_mib": None}
    (tmp_path / "stats.jsonl").write_text('{"step": 40, "d_loss": NaN, "images_per_s": 1.0}\n')
    with RunFolder(tmp_path, config) as run:
        run.begin(config, 49)
        Reporter(tmp_path, config, 49).statistics(run.log(line))

    def refused(constant: str) -> None:
        raise AssertionError(constant)

    lines = [json.loads(text, parse_constant=refused) for text in (tmp_path / "stats.jsonl").read_text().splitlines()]
    assert [(line["step"], line["d_loss"]) for line in lines] == [(40, None), (50, None)]
    assert lines[1]["g_loss"] is None and lines[1]["penalty"] == 0.5
    assert "d_loss nan  g_loss nan" in capsys.readouterr().out
