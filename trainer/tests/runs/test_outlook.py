"""On a CPU: how long a run will take, said once, and settings that show pictures within minutes."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import PACKAGE, TINY

from gan_trainer import cli
from gan_trainer.config import make_config
from gan_trainer.engine import train
from gan_trainer.engine.loop import Trainer
from gan_trainer.runs.outlook import QUICK, Outlook, quick_settings

DAYS = "on this CPU, the 99996 steps to come take about 3 d 11 h; to see pictures within minutes: "


@pytest.fixture
def slow_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step takes 3 s of the clock, and the first one a minute."""
    now = [1000.0]
    step = Trainer.step

    def slow(self: Trainer, *batch: object) -> None:
        step(self, *batch)  # type: ignore[arg-type]
        now[0] += 60.0 if self.steps_done == 1 else 3.0
        if self.steps_done == 6:
            raise train.TrainingError("enough")

    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr(Trainer, "step", slow)


def test_a_run_on_a_cpu_says_once_how_long_it_takes(
    tmp_path: Path, slow_steps: None, capsys: pytest.CaptureFixture
) -> None:
    words = [f"{key}={value}" for key, value in TINY.items()]
    # As the defaults have it, but for what a test can wait for.
    assert cli.main([*words, "image_size=64", f"run_dir={tmp_path}/a", "device=cpu"]) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if "on this CPU" in line]
    assert lines == [
        f"train-gan: {DAYS.replace('99996', '99995')}run_dir={tmp_path}/a-quick "
        "image_size=32 steps=600 sample_every=100"
    ]


def test_the_settings_are_a_configuration_and_name_only_what_is_larger() -> None:
    assert quick_settings(make_config({"run_dir": "runs/my flowers/"})) == (
        "'run_dir=runs/my flowers-quick' image_size=32 channels=16 batch_size=16 steps=600 sample_every=100"
    )
    make_config(QUICK)
    assert quick_settings(make_config(QUICK)) == ""
    # With these, 600 steps would be refused.
    assert quick_settings(make_config({"warmup_steps": 1000})) == ""
    # The burn-in would not come to its end.
    assert quick_settings(make_config({"burn_in_steps": 700})) == ""


@pytest.mark.parametrize(
    ("steps", "seconds", "told"), [(100, 3.0, False), (100_000, 3.0, True), (100_000, 1e-3, False)]
)
def test_nothing_is_said_of_what_ends_soon(
    monkeypatch: pytest.MonkeyPatch, steps: int, seconds: float, told: bool
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    outlook, lines = Outlook(make_config({"steps": steps})), []
    for step in range(1, 50):
        lines.append(outlook.after(step))
        now[0] += seconds
    assert any(lines) is told and sum(map(bool, lines)) <= 1


def test_readme_names_the_same_settings() -> None:
    words = " ".join(f"{key}={value}" for key, value in QUICK.items())
    assert words in " ".join((PACKAGE.parent / "README.md").read_text(encoding="utf-8").split())
