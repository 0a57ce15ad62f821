#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

DOCUMENTATION = r"""
---
module: package_lock
short_description: Lock packages in addition to a plan's lock file
version_added: "0.2.0"
description:
  - Resolves packages from an index and wheels on the controller, with their dependencies, for a node's Python. The
    versions in the plan's lock file stay as they are.
  - Writes each package with its SHA-256 into a lock file in O(locks). The file's name includes a digest of everything
    that determines its content. An existing file is kept; remove it to get newer versions.
  - Runs on the controller with its pip, and contacts no host. Nothing is installed.
options:
  packages:
    description: Packages from an index (C(lpips==0.1.4)), and paths of wheels, relative to O(folder) unless absolute.
    type: list
    elements: str
    required: true
  base_name:
    description: Name of the plan's lock file.
    type: str
    required: true
  base:
    description: Text of the plan's lock file.
    type: str
    required: true
  python:
    description: The node's Python, such as C(3.11).
    type: str
    required: true
  folder:
    description: The folder of the inventory.
    type: path
    required: true
  locks:
    description: Folder of lock files, from O(folder) unless absolute. Empty means C(locks).
    type: str
    default: ""
  index_url:
    description: Index to use instead of those that pip is configured for on the controller.
    type: str
    default: ""
  extra_index_url:
    description: Index to use in addition to those that pip is configured for.
    type: str
    default: ""
attributes:
  check_mode:
    support: full
    description: Resolves, and writes nothing.
  diff_mode:
    support: none
    description: The lock file is not part of a node's state.
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Lock a package beside the plan
  gpuwright.node.package_lock:
    packages: [lpips==0.1.4, wheels/my_gan-0.1.0-py3-none-any.whl]
    base_name: py3.11-torch2.10.0-cu128.txt
    base: "{{ lookup('file', 'py3.11-torch2.10.0-cu128.txt') }}"
    python: "3.11"
    folder: "{{ inventory_dir }}"
"""

RETURN = r"""
path:
  description: The lock file.
  returned: success
  type: str
"""

from ansible.module_utils.basic import AnsibleModule

SPEC = {
    "packages": {"type": "list", "elements": "str", "required": True},
    "base_name": {"type": "str", "required": True},
    "base": {"type": "str", "required": True},
    "python": {"type": "str", "required": True},
    "folder": {"type": "path", "required": True},
    "locks": {"type": "str", "default": ""},
    "index_url": {"type": "str", "default": "", "no_log": True},
    "extra_index_url": {"type": "str", "default": ""},
}


def main() -> None:
    """The work is done by the action plug-in of this name, plugins/action/package_lock.py."""
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    module.fail_json(
        msg="package_lock runs on the controller and not on a node: name it gpuwright.node.package_lock in a task, so "
        "that Ansible finds the action plug-in of the collection."
    )


if __name__ == "__main__":
    main()
