#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: a number of files, folders and links in one task."""

DOCUMENTATION = r"""
module: files
short_description: Keep files, folders and links of different places as given, in one task
description:
  - What ansible.builtin.copy and ansible.builtin.file do with one call of the node for each, this does with one.
  - Each file is replaced in one step, also on the disk itself, so that neither a reader nor a power cut meets half of
    it. The entries are made in their order; if one fails, those before it stay, and running again goes on.
  - If files of units below C(/etc/systemd/system) have changed, systemd reads its units again.
options:
  entries:
    description: What is wanted.
    type: list
    elements: dict
    required: true
    suboptions:
      path: {description: Absolute path. With an empty one the entry is left out., type: path, required: true}
      state:
        description: A C(directory) is created with those above it. C(absent) removes a file, a link, or a folder with
          all that is in it.
        type: str
        choices: [file, directory, link, absent]
        default: file
      content: {description: Text of a file. A dictionary or a list is written as JSON., type: raw, default: ''}
      target: {description: Where a link points to; it need not exist., type: str, default: ''}
      mode: {description: Octal in quotes. Files get the task's I(mode) and folders 0755., type: str}
      owner: {description: Name of an account. The task's I(owner) by default., type: str}
      group: {description: Name of a group. The task's I(group) by default., type: str}
  owner:
    description: Name of the account that owns entries that name none.
    type: str
    default: root
  group:
    description: Name of the group of entries that name none.
    type: str
    default: root
  mode:
    description: Mode of files that name none, octal, in quotes.
    type: str
    default: '0644'
  trees:
    description: Folders of small text files, kept as M(gpuwright.node.file_tree) keeps them, before the entries.
    type: list
    elements: dict
    default: []
    suboptions:
      dest: {description: Absolute path of the folder. Nothing else may write to it., type: path, required: true}
      files: {description: Relative name and content of every file., type: dict, required: true}
      compile_for:
        description: Paths of Python interpreters. The first that exists compiles the modules.
        type: list
        elements: path
        default: []
  prove:
    description: A program with its arguments that must succeed once all is there. Check mode does not run it.
    type: list
    elements: str
    default: []
  missing_account:
    description:
      - V(tell) changes nothing where an owner or group does not exist, and returns RV(no_account); V(fail) fails at the
        first such entry.
    type: str
    choices: [fail, tell]
    default: fail
  units:
    description:
      - Units of systemd that are set up in their order, after the files. In check mode, one whose file is not there yet
        would be.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name with its ending such as C(example.service)., type: str, required: true}
      enabled: {description: Whether it starts at boot. Without a value that stays as it is., type: bool}
      state:
        description: V(started) starts it if it does not run.
        type: str
        choices: ['', started]
        default: ''
      after_change:
        description: The same, if an entry of this task has changed; V(restarted) begins it anew then.
        type: str
        choices: ['', started, restarted]
        default: ''
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Install the program and its settings
  gpuwright.node.files:
    owner: root
    group: root
    mode: "0644"
    entries:
      - {path: /etc/example, state: directory, mode: "0755"}
      - {path: /etc/example/settings.json, content: "{{ settings | to_nice_json }}\n"}
      - {path: /usr/local/bin/example, content: "{{ lookup('file', 'example', rstrip=false) }}", mode: "0755"}
      - {path: /usr/bin/example, state: link, target: /usr/local/bin/example}

- name: Install a timer with its service
  gpuwright.node.files:
    entries:
      - {path: /etc/systemd/system/example.service, content: "{{ lookup('template', 'example.service.j2') }}"}
      - {path: /etc/systemd/system/example.timer, content: "{{ lookup('template', 'example.timer.j2') }}"}
    units:
      - {name: example.timer, enabled: true, state: started, after_change: restarted}
"""

RETURN = r"""
paths:
  description: The paths that were, or in check mode would be, changed.
  type: list
  elements: str
  returned: always
  sample: [/etc/example/settings.json]
no_account:
  description: What does not exist; empty if all owners and groups do.
  type: str
  returned: always
  sample: there is no account trainer or no group trainer
units:
  description: The units that were, or in check mode would be, enabled, disabled, started or restarted.
  type: list
  elements: str
  returned: always
  sample: [example.timer]
"""

from ansible_collections.gpuwright.node.plugins.module_utils.host.wanted_files import FilesError, keep
from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule

ENTRY = {
    "path": {"type": "path", "required": True},
    "state": {"choices": ["file", "directory", "link", "absent"], "default": "file"},
    "content": {"type": "raw", "default": ""},
    "target": {"type": "str", "default": ""},
    "mode": {"type": "str"},
    "owner": {"type": "str"},
    "group": {"type": "str"},
}
TREE = {
    "dest": {"type": "path", "required": True},
    "files": {"type": "dict", "required": True},
    "compile_for": {"type": "list", "elements": "path", "default": []},
}
UNIT = {
    "name": {"type": "str", "required": True},
    "enabled": {"type": "bool"},
    "state": {"choices": ["", "started"], "default": ""},
    "after_change": {"choices": ["", "started", "restarted"], "default": ""},
}
SPEC = {
    "entries": {"type": "list", "elements": "dict", "required": True, "options": ENTRY},
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str", "default": "root"},
    "mode": {"type": "str", "default": "0644"},
    "trees": {"type": "list", "elements": "dict", "default": [], "options": TREE},
    "prove": {"type": "list", "elements": "str", "default": []},
    "missing_account": {"choices": ["fail", "tell"], "default": "fail"},
    "units": {"type": "list", "elements": "dict", "default": [], "options": UNIT},
}


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    try:
        # As Ansible's own modules do: the label that the policy has for a path.
        result = keep(module.params, module.check_mode, lambda path: module.set_default_selinux_context(path, False))
    except FilesError as error:
        module.fail_json(msg=str(error), paths=error.paths)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
