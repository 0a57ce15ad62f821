"""A callback that notes each task that was executed on a node, as one line of JSON in the file $EXECUTIONS."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    """A line is host, action, role, and whether the node was changed; what ran on the controller is left out."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "executions"
    CALLBACK_NEEDS_ENABLED = False

    def v2_runner_on_ok(self, result: Any) -> None:
        task = result._task
        role = task._role.get_name(include_role_fqcn=False) if task._role else ""
        for one in result._result.get("results", []) if task.loop else [result._result]:
            # A module says how it was invoked; raw and fetch are actions that talk to the node without one.
            executed = "invocation" in one or task.action.rpartition(".")[2] in ("raw", "fetch")
            if executed and not task.delegate_to:
                line = [result._host.get_name(), task.action.rpartition(".")[2], role, bool(one.get("changed"))]
                with Path(os.environ["EXECUTIONS"]).open("a") as file:
                    file.write(json.dumps(line) + "\n")
