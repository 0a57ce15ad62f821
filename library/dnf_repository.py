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
  description:
    description: One line for C(dnf repolist).
    type: str
    required: true
  baseurl:
    description: Address of the packages, without a login.
    type: str
    required: true
  also:
    description: The vendor's own address, where O(baseurl) is a mirror. It is no second source of the same packages,
      either.
    type: str
    default: ""
  username:
    description: Login for that address. Empty sends none.
    type: str
    default: ""
  password:
    description: Its password; with a login, only root can read the file.
    type: str
    default: ""
  key_url:
    description: Where the key is fetched from, without a login.
    type: str
    required: true
  key_username:
    description: Login for that address. Empty sends none.
    type: str
    default: ""
  key_password:
    description: Its password; never shown.
    type: str
    default: ""
  fingerprint:
    description: Fingerprint of the primary key, 40 hex digits; spaces are ignored.
    type: str
    required: true
  key_file:
    description: The file of the key.
    type: path
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
  timeout:
    description: Seconds that the server of the key may take.
    type: int
    default: 30
  only_kept:
    description: Whether nothing is done where the repository's file is not there.
    type: bool
    default: false
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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.packages.kept_key import KeyRefused, Source
from ansible_collections.gpuwright.node.plugins.module_utils.sources.relied import Relied
from ansible_collections.gpuwright.node.plugins.module_utils.takeover.configure import Refused
from ansible_collections.gpuwright.node.plugins.module_utils.takeover.configure_dnf import configure, keep_key, look


def main() -> None:
    """The key first, then the repository."""
    module = AnsibleModule(
        argument_spec={
            "id": {"type": "str", "required": True},
            "description": {"type": "str", "required": True},
            "baseurl": {"type": "str", "required": True},
            "also": {"type": "str", "default": ""},
            "username": {"type": "str", "default": ""},
            "password": {"type": "str", "default": "", "no_log": True},
            "key_url": {"type": "str", "required": True, "no_log": False},
            "key_username": {"type": "str", "default": "", "no_log": False},
            "key_password": {"type": "str", "default": "", "no_log": True},
            "fingerprint": {"type": "str", "required": True},
            "key_file": {"type": "path", "required": True, "no_log": False},
            "key_wanted": {"type": "bool", "default": True, "no_log": False},
            "gpgcheck": {"type": "bool", "required": True},
            "repo_gpgcheck": {"type": "bool", "required": True},
            "reposdir": {"type": "path", "default": "/etc/yum.repos.d"},
            "timeout": {"type": "int", "default": 30},
            "only_kept": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    wish = module.params
    path = os.path.join(wish["reposdir"], wish["id"] + ".repo")
    if wish["only_kept"] and not os.path.lexists(path):
        module.exit_json(changed=False, repository_changed=False, taken_over=[], left_out=[], diff=[])
    signed = (wish["gpgcheck"], wish["repo_gpgcheck"])
    source = Source(wish["key_url"], wish["key_username"], wish["key_password"], wish["fingerprint"], wish["timeout"])
    relied = Relied(wish["id"], wish["baseurl"], wish["also"], path, wish["key_file"], wish["fingerprint"], *signed)
    try:
        # Before the key: a refusal leaves nothing behind.
        look(relied)
        diff, left_out = keep_key(relied, source, module.check_mode) if wish["key_wanted"] else ([], [])
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
