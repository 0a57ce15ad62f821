"""One run of ansible-playbook that can be held before a task, from outside; or of a command of the node."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interrupt.host import NAME, REPO_ROOT, Host
from interrupt.steps import Step

LIMIT_S = 1500
LOOK_S = 0.01
HOLD = Path(__file__).with_name("hold")


@dataclass(frozen=True)
class Boundary:
    """Before a task: its name, and which one of that name it is in a run."""

    task: str
    time: int = 1


class Run:
    """It goes on by itself; `before` stops it at a boundary until `go`."""

    def __init__(self, host: Host, step: Step, before: Boundary | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hold-"))
        self.log = self.folder / "log"
        words = ["ansible-playbook", "-i", str(host.inventory), *step.words()]
        if step.variables:
            words += ["-e", json.dumps(step.variables)]
        if step.command:
            # In a terminal: whoever loses the connection ends what runs in it.
            words = ["ssh", "-tt", "-F", str(host.state / "ssh_config"), NAME, step.command]
        environment = {
            **os.environ,
            "ANSIBLE_NOCOLOR": "1",
            # As it is for ansible-core 2.19 and newer.
            "ANSIBLE_ALLOW_BROKEN_CONDITIONALS": "false",
            "ANSIBLE_CALLBACKS_ENABLED": "gpuwright.node.summary,gpuwright.node.lock,hold",
            "ANSIBLE_CALLBACK_PLUGINS": str(HOLD),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(host.sockets),
            "GPUWRIGHT_LOG_FOLDER": str(self.folder / "logs"),
            "HOLD_FOLDER": str(self.folder),
            "HOLD_TASK": before.task if before else "",
            "HOLD_TIME": str(before.time if before else 1),
        }
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                words, cwd=REPO_ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True,
            )  # fmt: skip
        self.ends = time.monotonic() + LIMIT_S

    @property
    def said(self) -> str:
        return " ".join(self.log.read_text(errors="replace").split())

    def records(self) -> list[dict[str, Any]]:
        file = self.folder / "started"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def until(self, there: Callable[[], object]) -> bool:
        """Whether it happened before the run ended."""
        while not there():
            if self.process.poll() is not None:
                return False
            if time.monotonic() > self.ends:
                raise TimeoutError(f"nothing happened in {LIMIT_S} s: {self.said[-2000:]}")
            time.sleep(LOOK_S)
        return True

    def reached(self) -> bool:
        """Wait until it is held; False when it ended without coming there."""
        return self.until((self.folder / "reached").exists)

    def go(self) -> None:
        (self.folder / "go").touch()

    def ended(self) -> int:
        """Its exit status, when it has ended."""
        self.go()
        try:
            return self.process.wait(timeout=max(1.0, self.ends - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise

    def discard(self) -> None:
        """Remove its log and the files that control it."""
        shutil.rmtree(self.folder)

    def tell(self, number: int, workers: bool = False) -> None:
        """A signal to its main process, or to its workers, too."""
        if workers:
            os.killpg(self.process.pid, number)
        else:
            os.kill(self.process.pid, number)
