#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

DOCUMENTATION = r"""
---
module: rollout
short_description: Ask whether a batch of a rollout may begin, and note that one is done
version_added: "0.2.0"
description:
  - Reads and writes the record of the rollout that C(playbooks/rollout.yml) has begun; for its tasks only, with
    C(run_once).
  - A batch may begin if every host of the first batch that was tried is done, if no more hosts have failed than the
    breaker allows, and if no more hosts are down than may be. A host counts as failed if it was begun and is not done,
    whatever became of it, since Ansible does not stop for hosts that cannot be reached.
  - Runs on the controller, and contacts no host.
options:
  state:
    description: C(begun) asks for the hosts of the current batch, and notes those that may begin. C(done) notes that
      the hosts that are left have been verified. C(left) asks, for a host that is left in the middle of its batch,
      whether any task has changed it since it was taken; it may be a task of any host.
    type: str
    choices: [begun, done, left]
    required: true
attributes:
  check_mode:
    support: full
    description: Says what may begin, and writes nothing. A rollout in check mode has no hosts to ask for.
  diff_mode:
    support: none
    description: The record is not part of a node's state.
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Look into the record, whether this batch may begin
  gpuwright.node.rollout:
    state: begun
  register: rollout_batch
  run_once: true
"""

RETURN = r"""
untouched:
  description: Whether no task has changed this host, or failed on it, since its batch took it.
  returned: with C(left)
  type: bool
  sample: true
go:
  description: Hosts that may begin, or that are done.
  returned: with C(begun) and C(done)
  type: list
  elements: str
  sample: [a5-01]
stop:
  description: Why no host may begin; empty if some may.
  returned: with C(begun) and C(done)
  type: str
  sample: ""
"""

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    """The work is done by the action plug-in of this name, plugins/action/rollout.py."""
    module = AnsibleModule(
        argument_spec={"state": {"type": "str", "choices": ["begun", "done", "left"], "required": True}},
        supports_check_mode=True,
    )
    module.fail_json(
        msg="rollout runs on the controller and not on a node: name it gpuwright.node.rollout in a task, so that "
        "Ansible finds the action plug-in of the collection."
    )


if __name__ == "__main__":
    main()
