"""What may happen to a run from outside: stops, hung data, full disks, changed bytes, another experiment."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import forked
import pytest
import torch
from conftest import PATIENCE, TINY, kept_state, trainer_environment

from gan_trainer import cli
from gan_trainer.config import Config, make_config
from gan_trainer.data.images import DataError, SyntheticImages
from gan_trainer.engine import after_step
from gan_trainer.engine.failures import explain
from gan_trainer.engine.train import train
from gan_trainer.runs.checkpoint import CheckpointError, list_checkpoints, save_checkpoint
from gan_trainer.runs.elapsed import Elapsed, duration
from gan_trainer.stop_signal import PATIENCE as STOP_PATIENCE
from gan_trainer.stop_signal import StopSignal

Run = Callable[..., subprocess.CompletedProcess]
CPU = torch.device("cpu")
SMALL = {**TINY, "device": "cpu", "steps": 6, "log_every": 2, "checkpoint_every": 3, "sample_every": 3}


def config_for(folder: Path, **changes: object) -> Config:
    return make_config({**SMALL, "run_dir": str(folder), **changes})


def write_config(file: Path, **settings: object) -> Path:
    file.write_text("".join(f"{key}: {value}\n" for key, value in {**SMALL, **settings}.items()))
    return file


@pytest.mark.parametrize("workers", [0, 2])
def test_ctrl_c_saves_and_says_so(tmp_path: Path, workers: int) -> None:
    """A terminal sends it to the trainer and its data workers at once."""
    settings = {"steps": 10**6, "log_every": 10, "checkpoint_every": 10**6, "num_workers": workers}
    file = write_config(tmp_path / "config.yml", run_dir=tmp_path / "run", **settings)
    words = ["-m", "gan_trainer.cli", "--config", str(file)]
    with forked.Program(words, trainer_environment(), session=True) as process:
        for line in process.stdout:
            if line.startswith("step 20/"):
                break
        os.killpg(process.pid, signal.SIGINT)
        out, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert errors == "train-gan: saving after this step; Ctrl-C again ends at once\n"
    step = kept_state(tmp_path / "run")["step"]
    assert step >= 20
    last = out.splitlines()[-1]
    assert last.startswith(f"train-gan: stopped at step {step} of 1000000 after ")
    assert "the same command resumes from here" in last


class Stuck(SyntheticImages):
    """A network file system that has gone away: reading the image after the fifth batch never returns."""

    def __getitem__(self, index: int) -> torch.Tensor:
        self.read = getattr(self, "read", 0) + 1
        if self.read > BATCHES_BEFORE * SMALL["batch_size"]:
            time.sleep(3600)
        return super().__getitem__(index)


BATCHES_BEFORE = 5


class WaitsCounted(StopSignal):
    """Tells when the training has begun to wait for the batch that never comes."""

    waits_in_vain = threading.Event()

    @contextmanager
    def may_interrupt(self) -> Iterator[None]:
        self.waits = getattr(self, "waits", 0) + 1
        with super().may_interrupt():
            if self.waits > BATCHES_BEFORE:
                self.waits_in_vain.set()
            yield


@pytest.mark.parametrize("workers", [0, 1])
def test_stop_does_not_wait_for_data_that_never_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, capsys: pytest.CaptureFixture
) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)}
    monkeypatch.setattr("gan_trainer.data.loader.SyntheticImages", Stuck)
    monkeypatch.setattr("gan_trainer.engine.train.StopSignal", WaitsCounted)
    WaitsCounted.waits_in_vain.clear()
    asked: list[float] = []
    over = threading.Event()

    def stop() -> None:
        # However long the steps before it take; one that never gets there is ended all the same, and has failed.
        if WaitsCounted.waits_in_vain.wait(300):
            asked.append(time.monotonic())
        # A signal that comes just before a system call blocks is acted on only when that call is interrupted. Here
        # that is often the moment, so it comes again, as an impatient operator's would.
        while not over.is_set():
            os.kill(os.getpid(), signal.SIGTERM)
            over.wait(5 * STOP_PATIENCE)

    thread = threading.Thread(target=stop, daemon=True)
    thread.start()
    try:
        train(config_for(tmp_path, steps=1000, num_workers=workers, prefetch_factor=1, checkpoint_every=1000))
    finally:
        ended = time.monotonic()
        over.set()
        WaitsCounted.waits_in_vain.set()
        thread.join()
        for number, handler in before.items():
            signal.signal(number, handler)
    # Its patience and a checkpoint; the data would take an hour.
    assert asked and 0 < ended - asked[0] < PATIENCE
    assert kept_state(tmp_path)["step"] == BATCHES_BEFORE
    assert "stopped at step" in capsys.readouterr().out


def test_grid_that_fails_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def full(*arguments: object) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(after_step, "generate", full)
    train(config_for(tmp_path))
    assert kept_state(tmp_path)["step"] == 6
    assert "no grid of samples at step 3: CUDA out of memory" in capsys.readouterr().out


def test_checkpoint_is_there_before_the_grid_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def look(*arguments: object) -> torch.Tensor:
        seen.append([path.name for path in list_checkpoints(tmp_path)])
        return torch.zeros(4, 3, 32, 32, dtype=torch.uint8)

    monkeypatch.setattr(after_step, "generate", look)
    train(config_for(tmp_path))
    assert seen == [["checkpoint-0000000003.pt"], ["checkpoint-0000000006.pt", "checkpoint-0000000003.pt"]]


@pytest.mark.parametrize("part", [0.3, 0.5, 0.7])
def test_changed_bytes_are_seen_and_the_one_before_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture, part: float
) -> None:
    """One bit, as a disk or a cable changes it: torch.load alone takes it."""
    for step in (1, 2):
        save_checkpoint(tmp_path, step, {"step": step, "weights": torch.full((50_000,), float(step))}, keep=2)
    file = tmp_path / "checkpoint-0000000002.pt"
    data = bytearray(file.read_bytes())
    data[int(len(data) * part)] ^= 0x40
    file.write_bytes(data)
    assert torch.load(file, weights_only=True)["step"] == 2
    assert kept_state(tmp_path)["step"] == 1
    assert "has changed since it was written" in capsys.readouterr().err


LIMITED = """
import resource, sys
from gan_trainer import cli
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.exit(cli.main(sys.argv[2:]))
"""


def test_disk_that_fills_up_is_one_sentence_and_a_rerun_goes_on(run_trainer: Run, tmp_path: Path) -> None:
    """A file that may not grow any more stands for the disk: the kernel refuses the write in the same place."""
    train(config_for(tmp_path / "run", steps=3))
    size = list_checkpoints(tmp_path / "run")[0].stat().st_size
    file = write_config(tmp_path / "config.yml", run_dir=tmp_path / "run")
    done = run_trainer("-c", LIMITED, str(size // 2), "--config", str(file))
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("train-gan: ")]
    assert "the checkpoint of step 6 cannot be written: File too large" in line
    assert "checkpoint-0000000003.pt is complete, and the same command resumes from there" in line
    assert not list((tmp_path / "run").glob("*.tmp*"))
    train(config_for(tmp_path / "run"))
    assert kept_state(tmp_path / "run")["step"] == 6


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 1}, "seed was 0 and is 1"),
        ({"loss": "hinge"}, "loss was 'nonsaturating' and is 'hinge'"),
        ({"batch_size": 8}, "batch_size was 4 and is 8"),
        ({"synthetic_images": 64}, "synthetic_images was 32 and is 64"),
        ({"r1_gamma": 1.0}, "r1_gamma was 0.0 and is 1.0"),
    ],
)
def test_another_experiment_is_refused_by_name_unless_told(
    tmp_path: Path, changes: dict, named: str, capsys: pytest.CaptureFixture
) -> None:
    train(config_for(tmp_path, steps=3))
    with pytest.raises(CheckpointError, match="another experiment") as refused:
        train(config_for(tmp_path, **changes))
    assert named in str(refused.value) and "--resume changed" in str(refused.value)
    train(config_for(tmp_path, **changes), resume="changed")
    assert kept_state(tmp_path)["step"] == 6
    assert "continues with" in capsys.readouterr().out


def test_another_pace_is_told_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    train(config_for(tmp_path, steps=3))
    train(config_for(tmp_path, lr_generator=5e-5, log_every=1))
    out = capsys.readouterr().out
    assert "continues with lr_generator 0.0001 -> 5e-05\n" in out
    assert "log_every" not in out


def test_wrong_data_is_told_before_anything_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def built(*arguments: object) -> None:
        raise AssertionError("the networks were built first")

    monkeypatch.setattr("gan_trainer.engine.train.Trainer", built)
    with pytest.raises(DataError, match="is not a folder"):
        train(config_for(tmp_path / "run", data=str(tmp_path / "nowhere")))
    assert not (tmp_path / "run").exists()


def test_run_says_what_it_trains_on_where_results_go_and_when_it_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    train(config_for(tmp_path))
    lines = capsys.readouterr().out.splitlines()
    assert any("data: synthetic" in line and "set data to a folder" in line for line in lines)
    assert f"train-gan: results go to {tmp_path}" in lines
    assert any(line.startswith("step 2/6") and line.endswith(" left") for line in lines)
    assert lines[-1].startswith("train-gan: done: step 6 after ") and "step-0000000006.png" in lines[-1]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (89, "89 s"), (91, "2 min"), (3590, "1 h 00 min"), (11_100, "3 h 05 min"), (200_000, "2 d 7 h")],
)
def test_durations_are_read_at_a_glance(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_time_left_follows_the_pace_of_this_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 100.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    elapsed = Elapsed(first=500, last=1000)
    assert elapsed.left(600) == "7 min left"
    assert elapsed.left(1000) == "" and elapsed.left(500) == ""


BUS_ERROR = (
    "DataLoader worker (pid 17) is killed by signal: Bus error. It is possible that dataloader's workers are out of "
    "shared memory. Please try to raise your shared memory limit."
)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeError(BUS_ERROR), "/dev/shm is too small for the data workers"),
        (RuntimeError("DataLoader worker (pid(s) 17) exited unexpectedly"), "a data worker was killed"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (OSError(errno.EROFS, "Read-only file system", "/srv/gan/runs/a"), "/srv/gan/runs/a: Read-only file system"),
        (MemoryError(), "the host's memory is full"),
    ],
)
def test_machines_failures_are_one_sentence(tmp_path: Path, error: Exception, told: str) -> None:
    found = explain(error, config_for(tmp_path), CPU)
    assert told in str(found) and "\n" not in str(found)


def test_programming_errors_stay_what_they_are(tmp_path: Path) -> None:
    assert explain(RuntimeError("shape mismatch"), config_for(tmp_path), CPU) is None
    assert explain(KeyError("a"), config_for(tmp_path), CPU) is None


def test_gpu_memory_that_is_full_is_told_with_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (100 << 20, 16_000 << 20))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 15_000 << 20)
    text = str(explain(torch.cuda.OutOfMemoryError("CUDA out of memory"), config_for(tmp_path), CPU))
    assert "15000 MiB allocated at most, 100 of 16000 MiB free" in text and "batch_size 4" in text


def test_unwritable_folder_is_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "stats.jsonl"))

    monkeypatch.setattr("gan_trainer.runs.folder.RunFolder.begin", fails)
    assert cli.main(["--config", str(write_config(tmp_path / "c.yml", run_dir=tmp_path / "run"))]) == 1
    assert capsys.readouterr().err == f"train-gan: {tmp_path / 'stats.jsonl'}: Permission denied\n"
