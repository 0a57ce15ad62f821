#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: finds which packages are missing, and who is installing right now."""

DOCUMENTATION = r"""
module: missing_packages
short_description: Find which packages are missing, and who holds the package manager
description:
  - Asks rpm or dpkg, which answers in milliseconds where dnf or apt would take seconds, so that a node with nothing to
    install starts no transaction.
  - Names the process that holds the lock of dnf, yum, rpm, apt or dpkg. ansible.builtin.dnf ignores its own
    C(lock_timeout) and waits in silence.
  - Read-only; check mode makes no difference.
options:
  packages:
    description: Names as dnf understands them (name, name-version, name-version-release.arch, or something provided),
      or as apt does (name, name=version, name=pattern, or something provided).
    type: list
    elements: str
    required: true
  also:
    description: More packages to ask for, which count among RV(there) and not among RV(missing).
    type: list
    elements: str
    default: []
  family:
    description: Whose package database is asked. C(redhat) is rpm's, C(debian) dpkg's.
    type: str
    choices: [redhat, debian]
    default: redhat
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Find missing packages
  gpuwright.node.missing_packages:
    packages: [gcc, kernel-devel-4.18.0-477.10.1.el8_8.x86_64]
    family: "{{ gpu_node.os.family }}"
  register: state
  until: not state.locked
  retries: 60
  delay: 10
"""

RETURN = r"""
asked:
  description: The packages as given.
  type: list
  returned: always
missing:
  description: The packages that are not installed, in the order given.
  type: list
  returned: always
there:
  description: Those of O(packages) and O(also) that are installed.
  type: list
  returned: always
unfinished:
  description:
    - Packages that an interrupted transaction left behind. With dpkg unpacked but not configured, looked up if
      something is missing; with dnf, installed without certainty that their scriptlets ran.
  type: list
  returned: always
half_replaced:
  description:
    - Packages of which the old version is beside the new one, because dnf was interrupted or a scriptlet failed.
      Kernels are not looked at.
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

from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.packages.installed import (
    FAMILIES,
    half_replaced_packages,
    lock_holder,
    missing_packages,
    unfinished_packages,
)


def main() -> None:
    """Report only; change nothing."""
    module = AnsibleModule(
        argument_spec={
            "packages": {"type": "list", "elements": "str", "required": True},
            "also": {"type": "list", "elements": "str", "default": []},
            "family": {"choices": list(FAMILIES), "default": "redhat"},
        },
        supports_check_mode=True,
    )
    family = module.params["family"]
    try:
        names = module.params["packages"]
        # Two parts of a plan may ask for the same package, such as a compiler.
        asked = list(dict.fromkeys(names))
        absent = missing_packages(list(dict.fromkeys(names + module.params["also"])), family)
        missing = [name for name in asked if name in absent]
        holder = lock_holder()
        # Of dpkg's only what stops an installation; a transaction that runs at this moment is not finished, either.
        look = missing or (family == "redhat" and not holder)
        unfinished = unfinished_packages(family) if look else []
        half_replaced = half_replaced_packages(names, family) if look else []
    except OSError as error:
        look = "dpkg --audit" if family == "debian" else "rpm -qa | head"
        module.fail_json(msg=f"{error}. Check the package database: {look} [packages.database]")
    message = ""
    if holder:
        message = "The package manager is held by process {pid}: {command}. Wait for it or stop it.".format(**holder)
    module.exit_json(
        changed=False,
        asked=names,
        missing=missing,
        there=[name for name in names + module.params["also"] if name not in absent],
        unfinished=unfinished,
        half_replaced=half_replaced,
        locked=bool(holder),
        holder=holder,
        msg=message,
    )


if __name__ == "__main__":
    main()
