#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
DOCUMENTATION = r"""
module: bundle_use
short_description: Verify a bundle, and point the roles of a host at what it has for the host's plan
description:
  - Checks, on the controller, that the list of the bundle is signed by O(signer), has not expired, and that every file
    is the one that was signed. Nothing else may lie in the folder.
  - With O(question), it finds the part of the bundle that was made for the host's plan, and returns as facts where the
    roles will find packages, keys and wheels on the node once the role C(bundle) has copied them.
  - Runs on the controller. It contacts no node and changes nothing; check mode makes no difference.
options:
  path:
    description: The bundle's folder.
    type: path
    required: true
  signer:
    description: Fingerprint of the key that signs bundles, as C(ssh-keygen -l) prints it.
    type: str
    required: true
  question:
    description: What the role preflight says about the host and its plan. Empty verifies the bundle alone.
    type: dict
    default: {}
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Verify the bundle
  gpuwright.node.bundle_use:
    path: /media/bundle
    signer: SHA256:uNiVztksCsDhcc0u9e8BrrqTGlsrVXDnRaGfuNlsR5U
"""

RETURN = r"""
problems:
  description: What is wrong, as rows of preflight's table; empty if nothing is.
  type: list
  elements: dict
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule

SPEC = {
    "path": {"type": "path", "required": True},
    "signer": {"type": "str", "required": True},
    "question": {"type": "dict", "default": {}},
}


def main() -> None:
    """The work is done by the action plug-in of this name, plugins/action/bundle_use.py."""
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    module.fail_json(
        msg="bundle_use runs on the controller and not on a node: name it gpuwright.node.bundle_use in a task, so that "
        "Ansible finds the action plug-in of the collection."
    )


if __name__ == "__main__":
    main()
