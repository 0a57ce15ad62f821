# SPDX-License-Identifier: Apache-2.0
"""Notes what each role looked at on every host, so that a later run need not enter a role that has nothing to do."""

from __future__ import annotations

DOCUMENTATION = """
name: settled
type: aggregate
short_description: What roles looked at on every host
description:
  - Reads from the tasks themselves which files, trees, packages, units and settings of the node a role looked at. If no
    role had anything to do, the verification records them on the node.
  - It prints nothing and writes nothing.
options: {}
"""

from typing import TYPE_CHECKING, Any

from ansible import context
from ansible.plugins.callback import CallbackBase
from ansible_collections.gpuwright.node.plugins.plugin_utils import started
from ansible_collections.gpuwright.node.plugins.plugin_utils.entering import seen
from ansible_collections.gpuwright.node.plugins.plugin_utils.entering.inputs import SETTLING
from ansible_collections.gpuwright.node.plugins.plugin_utils.entering.things import things_of
from ansible_collections.gpuwright.node.plugins.plugin_utils.whole_events import ask_for_arguments, noted

if TYPE_CHECKING:
    from ansible.executor.task_result import TaskResult
    from ansible.playbook.play import Play

# With these, Ansible leaves tasks out that a plain run has; check mode changes nothing, so what follows was not seen.
PARTIAL = ("check", "start_at_task", "step")


class CallbackModule(CallbackBase):
    """Its state is that of `seen`, which the lookup of the same name reads."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpuwright.node.settled"
    # It is beside a checkout's playbooks, so it is also loaded with an ansible.cfg that does not name it.
    CALLBACK_NEEDS_ENABLED = False

    def __init__(self) -> None:
        super().__init__()
        self.disabled = not started.first_callback("settled")
        self._roles: list[str] = []

    def v2_playbook_on_start(self, playbook: Any) -> None:
        seen.begin(active=not any(context.CLIARGS.get(option) for option in PARTIAL))
        if seen.now.active:
            ask_for_arguments()

    def v2_playbook_on_play_start(self, play: Play) -> None:
        self._roles = [role.get_name(include_role_fqcn=False) for role in play.get_roles()]
        for host in seen.now.hosts.values():
            host.at = ""

    def _unread(self, result: TaskResult, why: str) -> None:
        # As if it had changed something: no role of the host counts as one that had nothing to do.
        seen.now.host(result._host.get_name()).changed.append(f"{result.task_name}: {why}")

    @noted
    def v2_runner_on_ok(self, result: TaskResult) -> None:
        task = result._task
        if not seen.now.active or not task._role or task.delegate_to:
            return
        host = seen.now.host(result._host.get_name())
        host.at = self._entered(host.at, task._role.get_name(include_role_fqcn=False))
        if result._result.get("changed"):
            host.changed.append(task.get_name())
        if result._result.get("in_way"):
            host.changed.append(f"{task.get_name()}: left for another run")
        if host.at in SETTLING:
            role = host.roles.setdefault(host.at, seen.Role())
            things = things_of(task.action, result._result, bool(task.loop))
            if things is None:
                role.unknown.append(task.get_name())
            else:
                role.things.update(things)

    def _entered(self, at: str, role: str) -> str:
        """The play's role whose tasks run: roles that it includes, also earlier ones of this play, are parts of it."""
        places = [self._roles.index(name) if name in self._roles else -1 for name in (at, role)]
        return role if places[1] > places[0] else at

    def v2_runner_on_failed(self, result: TaskResult, ignore_errors: bool = False) -> None:
        if seen.now.active:
            seen.now.host(result._host.get_name()).changed.append(f"{result.task_name}: failed")

    def v2_runner_on_unreachable(self, result: TaskResult) -> None:
        self.v2_runner_on_failed(result)
