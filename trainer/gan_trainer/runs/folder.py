# SPDX-License-Identifier: Apache-2.0
"""What a run leaves in its folder besides the checkpoints: config.yml, stats.jsonl and a lock against a second run."""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any

from ..config import Config, as_yaml
from ..errors import UserError
from ..safe_files import open_own, remove_leftovers, replace_text


class RunFolderError(UserError):
    """The run folder cannot be used; the text names it."""


class RunFolder:
    """A folder that one training run has exclusively during the `with` block."""

    def __init__(self, folder: Path, config: Config) -> None:
        self.folder, self.config = folder, config
        self.stats = folder / "stats.jsonl"
        # Checkpoints that could not be read when this run began.
        self.passed_over: set[Path] = set()
        self.logged_step, self.logged_at = 0, 0.0

    def __enter__(self) -> RunFolder:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.lock = os.fdopen(open_own(self.folder / ".lock", os.O_RDWR), "w")
        except OSError as error:
            raise RunFolderError(f"run_dir: {self.folder} cannot be written: {error.strerror}") from error
        try:
            # Held by the open file: a killed run leaves no stale lock.
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.lock.close()
            raise RunFolderError(f"run_dir: {self.folder} is in use by another training run") from error
        # Only its own folders: another run may be at work in one below.
        for folder in (self.folder, self.folder / "samples", self.folder / "profile"):
            remove_leftovers(folder)
        return self

    def __exit__(self, *error: object) -> None:
        self.lock.close()

    def begin(self, config: Config, step: int) -> None:
        """Start or continue after `step`: lines that a lost stretch of training wrote later are dropped."""
        self.config = config
        replace_text(self.folder / "config.yml", as_yaml(self.config))
        kept = [line for line in self._lines() if line["step"] <= step]
        replace_text(self.stats, "".join(json.dumps(line) + "\n" for line in kept))
        self.logged_step, self.logged_at = step, time.perf_counter()

    def _lines(self) -> list[dict[str, Any]]:
        """The statistics so far, without a line that a crash cut off."""
        if not self.stats.exists():
            return []
        lines = []
        for text in self.stats.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                lines.append(json.loads(text))
            except ValueError:
                continue
        return lines

    def log(self, statistics: dict[str, Any]) -> dict[str, Any]:
        """Add a line to stats.jsonl, with the rate since the last one; returns the line."""
        now, step = time.perf_counter(), statistics["step"]
        rate = (step - self.logged_step) * self.config.batch_size / max(now - self.logged_at, 1e-9)
        self.logged_step, self.logged_at = step, now
        line = {**statistics, "images_per_s": round(rate, 1), "time": round(time.time(), 3)}
        with os.fdopen(open_own(self.stats, os.O_WRONLY | os.O_APPEND), "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return line
