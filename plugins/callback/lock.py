# SPDX-License-Identifier: Apache-2.0
"""At the start, wait for workers left by a killed run; at the end, release the locks that this run holds."""

from __future__ import annotations

DOCUMENTATION = """
name: lock
type: aggregate
short_description: Release the locks of hosts at the end of a run, however it ends for a host
description:
  - A play cannot do that, since it leaves out the hosts that have failed, and is not reached if all have failed.
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

import inspect
import io
import sys
import time
from typing import Any

from ansible import context
from ansible.executor.task_queue_manager import TaskQueueManager
from ansible.playbook.play import Play
from ansible.plugins.callback import CallbackBase
from ansible_collections.gpuwright.node.plugins.plugin_utils import host_values
from ansible_collections.gpuwright.node.plugins.plugin_utils import operator_run as runs
from ansible_collections.gpuwright.node.plugins.plugin_utils.started import first_callback
from ansible_collections.gpuwright.node.plugins.plugin_utils.whole_events import unreleased

LOOK_AGAIN_S = 1.0
# The options that name the callback that prints: the first until ansible-core 2.18, the second since 2.19.
PRINTS = ("stdout_callback", "stdout_callback_name")


class CallbackModule(CallbackBase):
    """Knows from the results which locks this run holds."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpuwright.node.lock"
    # It is beside a checkout's playbooks, so it is also loaded with an ansible.cfg that does not name it.
    CALLBACK_NEEDS_ENABLED = False

    def __init__(self) -> None:
        super().__init__()
        self.disabled = not first_callback("lock")
        self._held: set[str] = set()
        self._passwords: dict[str, str] = {}
        self._play: Any = None
        self._marker: Any = None
        self._looked = False

    def v2_playbook_on_start(self, playbook: Any) -> None:
        pid = runs.main_pid()
        self._marker = runs.mark(pid, runs.start_of(pid))
        # Why a run waits is said while it waits: into a pipe or a file, Python would hold back the first 8 KiB.
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(line_buffering=True)

    def set_play_context(self, play_context: Any) -> None:
        # Passwords that -k and -K asked for: the locks are released with the same login.
        self._passwords = {"conn_pass": play_context.password or "", "become_pass": play_context.become_pass or ""}

    def v2_playbook_on_play_start(self, play: Play) -> None:
        if self._play is None:
            manager = play.get_variable_manager()
            host_values.forget(manager, (host.name for host in manager._inventory.get_hosts(ignore_limits=True)))
        self._play = play
        if not self._looked and takes_locks(play) and not context.CLIARGS.get("check"):
            self._looked = True
            self._wait_for_leftovers()

    def v2_runner_on_ok(self, result: Any) -> None:
        # A verification that took the lock by itself has released it, unless it was cut short.
        if result._task.action.rpartition(".")[2] in ("operator_lock", "gpu_verify") and result._result.get("held"):
            self._held.add(result._host.get_name())

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self.v2_runner_on_ok(result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        # Processes that it started there may continue, so the lock stays until a later run finds that all have ended.
        self._held.discard(result._host.get_name())

    def v2_playbook_on_stats(self, stats: Any) -> None:
        if not self._held or self._play is None:
            return
        for host, problem in sorted(self._give_back().items()):
            self._display.display(
                f"{host}: its lock was not released ({problem}). The next run from this controller takes it over "
                "automatically; one from another controller would be refused, unless it has -e gpuwright_lock=break"
            )
        self._held.clear()

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

    def _give_back(self) -> dict[str, str]:
        """One task on all hosts at once, including those that have failed; {host: why it was not done}."""
        unreleased.clear()
        try:
            self._release()
        except Exception as error:
            # The run has ended, whatever happens to its locks; its result must not depend on them.
            return dict.fromkeys(self._held, str(error)) | unreleased
        return dict(unreleased)

    def _release(self) -> None:
        variables, loader = self._play.get_variable_manager(), self._play.get_loader()
        known = inspect.signature(TaskQueueManager).parameters
        manager = TaskQueueManager(
            inventory=variables._inventory,
            variable_manager=variables,
            loader=loader,
            passwords=self._passwords,
            run_additional_callbacks=False,
            forks=context.CLIARGS.get("forks"),
            **{name: "gpuwright.node.quiet" for name in PRINTS if name in known},
        )
        # --start-at-task and --tags concern the run that is ending here.
        manager._start_at_done = True
        task = {"name": "Release the lock", "gpuwright.node.operator_lock": {"state": "released"}, "tags": ["always"]}
        source = {"name": "Locks", "hosts": sorted(self._held), "gather_facts": False, "become": True, "tasks": [task]}
        try:
            manager.run(Play().load(source, variable_manager=variables, loader=loader))
        finally:
            manager.cleanup()


def takes_locks(play: Play) -> bool:
    """Whether this play changes GPU nodes as the toolkit does; other people's plays wait for nobody."""
    return any(role.get_name(include_role_fqcn=False) == "operator_lock" for role in play.get_roles())


def leftover_words(left: tuple[str, list[int]]) -> str:
    """For example "Workers (process 4711) of a run that was killed (pid 4700) still live on this controller"."""
    run, pids = left
    who = f"process {', '.join(map(str, pids))}" if pids else "of another user"
    return f"Workers ({who}) of a run that was killed ({run}) are still alive on this controller"
