#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
DOCUMENTATION = r"""
module: host_plan
short_description: Check a host's variables, read the host, and decide what is to be done with it
description:
  - Checks the variables of O(roles), verifies the bundle, reaches the host, reads it as M(gpuwright.node.gpu_probe)
    does, decides its plan as M(gpuwright.node.gpu_plan) does, finds what the bundle has for that plan, and finds out
    whether the host has nothing to do. One task, because each task of Ansible takes a process of the controller for
    each host.
  - A host whose variables or bundle are wrong is not contacted.
  - Everything else that it asks is in the public variables of the roles.
  - What is wrong with the host fails no task; it is in C(gpu_node_preflight). Only where ssh, or what else the
    connection is, does not reach the host, the task ends as unreachable, unless C(preflight_on_problem) is C(fleet).
  - Changes nothing; check mode makes no difference.
options:
  roles:
    description: Roles of this collection whose variables are checked.
    type: list
    elements: str
    required: true
  bundle:
    description: Name of the variable with C(path) and C(signer) of the bundle, which is empty where the host has none.
      C(signer) is the fingerprint of the key that signs bundles, as C(ssh-keygen -l) prints it. Both this and the next
      are names, as such a variable is evaluated only when its turn comes.
    type: str
    required: true
  question:
    description: Name of the variable with what the plan needs of a bundle.
    type: str
    required: true
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Read the host, and decide its plan
  gpuwright.node.host_plan:
    roles: [preflight, system_driver]
    bundle: __preflight_bundle
    question: __preflight_bundle_question
"""

RETURN = r"""
gpu_node:
  description: The fact that M(gpuwright.node.gpu_probe) returns.
  type: dict
  returned: where the host was read
gpu_node_plan:
  description: The fact that M(gpuwright.node.gpu_plan) returns.
  type: dict
  returned: where there is a plan
gpu_node_settled:
  description: Which C(roles) have nothing to do, which are C(all) of them or none; a checksum of all that decides it
    (C(inputs)), and the C(names) of accounts and paths that variables and plan have.
  type: dict
  returned: where there is a plan
gpu_node_bundle:
  description: What the role C(bundle) copies to the node. With it, the variables that point the roles at it are
    returned.
  type: dict
  returned: where the host has a bundle that fits
gpu_node_preflight:
  description: What was found. C(variables) are messages about variables, C(rows) what is wrong with the host as
    preflight's table has it. C(finished) is true where nothing is, and nothing more is to be looked at; C(ready) where
    nothing has to be done or looked at before the node is verified. C(run) is the name of the run that has found it.
  type: dict
  returned: where the host was reached, or was not to be contacted
probe:
  description: The answer of the probe.
  type: dict
  returned: where it failed
"""

from ansible.module_utils.basic import AnsibleModule

SPEC = {
    "roles": {"type": "list", "elements": "str", "required": True},
    "bundle": {"type": "str", "required": True},
    "question": {"type": "str", "required": True},
}


def main() -> None:
    """The work is done by the action plug-in of this name, plugins/action/host_plan.py."""
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    module.fail_json(
        msg="host_plan begins on the controller and not on a node: name it gpuwright.node.host_plan in a task, so that "
        "Ansible finds the action plug-in of the collection."
    )


if __name__ == "__main__":
    main()
