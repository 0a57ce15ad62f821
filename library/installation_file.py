#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

DOCUMENTATION = r"""
---
module: installation_file
short_description: Write the kickstart or preseed of a host
version_added: "0.2.0"
description:
  - Writes the file with which RHEL, Rocky Linux, AlmaLinux or Debian installs itself on a bare server without a person.
  - Runs on the controller and contacts no host. Everything that is missing or wrong is said at once, and nothing is
    written then.
  - The folder gets mode 0700 and the file 0600, since it may hold the hash of a password. I(--diff) does not show the
    hash.
options:
  answers:
    description: All variables C(kickstart_...) of the host with their values, as in the role kickstart.
    type: dict
    required: true
  installers:
    description: The file with what differs between the installers, C(roles/kickstart/files/installers.yml).
    type: path
    required: true
  folder:
    description: Where to write the file, on the controller.
    type: path
    required: true
  problems:
    description: What else is wrong with the host's variables, a line each; it is said together with the rest.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    support: full
    description: Says whether the file would change.
  diff_mode:
    support: full
    description: Shows the lines that change, without the hash of a password.
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Write the installation file
  gpuwright.node.installation_file:
    answers: "{{ dict(names | zip(query('vars', *names))) }}"
    installers: "{{ role_path }}/files/installers.yml"
    folder: "{{ inventory_dir }}/kickstart"
  vars:
    names: "{{ query('varnames', '^kickstart_') }}"
"""

RETURN = r"""
path:
  description: The file.
  returned: success
  type: str
  sample: inventory/kickstart/a5-01.ks.cfg
"""

from ansible.module_utils.basic import AnsibleModule

SPEC = {
    "answers": {"type": "dict", "required": True, "no_log": True},
    "installers": {"type": "path", "required": True},
    "folder": {"type": "path", "required": True},
    "problems": {"type": "list", "elements": "str", "default": []},
}


def main() -> None:
    """The work is done by the action plug-in of this name, plugins/action/installation_file.py."""
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    module.fail_json(
        msg="installation_file runs on the controller and not on a node: name it gpuwright.node.installation_file in a "
        "task, so that Ansible finds the action plug-in of the collection."
    )


if __name__ == "__main__":
    main()
