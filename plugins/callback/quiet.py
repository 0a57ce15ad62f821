# SPDX-License-Identifier: Apache-2.0
"""Takes the place of the callback that prints while the end of a run releases its locks."""

from __future__ import annotations

DOCUMENTATION = """
name: quiet
type: stdout
short_description: Prints nothing, and notes on which hosts a task failed
description:
  - The callback P(gpuwright.node.lock#callback) releases all locks of a run with it, in one task after the run's last.
  - It is not meant for a playbook.
options: {}
"""

from typing import Any

from ansible.plugins.callback import CallbackBase
from ansible_collections.gpuwright.node.plugins.plugin_utils.whole_events import unreleased


class CallbackModule(CallbackBase):
    """Its state is that of `unreleased`, since Ansible itself makes the callback, by its name."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "gpuwright.node.quiet"

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        unreleased[result._host.get_name()] = " ".join(str(result._result.get("msg")).split())

    v2_runner_on_unreachable = v2_runner_on_failed
