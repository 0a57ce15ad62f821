#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: what a node is compared with, using a plan that was made for all of its GPUs."""

DOCUMENTATION = r"""
module: gpu_expectations
short_description: Return what a node is compared with
description:
  - Takes the inventory's expectations and the plan of this run, and returns what C(gpu_verify) and C(gpu-doctor)
      compare the node with.
  - While GPUs are missing, the plan of this run does not fit the whole node; the recorded plan is then kept, with a
      warning.
  - Writes nothing.
options:
  wanted:
    description: Expectations from the inventory with the plan of this run.
    type: dict
    required: true
  gpus:
    description: The GPUs for which that plan was made, as C(gpu_probe) names them. If omitted, this is not known.
    type: list
    elements: dict
  kept:
    description: Names of expectations that this run cannot know. They stay as they are recorded.
    type: list
    elements: str
    default: []
  path:
    description: File with the node's expectations so far.
    type: path
    required: true
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Show the node's expectations
  gpuwright.node.gpu_expectations:
    wanted: "{{ wanted }}"
    gpus: "{{ gpu_node.gpus }}"
    path: /etc/gpuwright/expectations.json
  register: held
"""

RETURN = r"""
expectations:
  description: What to compare the node with; C(plan_gpus) says for how many GPUs its plan was made.
  returned: success
  type: dict
because:
  description: Why the recorded plan is kept; empty if the plan is that of this run.
  returned: success
  type: str
"""

from ansible_collections.gpuwright.node.plugins.module_utils.checks.gpu.kept_plan import hold
from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.report import read_json

SPEC = {
    "wanted": {"type": "dict", "required": True},
    "gpus": {"type": "list", "elements": "dict"},
    "kept": {"type": "list", "elements": "str", "default": []},
    "path": {"type": "path", "required": True},
}


def main() -> None:
    """Read the recorded expectations, and choose."""
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    try:
        recorded = read_json(module.params["path"])
    except (OSError, ValueError):
        recorded = None
    try:
        held = hold(module.params["wanted"], recorded, module.params["gpus"], module.params["kept"])
    except ValueError as error:
        module.fail_json(msg=f"{error} [verify.expectations]")
    if held.because:
        module.warn(held.because)
    module.exit_json(changed=False, expectations=held.expectations, because=held.because)


if __name__ == "__main__":
    main()
