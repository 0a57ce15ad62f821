#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
DOCUMENTATION = r"""
module: bundle_make
short_description: Keep what a host asks of a bundle, or finish the bundle and sign it
description:
  - With O(question), it keeps what a host's plan needs beside the bundle's folder.
  - Without, it says how much there is to download, downloads the wheels of all plans that were kept and of the
    controller, adds the collection and its matrix, removes what the bundle no longer needs, and writes and signs the
    list of its files. The same bundle again is left as it is.
  - Runs on the controller, and contacts no host.
options:
  folder:
    description: The bundle's folder. Plans and unfinished files lie beside it, in a folder of its name and C(.work).
    type: path
    required: true
  question:
    description: What the role preflight says about the host and its plan.
    type: dict
    default: {}
  key:
    description: The operator's private key of ssh, or the public one of a key that ssh-agent has.
    type: path
    default: ""
  days:
    description: Days after which the bundle is refused.
    type: int
    default: 90
  pythons:
    description: Versions of Python that the controller beside the nodes may have; its wheels are got for each.
    type: list
    elements: str
    choices: ["3.10", "3.11", "3.12"]
    default: []
  controller_only:
    description: Whether the bundle is for the controller alone, and needs no plans.
    type: bool
    default: false
  image:
    description: A container image to be carried along, as C(podman save) writes it; empty for none.
    type: path
    default: ""
attributes:
  check_mode:
    support: full
    description: Says how much there is to download, and writes nothing but the plans beside the bundle's folder.
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Finish the bundle
  gpuwright.node.bundle_make:
    folder: /srv/bundle
    key: ~/.ssh/gpuwright_bundle
    pythons: ["3.11"]
"""

RETURN = r"""
signer:
  description: Fingerprint of the key that has signed the bundle, for C(gpuwright_bundle_signer).
  returned: when the bundle was finished
  type: str
"""

from ansible.module_utils.basic import AnsibleModule

SPEC = {
    "folder": {"type": "path", "required": True},
    "question": {"type": "dict", "default": {}},
    "key": {"type": "path", "default": "", "no_log": False},
    "days": {"type": "int", "default": 90},
    "pythons": {"type": "list", "elements": "str", "choices": ["3.10", "3.11", "3.12"], "default": []},
    "controller_only": {"type": "bool", "default": False},
    "image": {"type": "path", "default": ""},
}


def main() -> None:
    """The work is done by the action plug-in of this name, plugins/action/bundle_make.py."""
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    module.fail_json(
        msg="bundle_make runs on the controller and not on a node: name it gpuwright.node.bundle_make in a task, so "
        "that Ansible finds the action plug-in of the collection."
    )


if __name__ == "__main__":
    main()
