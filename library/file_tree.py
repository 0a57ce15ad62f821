#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: a folder of small text files in one task."""

DOCUMENTATION = r"""
module: file_tree
short_description: Keep a folder of small text files exactly as given
description:
  - Writes what differs, removes what is too much, leaves the rest. ansible.builtin.copy needs a second for every file
    of a folder on every run; this needs one task.
  - Files get mode 0644, folders 0755, and belong to root.
options:
  dest:
    description: The folder, absolute. It belongs to this task alone.
    type: path
    required: true
  files:
    description: Relative name and content of every file.
    type: dict
    required: true
author: gpuwright
"""

EXAMPLES = r"""
- name: Install the library of the node's tools
  file_tree:
    dest: /usr/local/lib/gpuwright/gpuwright
    files: "{{ 'module_utils/gpuwright' | tree_files }}"
"""

RETURN = r"""
written:
  description: Names that were, or in check mode would be, written.
  type: list
  returned: always
removed:
  description: Names that were, or in check mode would be, removed.
  type: list
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.gpuwright.trees import apply_tree, tree_changes


def main():
    """Compare, then write."""
    module = AnsibleModule(
        argument_spec={"dest": {"type": "path", "required": True}, "files": {"type": "dict", "required": True}},
        supports_check_mode=True,
    )
    dest, files = module.params["dest"], module.params["files"]
    if not files:
        module.fail_json(
            msg="files is empty: that would remove everything below {}. Use ansible.builtin.file".format(dest)
        )
    try:
        to_write, to_remove = tree_changes(dest, files)
        if not module.check_mode:
            apply_tree(dest, files, to_write, to_remove)
    except (OSError, ValueError) as error:
        module.fail_json(msg="{} was not brought up to date: {}. Mend that and run again".format(dest, error))
    module.exit_json(changed=bool(to_write or to_remove), written=to_write, removed=to_remove)


if __name__ == "__main__":
    main()
