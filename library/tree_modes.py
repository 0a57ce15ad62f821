#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: makes a folder readable by everybody and writable only by its owner."""

DOCUMENTATION = r"""
module: tree_modes
short_description: Let everybody read a folder and only its owner write to it
description:
  - Corrects the modes of files that a program has written under another umask, such as a virtual environment under 077.
    Everybody may enter the folders and run the programs.
  - Links are left alone. A folder that does not exist is no error, since check mode has not created it.
options:
  path:
    description: The folder.
    type: path
    required: true
attributes:
  check_mode: {support: full, description: Says what would change and changes nothing.}
  diff_mode: {support: full, description: The first of the files and folders.}
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Let everybody use the environment
  gpuwright.node.tree_modes:
    path: /opt/gpuwright/venvs/0123456789abcdef
"""

RETURN = r"""
repaired:
  description: How many files and folders had, or in check mode have, wrong modes.
  type: int
  returned: always
  sample: 0
examples:
  description: The first of these files and folders.
  type: list
  elements: str
  returned: always
  sample: []
"""

from ansible_collections.gpuwright.node.plugins.module_utils.host.placing import one_row
from ansible_collections.gpuwright.node.plugins.module_utils.host.tree_modes import repair_modes
from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule

MOST_EXAMPLES = 5


def main() -> None:
    """Examine every file, then correct the modes."""
    module = AnsibleModule(argument_spec={"path": {"type": "path", "required": True}}, supports_check_mode=True)
    path = module.params["path"]
    try:
        found = repair_modes(path, write=not module.check_mode)
    except OSError as error:
        module.fail_json(
            msg=f"The modes below {path} cannot be repaired: {error}. Mend that and run again [files.failed]"
        )
    diff = [one_row(name, "mode", "differs", "repaired") for name in found[:MOST_EXAMPLES]]
    module.exit_json(changed=bool(found), repaired=len(found), examples=found[:MOST_EXAMPLES], diff=diff)


if __name__ == "__main__":
    main()
