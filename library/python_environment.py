#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: whether a Python environment is as it was installed."""

DOCUMENTATION = r"""
module: python_environment
short_description: Tell whether a Python environment is whole
description:
  - Holds every file of the environment against the RECORD of the package that brought it, every package against
    lock.txt in the environment, and imports modules. Changes nothing.
  - The checks C(framework.files) and C(framework.imports) judge by the same code, so what they call damaged is damaged
    here.
  - An environment that is not there is not whole, and no error, since check mode has not made it.
options:
  path:
    description: The environment.
    type: path
    required: true
  imports:
    description: Modules that must be importable by an ordinary user.
    type: list
    elements: str
    default: []
  user:
    description: The ordinary user who imports them; root runs no code of packages.
    type: str
    default: nobody
  all_hashes:
    description:
      - Also hash the files that have not changed since the environment was complete (5 to 10 GB). Sizes are compared
        either way.
    type: bool
    default: false
  only:
    description: Names of packages to which the judgement is confined. Empty means all but O(leave_out).
    type: list
    elements: str
    default: []
  leave_out:
    description: Names of packages that somebody else installs and repairs.
    type: list
    elements: str
    default: []
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Look whether the environment is whole
  gpuwright.node.python_environment:
    path: /opt/gpuwright/venvs/0123456789abcdef
    imports: [torch, numpy]
  register: environment_state
"""

RETURN = r"""
whole:
  description: Nothing is missing, changed or of another version, and all modules can be imported.
  type: bool
  returned: always
  sample: true
because:
  description: What is wrong in one sentence, empty when nothing is.
  type: str
  returned: always
  sample: "torch/__init__.py is missing (torch)"
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.training.environment_state import judge_environment

SPEC = {
    "path": {"type": "path", "required": True},
    "imports": {"type": "list", "elements": "str", "default": []},
    "user": {"type": "str", "default": "nobody"},
    "all_hashes": {"type": "bool", "default": False},
    "only": {"type": "list", "elements": "str", "default": []},
    "leave_out": {"type": "list", "elements": "str", "default": []},
}


def main():
    """Look, and say what was seen."""
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    try:
        because = judge_environment(**module.params)
    except OSError as error:
        module.fail_json(msg=f"{module.params['path']}: {error}. Mend that and run again")
    module.exit_json(changed=False, whole=not because, because=because)


if __name__ == "__main__":
    main()
