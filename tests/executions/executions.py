"""A callback that notes each task that was executed on a node, as one line of JSON in $EXECUTIONS.

That is a file, or, where it ends with a slash, a folder with a file for each run: TIME-PLAYBOOK.jsonl.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from ansible import context
from ansible.plugins.callback import CallbackBase

# What an action executes on the node under another name: it is reached first, and then a module is sent.
ACTIONS = {"host_plan": ("raw", "gpu_probe")}


class CallbackModule(CallbackBase):
    """A line is host, action, role, and whether the node was changed; what ran on the controller is left out."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "executions"
    CALLBACK_NEEDS_ENABLED = False

    def v2_playbook_on_start(self, playbook: Any) -> None:
        place = os.environ["EXECUTIONS"]
        self._file = Path(place)
        if place.endswith("/"):
            mode = "check-" * bool(context.CLIARGS.get("check"))
            self._file /= f"{time.time_ns()}-{mode}{Path(playbook._file_name).stem}.jsonl"
            self._file.parent.mkdir(parents=True, exist_ok=True)

    def v2_runner_on_ok(self, result: Any) -> None:
        task = result._task
        role = task._role.get_name(include_role_fqcn=False) if task._role else ""
        for one in result._result.get("results", []) if task.loop else [result._result]:
            # A module says how it was invoked; raw and fetch are actions that talk to the node without one.
            name = task.action.rpartition(".")[2]
            executed = "invocation" in one or name in ("raw", "fetch")
            for action in ACTIONS.get(name, (name,)) if executed and not task.delegate_to else ():
                line = [result._host.get_name(), action, role, bool(one.get("changed"))]
                with self._file.open("a") as file:
                    file.write(json.dumps(line) + "\n")
