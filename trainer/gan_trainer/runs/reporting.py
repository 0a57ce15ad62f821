# SPDX-License-Identifier: Apache-2.0
"""What a training run shows: a progress bar or lines, TensorBoard, grids of samples."""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path
from typing import Any, Sequence

from torch import Tensor

from ..config import Config
from ..safe_files import replacing
from ..stop_signal import reader_is_gone
from .elapsed import Elapsed
from .numbered import NumberedFiles
from .samples import make_grid, save_png

# Seconds after which a run without a bar says where it is, though no line of statistics is due.
QUIET = 120
GRIDS = NumberedFiles("step-", ".png")
# Columns below which a bar has no room for steps, time left and losses, so that lines say more.
NARROW = 40


def columns_of_terminal() -> int:
    """Width of the terminal that is stderr; 0 where it is none or does not know it (expect, CI, docker exec -t)."""
    try:
        size = os.get_terminal_size(sys.stderr.fileno())
        return size.columns if size.lines else 0
    except (OSError, ValueError, AttributeError):
        return 0


class Reporter:
    """For the first rank alone; `shown` are the losses of a line. Files go below `folder`; close it at the end."""

    def __init__(self, folder: Path, config: Config, step: int, shown: Sequence[str] = ("d_loss", "g_loss")) -> None:
        self.folder, self.config, self.shown = folder, config, shown
        self.said = time.monotonic()
        self.elapsed = Elapsed(step, config.steps)
        self.bar = self.open_bar(step)
        self.board = self.open_board(step)

    def open_bar(self, step: int) -> Any:
        columns = columns_of_terminal()
        if self.config.progress == "off" or (self.config.progress == "auto" and columns < NARROW):
            return None
        from tqdm import tqdm

        # Of a terminal that does not know its size, tqdm takes none, and shows nothing.
        size = {"dynamic_ncols": True} if columns else {"ncols": 80, "nrows": 24}
        return tqdm(total=self.config.steps, initial=step, unit="step", smoothing=0.1, **size)

    def open_board(self, step: int) -> Any:
        """TensorBoard's writer; it hides what a lost stretch of training wrote after `step`."""
        if not self.config.tensorboard:
            return None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            self.say(f"train-gan: no TensorBoard events: {error}; statistics go only to stats.jsonl")
            return None
        return SummaryWriter(str(self.folder / "tensorboard"), purge_step=step + 1)

    def say(self, text: str) -> None:
        """A line for people, above the bar if there is one."""
        self.said = time.monotonic()
        try:
            if getattr(self, "bar", None):
                self.bar.write(text, file=sys.stdout)
            else:
                print(text, flush=True)
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.EIO):
                raise
            reader_is_gone()

    def advance(self, step: int) -> None:
        """One step is done. The bar shows the rate and the time left; without one, slow steps are told now and then."""
        if self.bar is not None:
            self.bar.update()
        elif time.monotonic() - self.said > QUIET:
            self.say(f"step {step}/{self.config.steps}  {self.elapsed.left(step)}".rstrip())

    def statistics(self, line: dict[str, Any]) -> None:
        """A line of stats.jsonl."""
        losses = "  ".join(
            f"{name} {'nan' if line[name] is None else format(line[name], '.4f')}" for name in self.shown
        )
        if self.bar is not None:
            self.bar.set_postfix_str(f"{losses}  {line['images_per_s']:.0f} images/s")
        else:
            left = self.elapsed.left(line["step"])
            said = f"step {line['step']}/{self.config.steps}  {losses}  {line['images_per_s']:.0f} images/s  {left}"
            self.say(said.rstrip())
        if self.board is not None:
            for name, value in line.items():
                if name not in ("step", "time") and value is not None:
                    self.board.add_scalar(name, value, line["step"])

    def distance(self, value: float, step: int) -> None:
        """A line of distance.jsonl."""
        self.say(f"step {step}/{self.config.steps}  distance {value:.4f}")
        if self.board is not None:
            self.board.add_scalar("distance", value, step)

    def samples(self, images: Tensor, step: int) -> None:
        """uint8 (N, 3, S, S) as one grid: samples/step-N.png and a picture in TensorBoard."""
        grid = make_grid(images, self.config.classes)
        folder = self.folder / "samples"
        folder.mkdir(exist_ok=True)
        with replacing(folder / GRIDS.name(step)) as file:
            save_png(grid, file)
        if self.board is not None:
            self.board.add_image("samples", grid, step)

    def end(self, step: int, stopped: bool) -> None:
        """The last line: how far the run came, and where its results are."""
        done = f"stopped at step {step} of {self.config.steps}" if stopped else f"done: step {step}"
        onward = "; the same command resumes from here" if stopped else ""
        grids = [path for number, path in GRIDS.there(self.folder / "samples") if number <= step]
        pictures = f"pictures {grids[0]}, " if grids else ""
        self.say(
            f"train-gan: {done} after {self.elapsed.so_far()}{onward}. Results in {self.folder}: {pictures}"
            "checkpoints checkpoint-*.pt, losses stats.jsonl"
        )

    def close(self) -> None:
        for part in (self.bar, self.board):
            if part is not None:
                part.close()
