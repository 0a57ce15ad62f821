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
left_out:
  description: Fingerprints of other keys that were in the file of the key and are not kept.
  type: list
  elements: str
  returned: always
  sample: []
"""

import os
from typing import Any, Dict, List, Tuple

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.host import placing
from ansible_collections.gpuwright.node.plugins.module_utils.host.bounded import find_program
from ansible_collections.gpuwright.node.plugins.module_utils.packages import dnf_repository
from ansible_collections.gpuwright.node.plugins.module_utils.packages.kept_key import (
    KeyRefused,
    Source,
    kept_key,
    read_key,
)

PUBLIC = 0o644


def keep_file(module: AnsibleModule, path: str, text: str, mode: int) -> List[Dict[str, Any]]:
    """Bring the file to this text in one step, or in check mode only say so; what differs, for --diff."""
    wanted = placing.Wanted(path, "file", text.encode("utf-8"), "", mode, os.geteuid(), os.getegid())
    found = placing.found_at(path)
    differs = placing.differences(found, wanted)
    if not module.check_mode:
        placing.place(wanted, differs)
        module.set_default_selinux_context(path, False)
    return [placing.shown(found, wanted, differs)] if differs else []


def keep_key(module: AnsibleModule) -> Tuple[List[Dict[str, Any]], List[str]]:
    """The key's file, and rpm's trust in it: what differs, and what was left out of the file."""
    wish = module.params
    there = read_key(wish["key_file"])
    if module.check_mode and not find_program("gpg"):
        return ([] if there else [{"before": "", "after": "", "after_header": wish["key_file"]}]), []
    source = Source(wish["key_url"], wish["key_username"], wish["key_password"], wish["fingerprint"], wish["timeout"])
    text, left_out = kept_key(there, source)
    diff = keep_file(module, wish["key_file"], text, PUBLIC)
    if not dnf_repository.is_trusted(wish["fingerprint"]):
        if not module.check_mode:
            dnf_repository.trust(wish["key_file"])
        key = {"path": wish["key_file"]}
        diff.append({"before": dict(key, rpm="not trusted"), "after": dict(key, rpm="trusted")})
    return diff, left_out


def settings(wish: Dict[str, Any]) -> Dict[str, str]:
    """The section, as dnf reads it."""
    login = {key: wish[key] for key in ("username", "password") if wish[key]}
    return {
        "name": wish["description"],
        "baseurl": wish["baseurl"],
        "gpgkey": f"file://{wish['key_file']}",
        "gpgcheck": str(int(wish["gpgcheck"])),
        "repo_gpgcheck": str(int(wish["repo_gpgcheck"])),
        "sslverify": "1",
        **login,
    }


def main() -> None:
    """The key first, then the repository."""
    module = AnsibleModule(
        argument_spec={
            "id": {"type": "str", "required": True},
            "description": {"type": "str", "required": True},
            "baseurl": {"type": "str", "required": True},
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
        },
        supports_check_mode=True,
    )
    wish = module.params
    path = os.path.join(wish["reposdir"], wish["id"] + ".repo")
    try:
        diff, left_out = keep_key(module) if wish["key_wanted"] else ([], [])
        before = placing.found_at(path).content.decode("utf-8", "surrogateescape")
        text = dnf_repository.repository_text(before, wish["id"], settings(wish))
        repository = keep_file(module, path, text, 0o600 if wish["username"] else PUBLIC)
    except KeyRefused as error:
        module.fail_json(msg=str(error))
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"{path}: {error} [repository.file]")
    diff += repository
    module.exit_json(changed=bool(diff), repository_changed=bool(repository), left_out=left_out, diff=diff)


if __name__ == "__main__":
    main()
