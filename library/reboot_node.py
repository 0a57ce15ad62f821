#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

DOCUMENTATION = r"""
---
module: reboot_node
short_description: Reboot a node, and name a changed ssh host key at once
version_added: "0.1.0"
description:
  - An action plug-in on the controller. It is M(ansible.builtin.reboot) with one difference. That action takes every
    failed connection for a host that is still booting, and so keeps trying a host that came back with another host key
    until the time is up. This one ends at once if ssh refuses the host's key, and says how to compare and replace it.
options:
  msg:
    description: Message to logged-in users before the reboot.
    type: str
    default: Reboot initiated by Ansible
  reboot_timeout:
    description: Seconds within which the host must have come back.
    type: int
    default: 600
  connect_timeout:
    description: Seconds for each attempt to reach it.
    type: int
    default: 5
  post_reboot_delay:
    description: Seconds to wait after it was reached, before its boot time is read.
    type: int
    default: 0
attributes:
  check_mode:
    support: full
    description: Announces the reboot.
  diff_mode:
    support: none
    description: A reboot has no content to compare.
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Reboot for the new kernel
  gpuwright.node.reboot_node:
    msg: "a new kernel was installed"
    reboot_timeout: 900
"""

RETURN = r"""
rebooted:
  description: Whether the host was rebooted.
  returned: always
  type: bool
elapsed:
  description: Seconds that the reboot took.
  returned: success
  type: int
"""

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "msg": {"default": "Reboot initiated by Ansible"},
            "reboot_timeout": {"type": "int", "default": 600},
            "connect_timeout": {"type": "int", "default": 5},
            "post_reboot_delay": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    module.fail_json(
        msg="reboot_node ran on the host itself: its action plugin was not found. Name it in full: "
        "gpuwright.node.reboot_node"
    )


if __name__ == "__main__":
    main()
