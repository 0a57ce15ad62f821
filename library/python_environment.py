#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: checks whether a Python environment is still as it was installed."""

DOCUMENTATION = r"""
module: python_environment
short_description: Check whether a Python environment is intact
description:
  - Compares every file of the environment with the RECORD of the package that installed it, and every package with
    lock.txt in the environment, and imports modules. Changes nothing.
  - The checks C(framework.files) and C(framework.imports) use the same code, so an environment that they call damaged
    is damaged here, too.
  - An environment that does not exist is not intact, but no error, since check mode has not created it.
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
    description: The ordinary user who imports them; root runs no code from packages.
    type: str
    default: nobody
  all_hashes:
    description:
      - Whether to hash also the files that have not changed since the environment was complete (5 to 10 GB). Sizes are
        compared in any case.
    type: bool
    default: false
  only:
    description: Names of the only packages to check. Empty means all but O(leave_out).
    type: list
    elements: str
    default: []
  leave_out:
    description: Names of packages that something else installs and repairs.
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
  description: Whether nothing is missing, changed or of another version, and all modules can be imported.
  type: bool
  returned: always
  sample: true
because:
  description: What is wrong, in one sentence; empty if nothing is.
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


def main() -> None:
    """Examine the environment, and report the result."""
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    try:
        because = judge_environment(**module.params)
    except OSError as error:
        module.fail_json(msg=f"{module.params['path']}: {error}. Mend that and run again [framework.damaged]")
    module.exit_json(changed=False, whole=not because, because=because)


if __name__ == "__main__":
    main()
