#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: a node's copy of the files that it needs of a bundle."""

DOCUMENTATION = r"""
module: bundle_files
short_description: Keep a node's copy of its part of a bundle as the bundle's list says
description:
  - Compares each file of O(dest) with its size and SHA-256, copies from the controller what is missing or altered, and
    removes what is not in the list. A file is moved into place only after its hash was computed on the node.
  - A copy that was interrupted continues with the files that are still missing.
options:
  dest:
    description: Folder on the node that holds nothing else.
    type: path
    required: true
  files:
    description: Size and sha256 of each file, by its path relative to O(dest).
    type: dict
    required: true
  source:
    description: The bundle's folder on the controller.
    type: path
  step:
    description: What the module does on the node; the action plug-in of this name sets it.
    type: str
    choices: [look, take, finish]
    default: look
  arrived:
    description: Where files lie that were copied to the node, by path; set by the action plug-in.
    type: dict
    default: {}
attributes:
  check_mode:
    support: full
    description: Says what would be copied.
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Copy the node's part of the bundle
  gpuwright.node.bundle_files:
    source: /media/bundle
    dest: /var/lib/gpuwright/bundle
    files: "{{ gpu_node_bundle.files }}"
"""

RETURN = r"""
missing:
  description: Files that were, or in check mode would be, copied.
  type: list
  returned: always
extras:
  description: Files that were, or in check mode would be, removed.
  type: list
  returned: always
bytes:
  description: Size of the missing files together.
  type: int
  returned: always
"""

import errno

from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.packages.bundle_files import (
    remove_extras,
    state_of,
    take,
)


def main() -> None:
    """One step: look, take what arrived, or remove what does not belong there."""
    module = AnsibleModule(
        argument_spec={
            "dest": {"type": "path", "required": True},
            "files": {"type": "dict", "required": True},
            "source": {"type": "path"},
            "step": {"type": "str", "choices": ["look", "take", "finish"], "default": "look"},
            "arrived": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    dest, files, step = (module.params[name] for name in ("dest", "files", "step"))
    try:
        if step == "look":
            found = state_of(dest, files)
            module.exit_json(changed=bool(found["missing"] or found["extras"]), **found)
        if module.check_mode:
            module.exit_json(changed=True)
        if step == "take":
            wrong = take(dest, files, module.params["arrived"])
            module.exit_json(changed=True, wrong=wrong)
        module.exit_json(changed=True, extras=remove_extras(dest, files))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            text = "{}: no room for the bundle's files ({}). Make room and run again; the rest is kept. [bundle.space]"
            module.fail_json(msg=text.format(dest, error))
        text = "The bundle's files cannot be kept in {}: {}. Mend that and run again. [bundle.files]"
        module.fail_json(msg=text.format(dest, error))


if __name__ == "__main__":
    main()
