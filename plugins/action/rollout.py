# SPDX-License-Identifier: Apache-2.0
"""Ask the record of the rollout whether a batch may begin, and tell it that one is done; no host is contacted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gpuwright.node.plugins.plugin_utils.rollout import current, judge, state_file

# Not a state of the record: of a host that is left in the middle of its batch.
LEFT = "left"


class ActionModule(ActionBase):
    """`rollout:` of a task with run_once; the module of the same name documents it."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        states = {"type": "str", "choices": [judge.BEGUN, judge.DONE, LEFT], "required": True}
        _validated, options = self.validate_argument_spec({"state": states})
        if options["state"] == LEFT:
            # Outside of a rollout, nobody has looked.
            changed = current.now.path is None or (task_vars or {})["inventory_hostname"] in current.now.changed
            return {**result, "changed": False, "untouched": not changed}
        if current.now.path is None:
            raise AnsibleActionFail(
                "No rollout is under way, so this task has no record to ask: start playbooks/rollout.yml "
                "[rollout.callback]"
            )
        batch = list((task_vars or {})["ansible_play_batch"])
        try:
            return {
                **result,
                "changed": False,
                **step(current.now.path, options["state"], batch, self._task.check_mode),
            }
        except state_file.RecordError as error:
            raise AnsibleActionFail(str(error)) from error


def step(path: Path, state: str, batch: list[str], check: bool = False) -> dict[str, Any]:
    """The result of the task: hosts that go on, and why none does; `check` writes nothing."""
    found = state_file.read(path)
    if found is None:
        raise state_file.RecordError(
            f"the record of this rollout, {path}, was removed while it was under way, so no other host begins: start "
            "again, which begins a new rollout [rollout.record]"
        )
    go, stop, changed = _after(found, state, batch)
    if not check:
        state_file.write(path, changed)
    return {"go": go, "stop": stop}


def _after(found: state_file.Record, state: str, batch: list[str]) -> tuple[list[str], str, state_file.Record]:
    """Hosts that go on, why none does, and the record from then on."""
    if state == judge.DONE:
        # Ansible has taken out whoever failed; of whoever is left, a role has dealt with the failure.
        ready = [host for host in batch if found["hosts"][host]["state"] in (judge.BEGUN, judge.FAILED)]
        return ready, "", state_file.with_state(found, ready, judge.DONE)
    decision = judge.decide(found, batch)
    if decision.stop:
        return [], decision.stop, {**found, "stopped": decision.stop}
    left = [host for host in batch if host not in decision.go]
    changed = state_file.with_state(found, left, judge.PENDING, "no more hosts may begin at once")
    return list(decision.go), "", state_file.with_state(changed, decision.go, judge.BEGUN)
