#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: the signing key of a repository, fetched once and kept without any other key."""

DOCUMENTATION = r"""
module: repository_key
short_description: Keep only the key with the pinned fingerprint in a file
description:
  - Leaves the file as it is if it holds exactly the pinned key, and removes any other keys that it holds besides.
    Otherwise it fetches the address and writes the pinned key, in one step, mode 0644.
  - Nothing is written if the answer holds anything but the pinned key, since the owner of any other key in it could
    sign packages, too. The fingerprint covers what is fetched, so the address may be plain http.
options:
  url:
    description: Where the key is fetched from, without a login.
    type: str
    required: true
  url_username:
    description: Login for that address. Empty sends none.
    type: str
    default: ""
  url_password:
    description: Its password; never shown.
    type: str
    default: ""
  fingerprint:
    description: Fingerprint of the primary key, 40 hex digits; spaces are ignored.
    type: str
    required: true
  dest:
    description: The file.
    type: path
    required: true
  timeout:
    description: Seconds that the server may take.
    type: int
    default: 30
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Fetch the key of EPEL
  gpuwright.node.repository_key:
    url: https://dl.fedoraproject.org/pub/epel/RPM-GPG-KEY-EPEL-8
    fingerprint: 94E279EB8D8F25B21810ADF121EA45AB2F86D6A1
    dest: /etc/pki/rpm-gpg/RPM-GPG-KEY-epel
"""

RETURN = r"""
left_out:
  description: Fingerprints of other keys that were in the file and are not kept.
  type: list
  elements: str
  returned: always
  sample: []
backup_file:
  description: Copy of the file that was replaced.
  type: str
  returned: when a file was replaced
  sample: /etc/apt/keyrings/cuda.asc.4711.2026-11-22@03:12:42~
"""

import os

from ansible_collections.gpuwright.node.plugins.module_utils.host.bounded import find_program
from ansible_collections.gpuwright.node.plugins.module_utils.host.whole_file import write_whole
from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.packages.kept_key import (
    KeyRefused,
    Source,
    kept_key,
    read_key,
)


def write(module: AnsibleModule, path: str, text: str) -> str:
    """Replace the file in one step, whatever root's umask; returns the copy of the previous one."""
    backup = module.backup_local(path) if os.path.exists(path) else ""
    write_whole(path, text.encode("ascii"))
    return backup


def main() -> None:
    """Read the file; fetch only if it does not hold the pinned key."""
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "url_username": {"type": "str", "default": ""},
            "url_password": {"type": "str", "default": "", "no_log": True},
            "fingerprint": {"type": "str", "required": True},
            "dest": {"type": "path", "required": True},
            "timeout": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    wish = module.params
    path = wish["dest"]
    there = read_key(path)
    if module.check_mode and not find_program("gpg"):
        # The role installs GnuPG on a host without it, but not in check mode.
        module.exit_json(changed=there is None, left_out=[])
    source = Source(wish["url"], wish["url_username"], wish["url_password"], wish["fingerprint"], wish["timeout"])
    try:
        text, left_out = kept_key(there, source)
    except KeyRefused as error:
        module.fail_json(msg=str(error))
    answer = {"changed": there != text.encode(), "left_out": left_out}
    if answer["changed"] and not module.check_mode:
        backup = write(module, path, text)
        answer.update({"backup_file": backup} if backup else {})
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
