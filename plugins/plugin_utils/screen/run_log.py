# SPDX-License-Identifier: Apache-2.0
"""The log of a run: everything that Ansible's default callback prints, and all that was shown; one file per run."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

# As `_open` names it; a copy under another name is somebody's own.
NAME = re.compile(r"[0-9]{8}T[0-9]{6}Z-.*-[0-9]+\.log")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Parameters of Ansible's display, after the message.
ARGUMENTS = ("color", "stderr", "screen_only", "log_only", "newline")
# The log of this process, for the callback that prints at the end of the run where it is.
current: RunLog | None = None


class RunLog:
    """Intercepts Ansible's `display.display`, so that warnings and other callbacks are in the log, too.

    A log that cannot be written gives one warning; the run continues without it.
    """

    def __init__(self, display: Any, folder: Path, keep: int, playbook: str, heading: str) -> None:
        """`folder` is created if missing; `keep` of the logs in it stay, 0 writes none."""
        self._display = display
        self._plain: Callable[..., None] = display.display
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._file: Any = None
        # Printed before the next thing that is shown: what a warning is about.
        self.context: Callable[[], None] | None = None
        self.path = ""
        # Whether the screen has shown where it is.
        self.named = False
        self.shown = 0
        if keep > 0:
            try:
                self._open(folder, playbook)
                prune(folder, keep)
            except OSError as error:
                self._give_up(error, str(folder))
        display.display = self._say
        self.write(heading)

    def _open(self, folder: Path, playbook: str) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        now = datetime.datetime.now(datetime.timezone.utc)
        path = folder / f"{now:%Y%m%dT%H%M%SZ}-{Path(playbook).stem}-{self._pid}.log"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", buffering=1)
        self.path = str(path)

    def _give_up(self, error: OSError, place: str) -> None:
        self.path = ""
        self._file = None
        self._display.warning(
            f"the log of this run cannot be written to {place} ({error.strerror or error}); the run continues without "
            "it. Expected a folder that this user can write: GPUWRIGHT_LOG_FOLDER"
        )

    def write(self, text: str) -> None:
        """Write only into the log."""
        with self._lock:
            if self._file is None:
                return
            try:
                self._file.write(COLOUR.sub("", text.removesuffix("\n")) + "\n")
            except OSError as error:
                place = self.path
                with contextlib.suppress(OSError):
                    self._file.close()
                self._give_up(error, place)

    def show(self, text: str, **named: Any) -> None:
        """Print only on the screen, immediately, even into a pipe; `named` as for Ansible's display."""
        with self._lock:
            if self.context:
                say, self.context = self.context, None
                say()
            self.shown += text.removesuffix("\n").count("\n") + 1
        self._plain(text, **named)
        # The reader of the pipe may have ended; Ansible itself notices that.
        with contextlib.suppress(OSError):
            (sys.stderr if named.get("stderr") else sys.stdout).flush()

    def _say(self, msg: str, *others: Any, **named: Any) -> None:
        """Replaces Ansible's display.display. A worker's message comes again, in the process that shows it."""
        named.update(zip(ARGUMENTS, others, strict=False))
        if os.getpid() != self._pid:
            self._plain(msg, **named)
            return
        if not named.get("screen_only"):
            self.write(msg)
        if not named.get("log_only"):
            self.show(msg, **named)
        else:
            self._plain(msg, **named)

    def close(self) -> None:
        """Print where the log is, if not yet done, as after Ctrl-C; and in the log, how many lines the screen had."""
        if os.getpid() == self._pid:
            if self.path and not self.named:
                self.show(f"Log: {self.path}")
            self.write(f"screen: {self.shown} lines")
            with self._lock, contextlib.suppress(OSError):
                if self._file is not None:
                    self._file.close()
                self._file = None


def prune(folder: Path, keep: int) -> None:
    """Remove all but the newest logs; their names begin with their time."""
    logs = sorted(path for path in folder.iterdir() if NAME.fullmatch(path.name) and path.is_file())
    for path in logs[:-keep]:
        # Another run may have removed it, or another user owns it.
        with contextlib.suppress(OSError):
            path.unlink()
