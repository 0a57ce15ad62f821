#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: the link to the Python environment that is in use."""

DOCUMENTATION = r"""
module: current_environment
short_description: Make an environment the current one where no other is, and list the others
description:
  - Makes the link C(current) in one step, if there is none, and leaves it alone if it leads to another environment,
    since somebody may work by it. Whoever has found out that nobody does sets it with O(replace).
  - The environment need not exist yet in check mode.
options:
  folder:
    description: Folder of all environments, and of the link C(current).
    type: path
    required: true
  path:
    description: The environment.
    type: path
    required: true
  replace:
    description: Whether a link to another environment is replaced.
    type: bool
    default: false
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Make it the current one where no other is
  gpuwright.node.current_environment:
    folder: /opt/gpuwright/venvs
    path: /opt/gpuwright/venvs/0123456789abcdef
  register: environments
"""

RETURN = r"""
elsewhere:
  description: Another environment that the link still leads to; empty if there is none.
  type: str
  returned: always
  sample: /opt/gpuwright/venvs/fedcba9876543210
others:
  description: All other environments but that of O(path), the newest first.
  type: list
  elements: str
  returned: always
  sample: [/opt/gpuwright/venvs/fedcba9876543210]
"""

from ansible_collections.gpuwright.node.plugins.module_utils.host import placing
from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.training.environment_link import (
    elsewhere,
    link_of,
    other_environments,
)


def main() -> None:
    """Look where the link leads, and set it if it may be."""
    module = AnsibleModule(
        argument_spec={
            "folder": {"type": "path", "required": True},
            "path": {"type": "path", "required": True},
            "replace": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    folder, path = module.params["folder"], module.params["path"]
    wanted = link_of(folder, path)
    differs = []
    try:
        other = "" if module.params["replace"] else elsewhere(wanted)
        found = placing.found_at(wanted.path)
        if not other:
            differs = placing.differences(found, wanted)
            if not module.check_mode:
                placing.place(wanted, differs)
        others = other_environments(folder, path)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"{wanted.path} was not set: {error}. Mend that and run again [files.failed]")
    if not other and not module.check_mode:
        module.set_default_selinux_context(wanted.path, False)
    diff = [placing.shown(found, wanted, differs)] if differs else []
    module.exit_json(changed=bool(differs), elsewhere=other, others=others, diff=diff)


if __name__ == "__main__":
    main()
