#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

DOCUMENTATION = r"""
---
module: gpu_scan
short_description: Scan any Linux host without installing anything
version_added: "0.2.0"
description:
  - Copies C(gpu-doctor.pyz) into the temporary folder of this task, runs it there, brings its report back and removes
    the folder again, also after a failure. Nothing else is written on the host.
  - An action plug-in on the controller. No module runs on the host, so the host can have any Python from 3.6 on,
    whichever ansible-core the controller has.
  - The report is that of M(gpuwright.node.gpu_verify) without a plan. Checks that need a plan, or a node that the
    toolkit has installed, are SKIP.
options:
  level:
    description: How much time the checks may take - C(quick) (some seconds) or C(standard) (under a minute).
    type: str
    choices: [quick, standard]
    default: standard
  folder:
    description:
      - Folder on the controller that receives the report as C(NAME.json), NAME being the host's name in the inventory,
        and the previous report in C(previous). It is created if it does not exist.
      - The report of a node that the toolkit has installed goes to C(NAME.scan.json), beside that of its verification.
    type: path
attributes:
  check_mode:
    support: full
    description: Scans as usual, since that changes nothing, but writes no report on the controller.
  diff_mode:
    support: none
    description: Changes nothing, so there is nothing to compare.
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: See what is there, and what is wrong
  gpuwright.node.gpu_scan:
    folder: reports
  register: result
"""

RETURN = r"""
verdict:
  description: The worst status of the checks; SKIP does not count.
  returned: success
  type: str
  sample: WARN
checks:
  description: One record for each check, as returned by gpu_verify.
  returned: success
  type: list
  elements: dict
ansible_facts:
  description: The fact C(gpu_node_verdict), as from gpu_verify.
  returned: success
  type: dict
report:
  description: The whole report; C(readings.probe) is what gpu_probe returns as C(gpu_node).
  returned: success
  type: dict
dest:
  description: The file of the report on the controller; empty if none was written.
  returned: success
  type: str
"""

from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule


def main() -> None:
    """The work is done by the action plug-in of this name, plugins/action/gpu_scan.py."""
    module = AnsibleModule(
        argument_spec={
            "level": {"type": "str", "choices": ["quick", "standard"], "default": "standard"},
            "folder": {"type": "path"},
        },
        supports_check_mode=True,
    )
    module.fail_json(
        msg="gpu_scan runs on the controller and not on a host: name it gpuwright.node.gpu_scan in a task, so that "
        "Ansible finds the action plug-in of the collection."
    )


if __name__ == "__main__":
    main()
