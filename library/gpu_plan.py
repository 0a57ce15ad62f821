#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
DOCUMENTATION = r"""
module: gpu_plan
short_description: Choose driver, CUDA, cuDNN, Python and PyTorch for the GPUs of a node
description:
  - Returns a plan in which everything fits, or fails and names the clash and the nearest values that fit.
  - Whatever is not pinned gets the best value that fits all GPUs of the node. Best means still maintained, verified,
    available on PyPI itself, and of these the newest.
  - Runs on the controller. It contacts no node and changes nothing; check mode makes no difference.
options:
  matrix:
    description: Table of which versions fit together. Either the folder roles/preflight/files/matrix of the collection,
      which a run parses once, or its content as read by the filter C(matrix).
    type: raw
    required: true
  host:
    description: What M(gpuwright.node.gpu_probe) returned as C(gpu_node), by default that fact. It uses os, machine,
      kernel, gpus, nvidia and, if present, the text C(ansible_core), which is the controller's version.
    type: dict
  also:
    description: What O(host) lacks, or what counts instead of what it has.
    type: dict
    default: {}
  pins:
    description:
      - Values that the plan must respect, as quoted text. Empty text leaves the choice to the plan.
      - The keys are C(profile) (a name in the matrix), C(driver_branch), C(driver_flavour) (proprietary or open),
        C(driver_version), C(cuda), C(cudnn),
        C(nccl), C(python), C(pytorch), C(pytorch_build) (a build such as cu128, or cpu) and C(tensorflow).
      - C(cuda), C(cudnn), C(nccl), C(pytorch) and C(tensorflow) may name a series, such as "2.14" for its newest
        release that fits.
      - Without C(nccl), no NCCL is planned; without C(tensorflow), no TensorFlow, unless the profile includes it.
      - A pin takes precedence over the profile.
    type: dict
    default: {}
  locks:
    description: Names of the existing lock files. If omitted, the plan does not require one.
    type: list
    elements: str
  knowledge:
    description: A file, or a folder with knowledge.yml in it, on the controller, with newer tables than those of
      O(matrix). Whatever is not used of it is said in the plan's warnings.
    type: str
    default: ""
  knowledge_signer:
    description: Fingerprint of the SSH key that must have signed that file; without one its SHA-256 is enough.
    type: str
    default: ""
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Plan
  gpuwright.node.gpu_plan:
    matrix: "{{ role_path }}/files/matrix"
    also: {ansible_core: "{{ ansible_version.full }}"}
    pins:
      driver_branch: "580"
      pytorch: "2.10.0"
  register: answer
  # The plan is in answer.ansible_facts.gpu_node_plan, and in the fact gpu_node_plan
"""

RETURN = r"""
gpu_node_plan:
  description: The plan, as docs/parts/plan.md describes it. It is returned as a fact. Every part is in
    roles/preflight/files/gpu_node_plan.schema.json of the collection.
  type: dict
  returned: success
  sample: {"schema": 1, "driver": {"branch": "580", "flavour": "proprietary", "stream": "580-dkms"}}
conflicts:
  description:
    - Why there is no plan. Each has C(what) (sentences), C(clash) (the facts that contradict each other) and C(choices)
      (up to three, each a dict of pins with values that fit).
  type: list
  elements: dict
  returned: when there is no plan
  sample:
    - what: "CUDA 13.0 cannot compile for Tesla V100-PCIE-16GB (volta): the last toolkit for volta is 12.9."
      clash: ["Tesla V100-PCIE-16GB (volta)", "system_cuda_version \"13.0\""]
      choices: [{"cuda": "12.9"}]
msg:
  description: The conflicts as plain text in several lines, with the inventory variables to set.
  type: str
  returned: when there is no plan
"""

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    """The work is done by the action plug-in of this name, plugins/action/gpu_plan.py."""
    module = AnsibleModule(
        argument_spec={
            "matrix": {"type": "raw", "required": True},
            "host": {"type": "dict"},
            "also": {"type": "dict", "default": {}},
            "pins": {"type": "dict", "default": {}},
            "locks": {"type": "list", "elements": "str"},
            "knowledge": {"type": "str", "default": ""},
            "knowledge_signer": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    module.fail_json(
        msg="gpu_plan runs on the controller and not on a node: name it gpuwright.node.gpu_plan in a task, so that "
        "Ansible finds the action plug-in of the collection."
    )


if __name__ == "__main__":
    main()
