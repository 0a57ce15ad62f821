# SPDX-License-Identifier: Apache-2.0
"""What is checked, written and saved after a step."""

from __future__ import annotations

import time

import torch

from ..data.prefetch import Prefetcher
from ..runs.checkpoint import save_checkpoint
from ..runs.folder import RunFolder
from ..runs.reporting import Reporter
from ..runs.samples import generate, grid_batch
from .distance import Distance
from .loop import Trainer
from .reaction import react
from .state import capture_state


class Record:
    """Statistics, checkpoints and grids of one run; `run` and `reporter` exist only on the first rank."""

    def __init__(
        self, trainer: Trainer, prefetcher: Prefetcher, run: RunFolder | None, reporter: Reporter | None
    ) -> None:
        self.trainer, self.prefetcher, self.run, self.reporter = trainer, prefetcher, run, reporter
        self.looked = time.perf_counter()
        config = trainer.config
        self.distance = Distance(config, run.folder, trainer.device) if run and config.distance_every else None

    def after_step(self, last: bool) -> None:
        """What the configuration asks for after this step, and everything after the last one. Raises a UserError."""
        trainer, config = self.trainer, self.trainer.config
        step = trainer.steps_done
        logs, saves = last or step % config.log_every == 0, last or step % config.checkpoint_every == 0
        if logs or saves:
            reaction = react(trainer)
            if reaction and self.reporter:
                self.reporter.say(f"train-gan: {reaction}")
        if logs:
            self.log()
        # Before the samples, whose failure must not lose the training since the last checkpoint.
        if saves and self.run:
            run, state = self.run, capture_state(trainer)
            path = save_checkpoint(run.folder, step, state, config.keep_checkpoints, run.passed_over)
            run.passed_over.discard(path)
        if self.reporter and (last or step % config.sample_every == 0):
            self.draw(self.reporter)
        if self.distance and self.reporter and (last or step % config.distance_every == 0):
            self.measure(self.distance, self.reporter)

    def log(self) -> None:
        now = time.perf_counter()
        waited = self.prefetcher.waited / max(now - self.looked, 1e-9)
        statistics = {**self.trainer.statistics(), "data_wait": round(min(waited, 1.0), 4)}
        self.prefetcher.waited, self.looked = 0.0, now
        if self.run and self.reporter:
            self.reporter.statistics(self.run.log(statistics))

    def measure(self, distance: Distance, reporter: Reporter) -> None:
        """The distance to the data; if memory or disk have no room for it, a line says so."""
        step = self.trainer.steps_done
        try:
            reporter.distance(distance.after(self.trainer.task, self.trainer.average, step), step)
        except (OSError, torch.cuda.OutOfMemoryError) as error:
            reporter.say(f"train-gan: no distance at step {step}: {str(error).splitlines()[0]}")

    def draw(self, reporter: Reporter) -> None:
        """A grid of the averaged generator; if memory or disk have no room for it, a line says so."""
        config = self.trainer.config
        try:
            sampler, shape = self.trainer.task.sampler(self.trainer.average), self.trainer.task.noise_shape()
            images = generate(
                sampler, config.sample_count, shape, config.seed, grid_batch(config.image_size), config.classes
            )
            reporter.samples(images, self.trainer.steps_done)
        except (OSError, torch.cuda.OutOfMemoryError) as error:
            reason = str(error).splitlines()[0]
            reporter.say(f"train-gan: no grid of samples at step {self.trainer.steps_done}: {reason}")
