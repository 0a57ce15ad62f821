#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: the record on the host that names the run changing it. The action plugin of this name decides."""

DOCUMENTATION = r"""
module: operator_lock
short_description: Take, read or release the lock that allows one run at a time
description:
  - Who gets the lock may change the host, so its first record is made with it where there is none yet, and what the run
    has changed is noted down before it is released (docs/parts/first-record.md).
  - Keeps /run/gpuwright/operator.json, which names the run that is changing this host.
  - A task gives C(state), C(takeover), C(wait_minutes) and C(quiet_minutes) to the action plugin of the same name,
    which runs on the controller, adds who is asking, and decides whether a holder is still alive.
  - In check mode, it only reads the lock and does not take it.
options:
  state:
    description: C(taken) takes the lock or keeps one that this run holds, C(seen) reads it, C(released) releases it.
    type: str
    choices: [taken, seen, released]
    default: taken
  takeover:
    description: C(break) takes it from the run that holds it, once nothing that this run started is working on the
      host.
    type: str
    default: ""
  wait_minutes:
    description: Minutes to wait for processes that a run which has ended left working. Where it is not given, the
      variable C(operator_lock_wait_minutes) or its role's default.
    type: float
  quiet_minutes:
    description: Minutes after the last call of a run, and after its last process on the host was seen, for which it
      keeps the lock from runs of other controllers. Where it is not given, the variable
      C(operator_lock_quiet_minutes) or its role's default.
    type: float
  claim:
    description: Who is asking (run, who, controller, machine, pid, started, playbook); the action plugin fills it in.
    type: dict
    default: {}
  replaces:
    description: The run whose record may be replaced, or C(damaged); the action plugin fills it in.
    type: str
    default: ""
  judged_s:
    description: When the run of O(replaces) was last heard of, by the host's uptime in seconds, where that was the
      reason. A record that was renewed since is not replaced. The action plugin fills it in.
    type: float
  names:
    description: Accounts and paths that the values of variables name, to be looked at before anything changes; the
      action plugin fills it in where roles are entered.
    type: list
    elements: str
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Take the lock of this host
  gpuwright.node.operator_lock:
    state: taken
"""

RETURN = r"""
held:
  description: Whether this run now holds the lock.
  type: bool
  returned: always
run:
  description: The run that holds it, if it is this one; empty otherwise.
  type: str
  returned: always
holder:
  description: The record of another run that holds it; null if there is none.
  type: dict
  returned: always
damaged:
  description: Why the record cannot be read; empty otherwise.
  type: str
  returned: always
work:
  description: Processes of other runs that are working on the host, with C(pid), C(command) and C(run).
  type: list
  elements: dict
  returned: always
quiet_s:
  description: Seconds since the holder was last heard of; null if there is no holder.
  type: float
  returned: always
first_record:
  description: Whether the host's first record was made now.
  type: bool
  returned: always
before:
  description: The record that was replaced; null if there was none.
  type: dict
  returned: always
ansible_facts:
  description: C(gpu_node_lock) with C(run) and C(holder). Where this run does not get the lock, the task fails, and
    C(gpu_node_left_out) has C(reason) and C(next) for the callbacks. From the action plugin.
  type: dict
  returned: always
"""

from ansible_collections.gpuwright.node.plugins.module_utils.operator import lock_and_ledger
from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.operator.record import Answer, look, release, take


def main() -> None:
    """Read or change the record; the controller decides what the answer means."""
    module = AnsibleModule(
        argument_spec={
            "state": {"choices": ["taken", "seen", "released"], "default": "taken"},
            "takeover": {"default": ""},
            "wait_minutes": {"type": "float"},
            "quiet_minutes": {"type": "float"},
            "claim": {"type": "dict", "default": {}},
            "replaces": {"default": ""},
            "judged_s": {"type": "float"},
            "names": {"type": "list", "elements": "str"},
        },
        supports_check_mode=True,
    )
    claim, state = module.params["claim"], module.params["state"]
    wrong = lock_and_ledger.unclaimed(claim)
    if wrong:
        module.fail_json(
            msg=f"operator_lock was asked without {wrong}: its action plugin was not found. "
            "Run the playbooks of this project, or name it in full in your own: gpuwright.node.operator_lock"
        )
    made = False
    try:
        with lock_and_ledger.kept():
            if state == "released" and not module.check_mode:
                noted = lock_and_ledger.close_ledger(claim["run"])
                released = release(claim["run"])
                nobody = lock_and_ledger.shown(Answer(False), "")
                module.exit_json(changed=False, released=released, noted=noted, **nobody)
            if state == "taken" and not module.check_mode:
                answer = take(claim, module.params["replaces"], judged_s=module.params["judged_s"])
                made = answer.held and lock_and_ledger.open_ledger(claim["run"], module.params["names"])
            else:
                answer = look(claim["run"])
    except lock_and_ledger.NotKept as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, first_record=made, **lock_and_ledger.shown(answer, claim["run"]))


if __name__ == "__main__":
    main()
