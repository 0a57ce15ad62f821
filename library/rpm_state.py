#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: which packages are missing, and who is installing right now."""

DOCUMENTATION = r"""
module: rpm_state
short_description: Which packages are missing, and who holds the package manager
description:
  - Asks rpm, in milliseconds, what dnf would need seconds for, so that a node with nothing to install starts no
    transaction.
  - Names the process that holds the lock of dnf, yum or rpm. ansible.builtin.dnf ignores its own C(lock_timeout) and
    waits in silence.
  - Read-only, the same in check mode.
options:
  packages:
    description: Names as dnf understands them (name, name-version, name-version-release.arch, or something provided).
    type: list
    elements: str
    required: true
author: gpuwright
"""

EXAMPLES = r"""
- name: See what is missing
  rpm_state:
    packages: [gcc, kernel-devel-4.18.0-477.10.1.el8_8.x86_64]
  register: state
  until: not state.locked
  retries: 60
  delay: 10
"""

RETURN = r"""
missing:
  description: The packages that are not installed, in the order given.
  type: list
  returned: always
locked:
  description: Whether another process holds the package manager.
  type: bool
  returned: always
holder:
  description: C(pid) and C(command) of that process.
  type: dict
  returned: when locked
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.gpuwright.packages import lock_holder, missing_packages


def main():
    """Report, never change."""
    module = AnsibleModule(
        argument_spec={"packages": {"type": "list", "elements": "str", "required": True}}, supports_check_mode=True
    )
    try:
        missing = missing_packages(module.params["packages"])
    except OSError as error:
        module.fail_json(msg="{}. Check the package database: rpm -qa | head".format(error))
    holder = lock_holder()
    message = ""
    if holder:
        message = "The package manager is held by process {pid}: {command}. Wait for it or stop it.".format(**holder)
    module.exit_json(changed=False, missing=missing, locked=bool(holder), holder=holder, msg=message)


if __name__ == "__main__":
    main()
