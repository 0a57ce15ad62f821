# SPDX-License-Identifier: Apache-2.0
"""Keeps the record of a rollout while it runs, and ends it with a table, however it ends."""

from __future__ import annotations

DOCUMENTATION = """
name: rollout
type: aggregate
short_description: What became of every host of a rollout, and the command that continues it
description:
  - Only a callback sees hosts that cannot be reached, and the end of a run that stopped early. It notes both in the
    record of the rollout, and prints a table of all hosts at the end.
  - In playbooks that are no rollout it does nothing.
options: {}
"""

import atexit
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from ansible import constants as C
from ansible import context
from ansible.plugins.callback import CallbackBase
from ansible_collections.gpuwright.node.plugins.plugin_utils import started
from ansible_collections.gpuwright.node.plugins.plugin_utils.failures.reach import reach_failure
from ansible_collections.gpuwright.node.plugins.plugin_utils.rollout import current, judge, state_file, table
from ansible_collections.gpuwright.node.plugins.plugin_utils.summary import command, rows
from ansible_collections.gpuwright.node.plugins.plugin_utils.summary.left_out import left_out_of
from ansible_collections.gpuwright.node.plugins.plugin_utils.summary.words import printable, width
from ansible_collections.gpuwright.node.plugins.plugin_utils.whole_events import noted

if TYPE_CHECKING:
    from ansible.executor.task_result import TaskResult

LOOKUP = "gpuwright.node.rollout"
WAITING = "gpu_node_waiting"
RETURNED = "gpu_node_returned"
TAKEN = "gpu_node_taken"
# What became of a host that a role has left out. Whoever works there is no fault of what is rolled out.
OF_KIND = {"busy": judge.SKIPPED, "locked": judge.SKIPPED, "unreachable": judge.LOST, "refused": judge.FAILED}
# Lost connections that Ansible calls a failed task: a host that takes one and then hangs, where the question of sudo is
# the first thing to time out, and copy or template, which catch whatever the connection says.
LOST = re.compile(
    r"Timeout \(\d+s\) waiting for privilege escalation prompt"
    r"|Failed to connect to the host via |Data could not be sent to remote host "
)


def unexplained(found: state_file.Record) -> list[str]:
    """Hosts that were to begin in this run and did not."""
    return [host for host in state_file.in_state(found, judge.PENDING) if not found["hosts"][host]["why"]]


class CallbackModule(CallbackBase):
    """The one that writes the record between tasks; the action of the same name writes it during its own."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpuwright.node.rollout"
    # It is beside a checkout's playbooks, so it is also loaded with an ansible.cfg that does not name it.
    CALLBACK_NEEDS_ENABLED = False

    def __init__(self) -> None:
        super().__init__()
        self.disabled = not started.first_callback("rollout")
        self._active = False
        self._warned = False
        # Left in the middle of their batch: that they then fail says less than why.
        self._kept: set[str] = set()

    def v2_playbook_on_start(self, playbook: Any) -> None:
        plays = [play for play in playbook.get_plays() if LOOKUP in str(play.hosts)]
        self._active = bool(plays)
        # Ansible copies every result once for each callback that is not disabled.
        self.disabled = self.disabled or not plays
        if plays:
            current.begin(plays[0].get_variable_manager())
            started.continues_otherwise()
            # Ctrl-C ends a run without the event that prints the table.
            atexit.register(self._end)

    def v2_playbook_on_play_start(self, play: Any) -> None:
        if not self._active or current.now.path is None:
            return
        hosts = {host.name for host in play.get_variable_manager()._inventory.get_hosts(play.hosts)}
        parts = [part for turn in current.now.turns.values() for part in turn]
        for number, part in enumerate(parts, 1):
            if hosts and hosts <= set(part):
                self._display.display(f"Batch {number} of {len(parts)}: {table.names(part, width())}")

    def _unread(self, result: TaskResult, why: str) -> None:
        self._note(result, judge.FAILED, f"{result.task_name}: {why}")

    @noted
    def v2_runner_on_ok(self, result: TaskResult) -> None:
        if result._result.get("changed"):
            current.now.changed.add(result._host.get_name())
        if not self._active or result._task.action.rpartition(".")[2] != "set_fact":
            return
        facts = result._result.get("ansible_facts") or {}
        if facts.get(TAKEN):
            current.now.changed.discard(result._host.get_name())
        if self._note_left_out(result):
            return
        if facts.get(RETURNED):
            self._note(result, judge.RETURNED, str(facts[RETURNED]))
        elif facts.get(WAITING):
            self._note(result, judge.WAITING, f"busy: {facts[WAITING]}")

    def _note_left_out(self, result: TaskResult) -> bool:
        """Whether this task has left the host out, for a reason that is known here."""
        told = left_out_of(result._task.action.rpartition(".")[2], result._result)
        state = OF_KIND.get(str(told.get("kind")))
        if state and told.get("kept"):
            self._kept.add(result._host.get_name())
            state = judge.FAILED
        if state:
            problem = (told.get("problems") or [{"problem": told.get("reason")}])[0]
            self._note(result, state, f"{told['kind']}: {problem.get('problem') or 'no reason given'}")
        return bool(state)

    @noted
    def v2_runner_on_failed(self, result: TaskResult, ignore_errors: bool = False) -> None:
        if self._active and not ignore_errors and not self._note_left_out(result):
            current.now.changed.add(result._host.get_name())
            text = rows.failure_text(result._result)
            role = result._task._role
            place = role.get_name(include_role_fqcn=False) if role else result.task_name
            if LOST.match(text):
                self._lost(result, text)
            elif result._host.get_name() not in self._kept:
                self._note(result, judge.FAILED, f"{place}: {text}")

    @noted
    def v2_runner_on_unreachable(self, result: TaskResult) -> None:
        if self._active and result._task.ignore_unreachable is not True:
            self._lost(result, str(result._result.get("msg") or ""))

    def v2_playbook_on_stats(self, stats: Any) -> None:
        self._end()

    def _lost(self, result: TaskResult, said: str) -> None:
        """What the connection said becomes the reason."""
        told = reach_failure(said, result._host.get_name(), {})
        self._note(result, judge.LOST, f'in "{printable(result.task_name)}": {told["problem"]}')

    def _note(self, result: TaskResult, state: str, why: str) -> None:
        """A host that was left out has its reason already; that it then fails is how a role leaves it out."""
        name = result._host.get_name()
        found = self._read()
        if found and name in found["hosts"] and found["hosts"][name]["state"] in (judge.BEGUN, judge.FAILED):
            self._write(state_file.with_state(found, [name], state, printable(why)))

    def _end(self) -> None:
        atexit.unregister(self._end)
        found = self._read() if self._active and current.main() else None
        self._active = False
        if found is None:
            return
        rules = found["rules"]
        if not found["stopped"]:
            found["stopped"] = judge.broken(found["hosts"], found["starts"], rules)
        if not found["stopped"] and unexplained(found):
            found["stopped"] = "the run ended before the other batches: every host of a batch failed, or it was ended"
        found["ended"] = state_file.now()
        self._write(found)
        for line in table.end(found, width()):
            self._display.display(line, color=C.COLOR_ERROR if line.startswith("Stopped") else None)
        self._display.display(f"Record: {current.now.path}")
        if any(row["state"] != judge.DONE for row in judge.of_start(found["hosts"], found["starts"]).values()):
            inventory = os.environ.get("ANSIBLE_INVENTORY", "")
            line, secret = command.go_on(sys.argv, context.CLIARGS, None, inventory)
            self._display.display(f"To continue with those that are not done: {printable(line)}")
            if secret:
                self._display.display(
                    f"  and again with -e for {', '.join(map(printable, secret))}, which may be secret."
                )

    def _read(self) -> state_file.Record | None:
        try:
            return state_file.read(current.now.path) if current.now.path else None
        except state_file.RecordError as error:
            self._warn(error)
            return None

    def _write(self, changed: state_file.Record) -> None:
        try:
            if current.now.path:
                state_file.write(current.now.path, changed)
        except state_file.RecordError as error:
            # The host then stays "begun" in the record, with which no other batch begins.
            self._warn(error)

    def _warn(self, error: state_file.RecordError) -> None:
        if not self._warned:
            self._warned = True
            self._display.warning(str(error))
