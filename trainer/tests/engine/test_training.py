"""Runs of the training: what they leave behind, how they go on, and how they fail."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import forked
import pytest
import torch
from conftest import PATIENCE, TINY, kept_state, trainer_environment

from gan_trainer import cli
from gan_trainer.config import Config, load_config, make_config
from gan_trainer.engine import loop
from gan_trainer.engine.reaction import react
from gan_trainer.engine.stability import TrainingError
from gan_trainer.engine.state import restore_state
from gan_trainer.engine.train import train
from gan_trainer.precision import Precision
from gan_trainer.runs.checkpoint import CheckpointError, list_checkpoints, load_checkpoint, save_checkpoint
from gan_trainer.runs.folder import RunFolder, RunFolderError
from gan_trainer.smoke.run import Target, measure
from gan_trainer.tasks import gan

Run = Callable[..., subprocess.CompletedProcess]
NEEDS_CPU_SCALER = pytest.mark.skipif(
    not hasattr(torch.amp, "GradScaler"), reason="before torch 2.3 a loss scaler works on GPUs only"
)
LOSSES = ("step", "d_loss", "g_loss")


def config_for(folder: Path, **changes: object) -> Config:
    base = {**TINY, "run_dir": str(folder), "device": "cpu", "steps": 6, "log_every": 2, "checkpoint_every": 3}
    return make_config({**base, **changes})


def statistics(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "stats.jsonl").read_text().splitlines()]


def losses(folder: Path) -> list[list]:
    return [[line[key] for key in LOSSES] for line in statistics(folder)]


def assert_same(first: Any, second: Any, where: str = "state") -> None:
    """Equal to the last bit."""
    assert type(first) is type(second), where
    if isinstance(first, torch.Tensor):
        assert torch.equal(first, second), where
    elif isinstance(first, dict):
        assert first.keys() == second.keys(), where
        for key in first:
            assert_same(first[key], second[key], f"{where}.{key}")
    elif isinstance(first, (list, tuple)):
        assert len(first) == len(second), where
        for index, value in enumerate(first):
            assert_same(value, second[index], f"{where}[{index}]")
    else:
        assert first == second, where


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run of 6 steps."""
    folder = tmp_path_factory.mktemp("straight")
    train(config_for(folder))
    return folder


def test_run_leaves_configuration_statistics_and_checkpoints(straight: Path) -> None:
    # As the run was begun: what -1 stands for does not change with a release.
    assert load_config(straight / "config.yml") == replace(config_for(straight), ema_rampup=0.05)
    lines = statistics(straight)
    assert [line["step"] for line in lines] == [2, 4, 6]
    names = {"step", "d_loss", "g_loss", "penalty", "lr_generator", "lr_discriminator", "loss_scale", "time"}
    assert set(lines[0]) == {*names, "updates_left_out", "peak_memory_mib", "images_per_s", "data_wait"}
    assert [path.name for path in list_checkpoints(straight)] == [
        "checkpoint-0000000006.pt",
        "checkpoint-0000000003.pt",
    ]
    assert not list(straight.glob("*.tmp"))


@pytest.mark.parametrize("stop", [1, 3, 5])
def test_resumed_run_equals_the_straight_one(straight: Path, tmp_path: Path, stop: int) -> None:
    train(config_for(tmp_path, steps=stop))
    train(config_for(tmp_path))
    first, second = kept_state(straight), kept_state(tmp_path)
    for state in (first, second):
        state["config"].pop("run_dir")
        # The run that ended early has logged once more, so its sums since the last line are shorter.
        state.pop("watch"), state.pop("steps_at_restart")
    assert_same(first, second)
    assert losses(tmp_path)[-1][0] == 6


def test_resume_between_two_lines_of_statistics_loses_no_step(straight: Path, tmp_path: Path) -> None:
    """The checkpoint of step 3 lies between the lines of steps 2 and 4; what was written after it is dropped."""
    train(config_for(tmp_path))
    list_checkpoints(tmp_path)[0].unlink()
    with (tmp_path / "stats.jsonl").open("a") as file:
        file.write('{"step": 99, "cut o')
    train(config_for(tmp_path))
    assert losses(tmp_path) == losses(straight)


def test_data_workers_change_nothing(straight: Path, tmp_path: Path) -> None:
    train(config_for(tmp_path, num_workers=2))
    assert losses(tmp_path) == losses(straight)


def test_finished_run_does_nothing_more(straight: Path, capsys: pytest.CaptureFixture) -> None:
    before = {path: path.stat().st_mtime_ns for path in straight.glob("checkpoint-*")}
    for steps in (6, 4):
        train(config_for(straight, steps=steps))
        told = capsys.readouterr().out
        assert f"already holds step 6 of {steps}; a larger steps= goes on, and `train-gan sample run_dir=" in told
    assert before == {path: path.stat().st_mtime_ns for path in straight.glob("checkpoint-*")}


def test_resume_takes_the_new_learning_rate_and_refuses_another_network(tmp_path: Path) -> None:
    train(config_for(tmp_path, steps=1))
    trainer = loop.Trainer(config_for(tmp_path, lr_generator=0.125), torch.device("cpu"), Precision("fp32", ""))
    restore_state(trainer, kept_state(tmp_path))
    trainer.step(torch.zeros(4, 3, 32, 32, dtype=torch.uint8))
    # A batch of 4 is an eighth of the one for which rates are given.
    assert trainer.optimizers["generator"].param_groups[0]["lr"] == 0.125 / 8
    with pytest.raises(CheckpointError, match="channels: the checkpoint was made with 4, the configuration says 8"):
        train(config_for(tmp_path, channels=8))


def test_resume_never_refuses_a_used_folder(straight: Path) -> None:
    with pytest.raises(CheckpointError, match="holds checkpoints; choose a new folder"):
        train(config_for(straight), resume="never")


def test_averaged_generator_is_trained_and_saved(straight: Path) -> None:
    state = kept_state(straight)
    name = "stages.0.0.weight"
    assert not torch.equal(state["average"][name], state["generator"][name])
    fresh = loop.Trainer(config_for(straight), torch.device("cpu"), Precision("fp32", ""))
    start = fresh.networks["generator"].state_dict()
    assert not torch.equal(state["average"][name], start[name])


@pytest.mark.parametrize("bad_step", [1, 3, 4])
@pytest.mark.parametrize("which", ["discriminator_loss", "generator_loss"])
def test_loss_that_is_no_number_stops_the_run_and_spares_the_checkpoint(
    which: str, bad_step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a line every 50 steps nobody looks at steps 1, 3 and 4, and yet they are seen."""
    real, calls = getattr(gan, which), []

    def broken(*arguments: object) -> torch.Tensor:
        calls.append(1)
        return real(*arguments) * (float("nan") if len(calls) == bad_step else 1.0)

    monkeypatch.setattr(gan, which, broken)
    with pytest.raises(TrainingError) as caught:
        train(config_for(tmp_path, log_every=50, checkpoint_every=2))
    noticed = bad_step + bad_step % 2
    assert f"first in step {bad_step}, noticed in step {noticed}, fp32" in str(caught.value)
    # The update was left out, so the networks are as sound as before.
    assert "parameters not finite: none" in str(caught.value) and "Lower lr_discriminator" in str(caught.value)
    assert all(int(path.stem[-10:]) < bad_step for path in list_checkpoints(tmp_path))
    for network in ("generator", "discriminator"):
        state = load_checkpoint(tmp_path)
        assert state is None or all(torch.isfinite(tensor).all() for tensor in state[network].values())


@NEEDS_CPU_SCALER
def test_collapsed_loss_scale_is_a_diagnosis(tmp_path: Path) -> None:
    trainer = loop.Trainer(config_for(tmp_path), torch.device("cpu"), Precision("fp32", ""))
    trainer.scaler = torch.amp.GradScaler("cpu", init_scale=0.5)
    with pytest.raises(TrainingError, match="loss scale fell to 0.5 by step 0"):
        react(trainer)


def scaled(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> tuple[dict, list[str]]:
    """A smoke training whose GradScaler works on the CPU, as it would in float16 on a GPU."""
    monkeypatch.setattr(loop, "make_scaler", lambda precision: torch.amp.GradScaler("cpu", **settings))
    target = Target("cpu", "CPU", None, make_config({**TINY, "lr_discriminator": 1e-3, "lr_generator": 1e-5}))
    record, problems = measure(target, Precision("fp32", ""), 10)
    return record, problems


@NEEDS_CPU_SCALER
def test_skipped_steps_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    record, problems = scaled(monkeypatch, init_scale=3e38, backoff_factor=2.0**-60)
    assert (record["steps_skipped"], record["steps_applied"], problems) == (1, 9, [])


@NEEDS_CPU_SCALER
def test_training_whose_every_step_is_skipped_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    record, problems = scaled(monkeypatch, init_scale=3.4e38, backoff_factor=0.9999)
    assert (record["steps_applied"], record["parameters_changed"]) == (0, False)
    assert problems[0] == "no step was applied: the loss scaler skipped all 10"
    assert "some parameters did not change" in problems


def test_damaged_checkpoint_falls_back_to_the_one_before(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    for step in (1, 2, 3):
        save_checkpoint(tmp_path, step, {"step": step, "data": torch.arange(1000)}, keep=2)
    newest, older = list_checkpoints(tmp_path)
    content = newest.read_bytes()
    for damaged in (content[: len(content) // 2], b"", b"\x80\x02not a pickle", content[:-1]):
        newest.write_bytes(damaged)
        assert kept_state(tmp_path)["step"] == 2
        assert f"{newest} cannot be read" in capsys.readouterr().err
    older.write_bytes(b"")
    with pytest.raises(CheckpointError, match="no checkpoint of 2 can be read; move them away"):
        load_checkpoint(tmp_path)


class Payload:
    """Unpickling this would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple:
        return os.mkdir, (self.path,)


def test_checkpoint_cannot_run_code(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 1, {"step": 1, "payload": Payload(tmp_path / "made")}, keep=2)
    with pytest.raises(CheckpointError):
        load_checkpoint(tmp_path)
    assert not (tmp_path / "made").exists()


def test_full_disk_spares_the_older_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint(tmp_path, 1, {"step": 1}, keep=2)

    def full(state: object, file: IO[bytes]) -> None:
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(CheckpointError, match="No space left on device.*checkpoint-0000000001.pt is complete"):
        save_checkpoint(tmp_path, 2, {"step": 2}, keep=2)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-0000000001.pt"]


def test_bytes_reach_the_disk_before_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What power loss would show: file synced, renamed, then the folder synced."""
    events = []
    fsync, replace = os.fsync, Path.replace

    def noted_fsync(handle: int) -> None:
        events.append(str(Path(f"/proc/self/fd/{handle}").resolve()))
        fsync(handle)

    def noted_replace(self: Path, target: Path) -> Path:
        events.append("replace")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    save_checkpoint(tmp_path, 1, {"step": 1}, keep=2)
    assert events[1:] == ["replace", str(tmp_path)]
    assert re.fullmatch(r"checkpoint-0000000001\.[0-9a-f]{16}\.tmp", Path(events[0]).name)


def test_second_run_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    config = config_for(tmp_path)
    with RunFolder(tmp_path, config), pytest.raises(RunFolderError, match="is in use by another training run"):
        train(config)


def test_run_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="cannot be written: Not a directory"):
        train(config_for(tmp_path / "file" / "run"))


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        (["device=cuda"], 1, "device: cuda was requested"),
        (["data=/no/such/folder"], 2, "data: '/no/such/folder' is not a folder"),
        (["device=auto", "precision=fp16"], 2, "precision: fp16 needs a GPU"),
        (
            ["data=BROKEN", "num_workers=1", "max_bad_images=0", "batch_size=1"],
            2,
            "data: 1 unreadable images, the last",
        ),
    ],
)
def test_failures_end_with_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    changes: list,
    code: int,
    message: str,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.png").write_bytes(b"no image")
    file = tmp_path / "config.yml"
    file.write_text(f"run_dir: {tmp_path / 'run'}\nnum_workers: 0\nchannels: 4\nimage_size: 32\n")
    words = [word.replace("BROKEN", str(tmp_path / "broken")) for word in changes]
    assert cli.main(["--config", str(file), *words]) == code
    own = [line for line in capsys.readouterr().err.splitlines() if line.startswith("train-gan: ")]
    assert len(own) == 1 and message in own[0]


def test_stop_signal_to_the_whole_group_saves_and_ends_well(tmp_path: Path) -> None:
    """As systemd and Slurm send it: to the trainer and its data workers at once."""
    file = tmp_path / "config.yml"
    tiny = "".join(f"{key}: {value}\n" for key, value in {**TINY, "num_workers": 2, "log_every": 10}.items())
    file.write_text(f"{tiny}run_dir: {tmp_path / 'run'}\nsteps: 1000000\ncheckpoint_every: 1000000\n")
    command = [sys.executable, "-m", "gan_trainer.cli", "--config", str(file)]
    options: dict[str, Any] = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "start_new_session": True,
    }
    with subprocess.Popen(command, env=trainer_environment(), **options) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("step 20/"):
                break
        os.killpg(process.pid, signal.SIGTERM)
        errors = process.communicate(timeout=PATIENCE)[1]
    assert (process.returncode, errors) == (0, "")
    assert kept_state(tmp_path / "run")["step"] >= 20


@pytest.mark.parametrize("way", ["terminal", "terminal and bar", "pipe"])
def test_a_lost_connection_saves_and_ends(tmp_path: Path, way: str) -> None:
    """As ssh with and without a terminal leaves a program whose other end is gone."""
    file = tmp_path / "config.yml"
    tiny = "".join(f"{key}: {value}\n" for key, value in {**TINY, "num_workers": 1, "log_every": 10}.items())
    progress = "on" if "bar" in way else "off"
    file.write_text(
        f"{tiny}run_dir: {tmp_path / 'run'}\nsteps: 1000000\ncheckpoint_every: 1000000\nprogress: '{progress}'\n"
    )
    near, far = pty.openpty() if "terminal" in way else os.pipe()
    # The terminal becomes that of the new session, as a login's is.
    own = f"fcntl.ioctl(0, termios.TIOCSCTTY, 0) if {'terminal' in way} else None"
    hears = "import fcntl, signal, sys, termios; signal.signal(signal.SIGHUP, signal.SIG_DFL)"
    code = f"{hears}; {own}; from gan_trainer.cli import main; sys.exit(main(['--config', {str(file)!r}]))"
    stdin = far if "terminal" in way else subprocess.DEVNULL
    with subprocess.Popen(
        [sys.executable, "-c", code], env=trainer_environment(), stdin=stdin, stdout=far, stderr=far,
        start_new_session=True, close_fds=True,
    ) as process:  # fmt: skip
        os.close(far)
        seen = b""
        while not re.search(rb"20/1000000", seen):
            seen += os.read(near, 4096)
        os.close(near)
        assert process.wait(PATIENCE) == 0
    assert kept_state(tmp_path / "run")["step"] >= 20


WRITER = """
import sys, torch
from pathlib import Path
from gan_trainer.runs.checkpoint import save_checkpoint
torch.set_num_threads(1)
print("ready", flush=True)
for step in range(1, 10**6):
    save_checkpoint(Path(sys.argv[1]), step, {"step": step, "data": torch.full((500_000,), step)}, keep=2)
"""


@pytest.mark.parametrize("milliseconds", [30, 71, 113])
def test_kill_at_any_moment_leaves_a_whole_checkpoint(tmp_path: Path, milliseconds: int) -> None:
    with forked.Program(["-c", WRITER, str(tmp_path)], trainer_environment()) as process:
        process.stdout.readline()
        while not list_checkpoints(tmp_path):
            time.sleep(0.001)
        time.sleep(milliseconds / 1000)
        process.kill()
    newest = torch.load(list_checkpoints(tmp_path)[0], weights_only=True)
    assert bool((newest["data"] == newest["step"]).all())


AFFINITY = """
import os
from multiprocessing import Event
from functools import partial
from gan_trainer.data.loader import prepare_worker
import torch
from torch.utils.data import DataLoader

class Cpus(torch.utils.data.Dataset):
    def __len__(self):
        return 2
    def __getitem__(self, index):
        return len(os.sched_getaffinity(0))

loader = DataLoader(Cpus(), num_workers=2, worker_init_fn=partial(prepare_worker, Event()))
seen = [batch.tolist() for batch in loader]
print(len(os.sched_getaffinity(0)), seen)
"""


def test_data_workers_get_back_the_cpus_that_openmp_took(run_python: Run) -> None:
    cpus = len(os.sched_getaffinity(0))
    if cpus < 2:
        pytest.skip("needs two CPUs to see one of them taken away")
    environment = {"OMP_PROC_BIND": "true", "OMP_PLACES": "cores"}
    parent, seen = run_python("-W", "ignore", "-c", AFFINITY, env=environment).stdout.strip().split(" ", 1)
    assert seen == f"[[{cpus}], [{cpus}]]"
    assert int(parent) < cpus, "OpenMP did not bind here, so this test shows nothing"
