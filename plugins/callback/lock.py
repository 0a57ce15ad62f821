# SPDX-License-Identifier: Apache-2.0
"""At the start of a run, wait for workers that a killed one has left, and forget what an earlier one has found."""

from __future__ import annotations

DOCUMENTATION = """
name: lock
type: aggregate
short_description: Mark a run, and wait for workers of a killed one
description:
  - Marks this run and all its workers. At the first play on GPU nodes, waits for workers of a run that was killed,
    which may still change hosts.
  - Takes the toolkit's facts of an earlier run out of the controller's fact cache before the first play.
options:
  wait_seconds:
    description: Seconds to wait for such workers. After that, the run continues, and the locks of its hosts decide.
    type: float
    default: 600
    env: [{name: GPUWRIGHT_LOCK_WAIT_SECONDS}]
    ini: [{section: gpuwright_lock, key: wait_seconds}]
"""

import io
import sys
import time
from typing import Any

from ansible import context
from ansible.playbook.play import Play
from ansible.plugins.callback import CallbackBase
from ansible_collections.gpuwright.node.plugins.plugin_utils import host_values
from ansible_collections.gpuwright.node.plugins.plugin_utils import operator_run as runs
from ansible_collections.gpuwright.node.plugins.plugin_utils.started import first_callback

LOOK_AGAIN_S = 1.0


class CallbackModule(CallbackBase):
    """The lock itself is a lease on the node, which ends by itself (docs/parts/lock.md)."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpuwright.node.lock"
    # It is beside a checkout's playbooks, so it is also loaded with an ansible.cfg that does not name it.
    CALLBACK_NEEDS_ENABLED = False

    def __init__(self) -> None:
        super().__init__()
        self.disabled = not first_callback("lock")
        self._begun = False
        self._marker: Any = None
        self._looked = False

    def v2_playbook_on_start(self, playbook: Any) -> None:
        pid = runs.main_pid()
        self._marker = runs.mark(pid, runs.start_of(pid))
        # Why a run waits is said while it waits: into a pipe or a file, Python would hold back the first 8 KiB.
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(line_buffering=True)

    def v2_playbook_on_play_start(self, play: Play) -> None:
        if not self._begun:
            self._begun = True
            manager = play.get_variable_manager()
            inventory = host_values.inventory_of(manager)
            if inventory:
                host_values.forget(manager, (host.name for host in inventory.get_hosts(ignore_limits=True)))
        if not self._looked and takes_locks(play) and not context.CLIARGS.get("check"):
            self._looked = True
            self._wait_for_leftovers()

    def _wait_for_leftovers(self) -> None:
        deadline = time.monotonic() + self.get_option("wait_seconds")
        said: list = []
        runs.end_unheard()
        while (left := runs.leftovers()) and time.monotonic() < deadline:
            if left != said:
                self._display.display("; ".join(map(leftover_words, left)) + "; waiting for them to end")
            said = left
            time.sleep(LOOK_AGAIN_S)
            runs.end_unheard()
        if left:
            self._display.warning("; ".join(map(leftover_words, left)) + " after the wait; end them with kill -9")


def takes_locks(play: Play) -> bool:
    """Whether this play changes GPU nodes as the toolkit does; other people's plays wait for nobody."""
    return any(role.get_name(include_role_fqcn=False) == "operator_lock" for role in play.get_roles())


def leftover_words(left: tuple[str, list[int]]) -> str:
    """For example "Workers (process 4711) of a run that was killed (pid 4700) still live on this controller"."""
    run, pids = left
    who = f"process {', '.join(map(str, pids))}" if pids else "of another user"
    return f"Workers ({who}) of a run that was killed ({run}) are still alive on this controller"
