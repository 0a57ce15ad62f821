"""Ansible waits before one task until it may continue; the order of tasks is written to a file.

Environment: HOLD_FOLDER   where `started` is written (one JSON record for each task) and the words below are exchanged
             HOLD_TASK     task before which the run waits, by its name; empty: it never waits
             HOLD_TIME     which task of that name, counted from 1
The run writes the file `reached`, and continues when there is a file `go`.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: hold
type: aggregate
short_description: Waits before a task
description: [Waits before a task until it may continue.]
"""
LOOK_S = 0.02


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "hold"

    def __init__(self) -> None:
        super().__init__()
        self._folder = Path(os.environ["HOLD_FOLDER"])
        self._task, self._time = os.environ.get("HOLD_TASK", ""), int(os.environ.get("HOLD_TIME", "1"))
        self._seen: Counter[str] = Counter()

    def _write(self, **record: Any) -> None:
        with (self._folder / "started").open("a") as stream:
            stream.write(json.dumps(record) + "\n")

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        # A name with what was found in it (packages, reasons) differs in the second run, so it is taken as written.
        name = task.name or task.get_name()
        self._seen[name] += 1
        self._write(task=name, time=self._seen[name], role=str(task._role.get_name()) if task._role else "")
        if name == self._task and self._seen[name] == self._time:
            (self._folder / "reached").touch()
            while not (self._folder / "go").exists():
                time.sleep(LOOK_S)

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        self.v2_playbook_on_task_start(task, False)

    def v2_runner_on_ok(self, result: Any) -> None:
        if result._result.get("changed"):
            name = result._task.name or result._task.get_name()
            self._write(changed=name, time=self._seen[name])
