# SPDX-License-Identifier: Apache-2.0
"""A run from its first step to its last, or from its newest checkpoint on; the same call does both."""

from __future__ import annotations

import json
import os
import platform
import shlex
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from ..config import Config, ConfigError, impossible_on_gpus
from ..data import census
from ..data.loader import make_dataset, open_loader
from ..data.prefetch import Prefetcher
from ..data.workers import too_few_cpus
from ..errors import UserError
from ..models.averaging import MARK, has_statistics
from ..parallel.distributed import Ranks, join
from ..precision import Precision, choose_precision
from ..runs.checkpoint import CHECKPOINTS, CheckpointError, list_checkpoints, load_newest
from ..runs.drift import as_begun, check_drift, saved_config
from ..runs.folder import RunFolder
from ..runs.outlook import Outlook
from ..runs.reporting import QUIET, Reporter
from ..safe_files import replace_text
from ..stop_signal import StopSignal, StopWaiting
from .after_step import Record
from .batch_size import find_batch_size
from .failures import explain
from .loop import Trainer
from .memory import use_expandable_segments
from .profiling import StepProfiler
from .schedule import learning_rate
from .speed_up import slow_down, speed_up
from .stability import TrainingError
from .state import restore_state

LARGEST_BATCH = 65_536

EARLIER = (
    "this run was begun by an earlier release, which drew the averaged generator with another network's batch-norm "
    "statistics; from here on it has its own, so pictures and distances from before do not compare with those to come"
)


def choose_device(wanted: str) -> torch.device:
    """The device of the configuration; TrainingError rather than silently using the CPU if a GPU was demanded."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise TrainingError(f"device: cuda was requested, but torch {torch.__version__} finds no usable GPU")
    return torch.device("cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu")


def train(config: Config, resume: str = "auto", profile: bool = False) -> bool:
    """Run `config` to its last step, or until a signal to stop, in this process or in all of torchrun's.

    `resume`: auto, changed or never, as commands/train.py says. `profile` records a few steps (profiling.py). Returns
    whether Ctrl-C has ended it. Raises a UserError.
    """
    if config.expandable_segments:
        use_expandable_segments(os.environ)
    device = choose_device(config.device)
    try:
        return train_on(device, config, resume, profile)
    except UserError:
        raise
    except Exception as error:
        known = explain(error, config, device)
        if known is None:
            raise
        raise known from error


def train_on(device: torch.device, config: Config, resume: str, profile: bool) -> bool:
    """See `train`."""
    with join(device.type == "cuda", config.cuda_graphs) as ranks, ExitStack() as stack:
        if device.type == "cuda":
            device = torch.device("cuda", ranks.gpu)
            torch.cuda.set_device(device)
            faults = impossible_on_gpus(config, ranks.world)
            if faults:
                raise ConfigError("\n".join(faults))
        capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else None
        precision = choose_precision(config.precision, capability)
        folder = Path(config.run_dir)
        # Wrong data is reported before anything is built, and leaves no folder behind.
        holds = census.take(config) if ranks.first else census.Census([], {})
        # Only the first rank holds the folder, reads its checkpoint for all, and prints.
        run = stack.enter_context(RunFolder(folder, config)) if ranks.first else None
        newest: dict[str, Any] | None = None
        if run:
            newest, run.passed_over = newest_state(folder, resume)
        state = ranks.agree(newest)
        content = ranks.agree(holds.content)
        config = as_begun(state["config"] if state else None, config)
        drift = check_drift(state["config"], config, resume == "changed", state.get("census"), content) if state else ""
        config = settle_batch(config, state, device, precision, ranks)
        trainer = Trainer(config, device, precision, ranks)
        stack.callback(slow_down, trainer)
        trainer.census = content
        if state:
            restore_state(trainer, state)
        reporter = None
        changes = rate_change(state, config) if state else []
        if state and MARK not in state and has_statistics(trainer.moving):
            changes.append(EARLIER)
        if run:
            run.begin(config, trainer.steps_done)
            if trainer.steps_done >= config.steps:
                done = f"{folder} already holds step {trainer.steps_done} of {config.steps}"
                drawn = shlex.join(["train-gan", "sample", f"run_dir={folder}"])
                print(f"train-gan: {done}; a larger steps= goes on, and `{drawn}` draws more pictures", flush=True)
            else:
                reporter = Reporter(folder, config, trainer.steps_done, trainer.task.shown_always())
                stack.callback(reporter.close)
                introduce(reporter, trainer, [*holds.lines, *([drift] if drift else []), *changes], resumed=bool(state))
        if trainer.steps_done < config.steps:
            profiler = (
                stack.enter_context(StepProfiler(folder / "profile", trainer.on_gpu)) if profile and run else None
            )
            return run_steps(trainer, run, reporter, profiler)
        return False


def rate_change(state: dict[str, Any], config: Config) -> list[str]:
    """A line if the next step's learning rate is not the one that the run so far would have had, by whatever keys."""
    old, step = saved_config(state["config"]), state["step"] + 1
    before, now = (learning_rate(one, one.lr_generator, step) for one in (old, config))
    if abs(now / before - 1.0) < 0.01:
        return []
    return [f"the learning rate of step {step} is {now:.3g}, {now / before:.3g} times that of the run so far"]


def newest_state(folder: Path, resume: str) -> tuple[dict[str, Any] | None, set[Path]]:
    """As `load_newest`; says what has a checkpoint's name and is none."""
    for path in CHECKPOINTS.others(folder):
        print(f"train-gan: {path} is none of this trainer's checkpoints: neither read nor removed", flush=True)
    if resume == "never" and list_checkpoints(folder):
        raise CheckpointError(f"run_dir: {folder} holds checkpoints; choose a new folder to start over")
    return load_newest(folder)


def settle_batch(
    config: Config, state: dict[str, Any] | None, device: torch.device, precision: Precision, ranks: Ranks
) -> Config:
    """The configuration with its final batch size; a resumed run keeps the size with which it began."""
    if config.auto_batch and device.type != "cuda":
        raise ConfigError("auto_batch: true needs a GPU, and there is none; allowed here: false")
    if config.auto_batch and state:
        config = replace(config, batch_size=state["config"]["batch_size"])
    elif config.auto_batch:
        total = torch.cuda.get_device_properties(device).total_memory
        streamed = config.data.endswith(".tar")
        most = LARGEST_BATCH if streamed else min(LARGEST_BATCH, len(make_dataset(replace(config, cache_dir=""))))
        config = replace(config, batch_size=find_batch_size(config, device, precision, total, ranks, most))
    check_parts(config, ranks.world)
    return config


def check_parts(config: Config, processes: int) -> None:
    parts = processes * config.accumulate
    if config.batch_size % parts:
        raise ConfigError(
            f"batch_size: {config.batch_size} cannot be cut into {processes} processes x {config.accumulate} "
            f"accumulated parts; allowed: multiples of {parts}"
        )


def introduce(reporter: Reporter, trainer: Trainer, remarks: list[str], resumed: bool) -> None:
    """What runs, on which data, and why."""
    config, ranks = trainer.config, trainer.ranks
    verb = f"resumes after step {trainer.steps_done}" if resumed else "starts"
    where = str(trainer.device) if ranks.world == 1 else f"{ranks.world} processes"
    reporter.say(f"train-gan: {verb} on {where}, {trainer.precision.name}: {trainer.precision.because}")
    for remark in remarks:
        reporter.say(f"train-gan: {remark}")
    if too_few_cpus():
        reporter.say(f"train-gan: {too_few_cpus()}")
    reporter.say(f"train-gan: {plan_of(config)}")
    reporter.say(f"train-gan: results go to {reporter.folder.absolute()}")
    reporter.say(f"train-gan: pictures: {look_at(reporter.folder)}")
    if config.auto_batch:
        reporter.say(f"train-gan: batch_size {config.batch_size} fills {config.memory_target:.0%} of the GPU's memory")
    layers = (layer for network in trainer.networks.values() for layer in network.modules())
    if ranks.world > 1 and any(isinstance(layer, _BatchNorm) for layer in layers):
        shared = trainer.on_gpu and config.sync_batchnorm
        how = (
            "over all processes (SyncBatchNorm)" if shared else "in each process alone: results depend on their number"
        )
        reporter.say(f"train-gan: batch norm takes its statistics {how}")


def plan_of(config: Config) -> str:
    """One line of what the run does."""
    model = f"{config.task} {config.model}, {config.loss}" if config.task == "gan" else config.task
    return (
        f"{model}, {config.image_size} px: steps to {config.steps} with {config.batch_size} images each, a line every "
        f"{config.log_every} steps or {QUIET // 60} min, pictures every {config.sample_every}, checkpoints every "
        f"{config.checkpoint_every}"
    )


def look_at(folder: Path) -> str:
    """Where the pictures will lie, and how they are looked at from another machine."""
    samples = folder.absolute() / "samples"
    host = platform.node() or "this machine"
    return f"{samples}/step-*.png; on your laptop: scp -r {host}:{shlex.quote(str(samples))} ."


def run_steps(
    trainer: Trainer, run: RunFolder | None, reporter: Reporter | None, profiler: StepProfiler | None
) -> bool:
    """All remaining steps; whether Ctrl-C ended them. `run` and `reporter` exist only on the first rank."""
    config, ranks, stop = trainer.config, trainer.ranks, StopSignal(trainer.ranks)
    lines = speed_up(trainer)
    outlook = Outlook(config) if reporter and not trainer.on_gpu else None
    if reporter:
        for line in lines:
            reporter.say(f"train-gan: {line}")
    with open_loader(config, trainer.steps_done, trainer.on_gpu, ranks, trainer.device) as loader:
        prefetcher = Prefetcher(loader, trainer.device, trainer.layout, config.prefetch)
        batches, record = iter(prefetcher), Record(trainer, prefetcher, run, reporter)
        first = trainer.steps_done + 1
        try:
            while trainer.steps_done < config.steps:
                with stop.may_interrupt():
                    real = next(batches)
                trainer.step(*real) if isinstance(real, tuple) else trainer.step(real)
                if reporter:
                    reporter.advance(trainer.steps_done)
                    expected = outlook.after(trainer.steps_done) if outlook else ""
                    if expected:
                        reporter.say(f"train-gan: {expected}")
                if profiler:
                    profiler.step()
                if trainer.steps_done == first == 1 and run and reporter:
                    replace_text(run.folder / "memory.json", json.dumps(trainer.memory.phases, indent=2) + "\n")
                    reporter.say(trainer.memory.table())
                last = stop.agreed() or trainer.steps_done == config.steps
                record.after_step(last)
                if last:
                    break
        except StopWaiting:
            # Between two steps: everything done so far is consistent.
            if trainer.steps_done >= first:
                record.after_step(last=True)
    if reporter:
        reporter.end(trainer.steps_done, stopped=trainer.steps_done < config.steps)
    # The first rank may still write; the others leave when it is done.
    ranks.wait()
    return stop.interrupted
