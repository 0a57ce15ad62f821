#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: an account that programs run as."""

DOCUMENTATION = r"""
module: service_account
short_description: Keep an account without password and login shell, and its group, in one task
description:
  - What ansible.builtin.getent, group and user do with three calls of the node, this does with one - a system group, a
    system account in it, its home, no login shell, and no password.
  - An account whose comment is another one is somebody's own. Nothing is changed then, and RV(taken) says whose.
options:
  name:
    description: Name of the account.
    type: str
    required: true
  group:
    description: Name of its group.
    type: str
    required: true
  home:
    description: Its home, which is made. One that is there is made writable for nobody else.
    type: path
    required: true
  shell:
    description: Its shell.
    type: path
    default: /sbin/nologin
  comment:
    description: Its comment, by which an account of an earlier run is known.
    type: str
    required: true
  adopt:
    description: Whether an account with another comment is taken over.
    type: bool
    default: false
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Create the training user
  gpuwright.node.service_account:
    name: trainer
    group: trainer
    home: /var/lib/gpuwright-trainer
    comment: gpuwright trainer
  register: account
"""

RETURN = r"""
taken:
  description: C(uid) and C(comment) of somebody's own account of that name; empty if there is none.
  type: dict
  returned: always
  sample: {}
group_changed:
  description: Whether the group was, or in check mode would be, made.
  type: bool
  returned: always
  sample: false
"""

import os

from ansible_collections.gpuwright.node.plugins.module_utils.host.service_account import (
    Account,
    Change,
    bring_about,
    changes,
    find_account,
    find_group,
    home_changes,
    make_home,
    shown,
)
from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule


def main() -> None:
    """Look, then change what differs."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "group": {"type": "str", "required": True},
            "home": {"type": "path", "required": True},
            "shell": {"type": "path", "default": "/sbin/nologin"},
            "comment": {"type": "str", "required": True},
            "adopt": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    wish = module.params
    wanted = Account(wish["name"], wish["group"], wish["home"], wish["shell"], wish["comment"])
    try:
        known = find_account(wanted.name)
        if known and known.comment != wanted.comment and not wish["adopt"]:
            taken = {"uid": known.uid, "comment": known.comment}
            module.exit_json(changed=False, taken=taken, group_changed=False, diff=[])
        gid = find_group(wanted.group)
        steps = changes(wanted, known, gid)
        homeless = known is not None and not os.path.exists(wanted.home)
        if known and not homeless:
            steps += home_changes(wanted.name, wanted.home)
        if not module.check_mode:
            bring_about(steps)
            there = find_account(wanted.name) if homeless else None
            if there:
                make_home(wanted.home, there.uid, there.gid)
    except OSError as error:
        module.fail_json(msg=f"The account {wanted.name}: {error}. Mend that and run again [account.failed]")
    lost = [Change(f"home of {wanted.name}", "absent", "present", [])] if homeless else []
    diff = shown([*steps, *lost])
    module.exit_json(changed=bool(diff), taken={}, group_changed=gid is None, diff=diff)


if __name__ == "__main__":
    main()
