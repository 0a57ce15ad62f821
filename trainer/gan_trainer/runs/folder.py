# SPDX-License-Identifier: Apache-2.0
"""What a run leaves in its folder besides the checkpoints: config.yml, stats.jsonl and a lock against a second run."""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import pwd
import shlex
import tempfile
import time
from pathlib import Path
from typing import Any

from ..config import Config, as_yaml
from ..errors import UserError
from ..safe_files import open_own, remove_leftovers, replace_text

# What a run goes on writing, and the folders below its own.
WRITTEN = ("stats.jsonl", "distance.jsonl", ".lock")
FOLDERS = ("samples", "profile", "tensorboard")


def numbers(line: dict[str, Any]) -> dict[str, Any]:
    """JSON has neither NaN nor infinity: null stands for them."""
    lost = [key for key, value in line.items() if isinstance(value, float) and not math.isfinite(value)]
    return {**line, **dict.fromkeys(lost)}


class RunFolderError(UserError):
    """The run folder cannot be used; the text names it."""


def is_seen(path: Path) -> bool:
    """Whether it is there, for who may look into the folder that it is in."""
    try:
        return path.exists()
    except PermissionError:
        return False


def try_folder(folder: Path) -> None:
    """Whether a run could keep its files here: the folder, or the nearest one above that is there, takes a new file,
    and what is in it can be written. Nothing is left behind. Raises RunFolderError."""
    nearest = next(path for path in (folder.absolute(), *folder.absolute().parents) if is_seen(path))
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
        for name in (*WRITTEN, *FOLDERS):
            path = folder / name
            if path.exists() and not os.access(path, os.W_OK | os.X_OK if path.is_dir() else os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    except OSError as error:
        raise unwritable(folder, error) from error


def unwritable(folder: Path, error: OSError) -> RunFolderError:
    """What cannot be written, by whom, and what helps."""
    try:
        me = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        me = str(os.geteuid())
    # The name of a file that was only tried says nothing.
    named = Path(os.fsdecode(error.filename or folder))
    place = named if is_seen(named) else folder
    return RunFolderError(
        f"run_dir: {place} cannot be written: {error.strerror}. This runs as {me}: choose a run_dir that {me} may "
        f"write, or give it the folder: sudo chown -R {me}: {shlex.quote(str(folder.absolute()))}"
    )


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
            raise unwritable(self.folder, error) from error
        try:
            try_folder(self.folder)
            # Held by the open file: a killed run leaves no stale lock.
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except RunFolderError:
            self.lock.close()
            raise
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
                lines.append(numbers(json.loads(text)))
            except ValueError:
                continue
        return lines

    def log(self, statistics: dict[str, Any]) -> dict[str, Any]:
        """Add a line to stats.jsonl, with the rate since the last one; returns the line."""
        now, step = time.perf_counter(), statistics["step"]
        rate = (step - self.logged_step) * self.config.batch_size / max(now - self.logged_at, 1e-9)
        self.logged_step, self.logged_at = step, now
        line = numbers({**statistics, "images_per_s": round(rate, 1), "time": round(time.time(), 3)})
        with os.fdopen(open_own(self.stats, os.O_WRONLY | os.O_APPEND), "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return line
