"""A callback that counts executed tasks for each host, and notes how long the smoke test took, in $CONVERGE_COUNTS."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    """A task is executed where its result is not "skipped", on whichever machine."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "counted"
    CALLBACK_NEEDS_ENABLED = False

    def v2_playbook_on_start(self, playbook: Any) -> None:
        self._tasks: Counter[str] = Counter()
        self._smoke: dict[str, float] = {}

    def v2_runner_on_ok(self, result: Any) -> None:
        name = result._host.get_name()
        self._tasks[name] += 1
        if result._result.get("smoke_seconds"):
            self._smoke[name] = result._result["smoke_seconds"]

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self.v2_runner_on_ok(result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        hosts = sorted(stats.processed)
        recap = {name: stats.summarize(name) for name in hosts}
        found = {"tasks": dict(self._tasks), "smoke": self._smoke, "recap": recap}
        Path(os.environ["CONVERGE_COUNTS"]).write_text(json.dumps(found))
