#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: a folder of small text files in one task."""

DOCUMENTATION = r"""
module: file_tree
short_description: Keep a folder of small text files exactly as given
description:
  - Writes files that differ, removes files that do not belong there, and leaves the rest. ansible.builtin.copy needs a
    second for every file of a folder on every run; this needs one task.
  - Files get mode 0644, folders 0755, and belong to root.
options:
  dest:
    description: Absolute path of the folder. Nothing else may write to it.
    type: path
    required: true
  files:
    description: Relative name and content of every file.
    type: dict
    required: true
  compile_for:
    description:
      - Paths of Python interpreters. The first that exists compiles the modules in C(dest) and keeps the compiled files
        there, readable by everybody; ordinary users cannot write them, and would compile at every start.
    type: list
    elements: path
    default: []
attributes:
  check_mode: {support: full, description: Says what would change and changes nothing.}
  diff_mode: {support: full, description: A record for each file.}
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Install the library of the node's tools
  gpuwright.node.file_tree:
    dest: /usr/local/lib/gpuwright/gpuwright
    files: "{{ 'plugins/module_utils' | tree_files }}"
    compile_for: [/usr/libexec/platform-python, /usr/bin/python3]
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
compiled:
  description: Names of the modules that were, or in check mode would be, compiled.
  type: list
  returned: always
"""

from ansible_collections.gpuwright.node.plugins.module_utils.host.bytecode import compile_modules, first_interpreter
from ansible_collections.gpuwright.node.plugins.module_utils.host.placing import one_row
from ansible_collections.gpuwright.node.plugins.module_utils.host.trees import apply_tree, tree_changes
from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule


def main() -> None:
    """Compare, then write."""
    module = AnsibleModule(
        argument_spec={
            "dest": {"type": "path", "required": True},
            "files": {"type": "dict", "required": True},
            "compile_for": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    dest, files = module.params["dest"], module.params["files"]
    if not files:
        module.fail_json(msg=f"files is empty: that would remove everything below {dest}. Use ansible.builtin.file")
    try:
        to_write, to_remove = tree_changes(dest, files)
        if not module.check_mode:
            apply_tree(dest, files, to_write, to_remove)
        python = first_interpreter(module.params["compile_for"])
        compiled = compile_modules(dest, python, write=not module.check_mode) if python else []
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"{dest} was not brought up to date: {error}. Mend that and run again [files.failed]")
    changed = bool(to_write or to_remove or compiled)
    rows = [(to_write, "differs or is not there", "as in the toolkit"), (to_remove, "is there", "removed")]
    rows.append((compiled, "not compiled", "compiled"))
    diff = [one_row(f"{dest}/{name}", "content", *words) for names, *words in rows for name in names]
    module.exit_json(changed=changed, written=to_write, removed=to_remove, compiled=compiled, diff=diff)


if __name__ == "__main__":
    main()
