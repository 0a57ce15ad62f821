#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: a repository of dnf with its key, in one task."""

DOCUMENTATION = r"""
module: dnf_repository
short_description: Configure a repository of dnf and trust its pinned key
description:
  - Keeps the key in a file as M(gpuwright.node.repository_key) does, has rpm trust it, and then writes the section of
    the repository into its file, as ansible.builtin.yum_repository does. Other sections of that file stay.
  - In this order, so that dnf never sees a repository whose key is not there. If a step fails, running again goes on.
  - Other sources of the same id or address, in whichever file dnf reads, are taken over, in comments, or named in a
    refusal. Afterwards dnf is asked what it makes of all its files.
options:
  id:
    description: Name of the section, and of the file.
    type: str
    required: true
  baseurl:
    description: Address of the packages, without a login.
    type: str
    required: true
  key_wanted:
    description: Whether the key is looked at. False where check mode cannot have it yet, since a bundle brings it.
    type: bool
    default: true
  gpgcheck:
    description: Whether the packages are signed.
    type: bool
    required: true
  repo_gpgcheck:
    description: Whether the metadata are signed.
    type: bool
    required: true
  reposdir:
    description: Folder of the repositories' files.
    type: path
    default: /etc/yum.repos.d
extends_documentation_fragment: [gpuwright.node.repository]
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Configure EPEL
  gpuwright.node.dnf_repository:
    id: epel
    description: Extra Packages for Enterprise Linux 8
    baseurl: https://dl.fedoraproject.org/pub/epel/8/Everything/x86_64
    key_url: https://dl.fedoraproject.org/pub/epel/RPM-GPG-KEY-EPEL-8
    fingerprint: 94E279EB8D8F25B21810ADF121EA45AB2F86D6A1
    key_file: /etc/pki/rpm-gpg/RPM-GPG-KEY-epel
    gpgcheck: true
    repo_gpgcheck: false
"""

RETURN = r"""
repository_changed:
  description: Whether the repository's file was, or in check mode would be, changed.
  type: bool
  returned: always
  sample: true
taken_over:
  description: Files and lines of other sources that were, or in check mode would be, taken over.
  type: list
  elements: str
  returned: always
  sample: ["/etc/yum.repos.d/cuda-rhel8.repo:1"]
left_out:
  description: Fingerprints of other keys that were in the file of the key and are not kept.
  type: list
  elements: str
  returned: always
  sample: []
"""

import os

from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.packages.kept_key import KeyRefused
from ansible_collections.gpuwright.node.plugins.module_utils.packages.repository_options import (
    COMMON,
    end_where_not_kept,
    source_of,
)
from ansible_collections.gpuwright.node.plugins.module_utils.sources.relied import Relied
from ansible_collections.gpuwright.node.plugins.module_utils.takeover.configure import Refused
from ansible_collections.gpuwright.node.plugins.module_utils.takeover.configure_dnf import configure, keep_key, look


def main() -> None:
    """The key first, then the repository."""
    module = AnsibleModule(
        argument_spec={
            **COMMON,
            "baseurl": {"type": "str", "required": True},
            "key_wanted": {"type": "bool", "default": True, "no_log": False},
            "gpgcheck": {"type": "bool", "required": True},
            "repo_gpgcheck": {"type": "bool", "required": True},
            "reposdir": {"type": "path", "default": "/etc/yum.repos.d"},
        },
        supports_check_mode=True,
    )
    wish = module.params
    path = os.path.join(wish["reposdir"], wish["id"] + ".repo")
    end_where_not_kept(module, path)
    signed = (wish["gpgcheck"], wish["repo_gpgcheck"])
    relied = Relied(wish["id"], wish["baseurl"], wish["also"], path, wish["key_file"], wish["fingerprint"], *signed)
    try:
        # Before the key: a refusal leaves nothing behind.
        look(relied)
        diff, left_out = keep_key(relied, source_of(wish), module.check_mode) if wish["key_wanted"] else ([], [])
        login = {key: wish[key] for key in ("username", "password") if wish[key]}
        done = configure(relied, wish["description"], login, module.check_mode)
    except (KeyRefused, Refused) as error:
        module.fail_json(msg=str(error))
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"{path}: {error} [repository.file]")
    for changed in [] if module.check_mode else [*done.written, *([wish["key_file"]] if diff else [])]:
        module.set_default_selinux_context(changed, False)
    module.exit_json(
        changed=bool(diff + done.diff),
        repository_changed=path in done.written,
        taken_over=done.taken_over,
        left_out=left_out,
        diff=diff + done.diff,
    )


if __name__ == "__main__":
    main()
