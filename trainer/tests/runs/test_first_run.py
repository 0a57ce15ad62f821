"""What a newcomer sees of the first run: one line of what it does, where the pictures are, progress in time."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from conftest import TINY

from gan_trainer import cli
from gan_trainer.config import make_config
from gan_trainer.engine.loop import Trainer
from gan_trainer.engine.optimizers import make_adam
from gan_trainer.engine.train import look_at, plan_of
from gan_trainer.precision import Precision
from gan_trainer.runs import reporting
from gan_trainer.runs.reporting import Reporter
from gan_trainer.runs.samples import save_png

# The default configuration, as small as a test can wait for.
SMALL = ["image_size=32", "channels=4", "batch_size=4", "steps=2", "sample_count=4", "num_workers=0", "device=cpu"]


def test_a_first_run_on_a_folder_says_what_it_does_and_leaves_a_grid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "flowers").mkdir()
    for number in range(8):
        save_png(torch.full((3, 40, 40), 30 * number, dtype=torch.uint8), tmp_path / f"flowers/{number}.png")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["--config", "/dev/null", *["data=flowers", "run_dir=runs/flowers"], *SMALL]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (tmp_path / "runs/flowers/samples/step-0000000002.png").exists()
    (plan,) = (line for line in lines if "steps to 2 with 4 images each" in line)
    assert "gan dcgan, nonsaturating, 32 px" in plan and "pictures every 1000" in plan
    (pictures,) = (line for line in lines if line.startswith("train-gan: pictures: "))
    assert f"{tmp_path}/runs/flowers/samples/step-*.png; on your laptop: scp -r " in pictures


def test_the_line_for_the_laptop_is_quoted_for_a_shell(tmp_path: Path) -> None:
    assert look_at(tmp_path / "my run").endswith(f":'{tmp_path}/my run/samples' .")


def test_a_flow_is_named_without_what_it_has_not() -> None:
    assert plan_of(make_config({**TINY, "task": "flow"})).startswith("flow, 32 px")


def test_slow_steps_are_told_though_no_line_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    reporter = Reporter(tmp_path, make_config({**TINY, "steps": 100}), 0)
    for step in range(1, 7):
        now[0] += reporting.QUIET / 3 + 1
        reporter.advance(step)
    assert capsys.readouterr().out.splitlines() == ["step 3/100  1 h 06 min left", "step 6/100  1 h 04 min left"]


def test_weight_decay_is_adamw_and_a_resume_takes_the_present_one() -> None:
    network = torch.nn.Linear(1, 1)
    plain, decayed = (make_adam(network, 0.1, make_config({**TINY, "weight_decay": value})) for value in (0.0, 0.5))
    assert type(plain) is torch.optim.Adam and type(decayed) is torch.optim.AdamW
    before = network.weight.detach().clone()
    network.weight.grad = torch.zeros_like(network.weight)
    decayed.step()
    assert torch.allclose(network.weight, before * (1 - 0.1 * 0.5))
    from gan_trainer.engine.state import capture_state, restore_state

    first, second = (
        Trainer(make_config({**TINY, "weight_decay": value}), torch.device("cpu"), Precision("fp32", ""))
        for value in (0.0, 0.25)
    )
    first.step(torch.zeros(4, 3, 32, 32, dtype=torch.uint8))
    restore_state(second, capture_state(first))
    assert second.optimizers["generator"].param_groups[0]["weight_decay"] == 0.25
