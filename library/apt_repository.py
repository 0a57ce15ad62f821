#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: a repository of apt with its key, in one task, as the only source of its address."""

DOCUMENTATION = r"""
module: apt_repository
short_description: Configure a flat repository of apt that is trusted for its pinned key alone
description:
  - Keeps the key in a file as M(gpuwright.node.repository_key) does, the login in one that only root reads, and writes
    the repository into a file of its own, C(ID.sources).
  - Other sources of the same address are taken over, in comments, or named in a refusal. apt is asked first what it
    would make of all its files, and afterwards what it has made of them.
  - If the new lists cannot be read, everything is as it was before.
options:
  id:
    description: Name of the file.
    type: str
    required: true
  uri:
    description: Address of the repository, without a login.
    type: str
    required: true
  sources:
    description: Folder of apt's sources.
    type: path
    default: /etc/apt/sources.list.d
  logins:
    description: Folder of apt's logins.
    type: path
    default: /etc/apt/auth.conf.d
extends_documentation_fragment: [gpuwright.node.repository]
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Configure NVIDIA's repository
  gpuwright.node.apt_repository:
    id: cuda-debian12-x86_64
    description: NVIDIA CUDA
    uri: https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/
    key_url: https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/3bf863cc.pub
    fingerprint: EB693B3035CD5710E231E123A4B469963BF863CC
    key_file: /etc/apt/keyrings/cuda-debian12-x86_64.asc
"""

RETURN = r"""
repository_changed:
  description: Whether the repository's file was, or in check mode would be, changed.
  type: bool
  returned: always
taken_over:
  description: Files and lines of other sources that were, or in check mode would be, taken over.
  type: list
  elements: str
  returned: always
left_out:
  description: Fingerprints of other keys that were in the file of the key and are not kept.
  type: list
  elements: str
  returned: always
"""

import os

from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.packages.addresses import without_login
from ansible_collections.gpuwright.node.plugins.module_utils.packages.kept_key import KeyRefused
from ansible_collections.gpuwright.node.plugins.module_utils.packages.repository_options import (
    COMMON,
    end_where_not_kept,
    source_of,
)
from ansible_collections.gpuwright.node.plugins.module_utils.takeover.configure import Refused
from ansible_collections.gpuwright.node.plugins.module_utils.takeover.configure_apt import Wish, configure


def main() -> None:
    """Look at all files, then the key, the login and the repository; put all back if apt cannot read it."""
    module = AnsibleModule(
        argument_spec={
            **COMMON,
            "uri": {"type": "str", "required": True},
            "sources": {"type": "path", "default": "/etc/apt/sources.list.d"},
            "logins": {"type": "path", "default": "/etc/apt/auth.conf.d"},
        },
        supports_check_mode=True,
    )
    wish = module.params
    path = os.path.join(wish["sources"], wish["id"] + ".sources")
    end_where_not_kept(module, path)
    login = f"machine {wish['uri']} login {wish['username']} password {wish['password']}\n" if wish["username"] else ""
    asked = Wish(wish["id"], wish["description"], wish["uri"], wish["also"], path, wish["key_file"], source_of(wish))
    try:
        done = configure(asked, login, os.path.join(wish["logins"], f"gpuwright-{wish['id']}.conf"), module.check_mode)
    except KeyRefused as error:
        module.fail_json(msg=str(error))
    except Refused as error:
        module.fail_json(msg=without_login(str(error)))
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"{path}: {without_login(str(error))} [repository.file]")
    for changed in [] if module.check_mode else done.written:
        module.set_default_selinux_context(changed, False)
    module.exit_json(
        changed=bool(done.diff),
        repository_changed=path in done.written,
        taken_over=done.taken_over,
        left_out=done.left_out,
        diff=done.diff,
    )


if __name__ == "__main__":
    main()
