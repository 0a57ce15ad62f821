# SPDX-License-Identifier: Apache-2.0
"""What the modules of repositories say in common: login, key, and what they return."""

from __future__ import annotations


class ModuleDocFragment:
    # Their specification is in plugins/module_utils/packages/repository_options.py.
    DOCUMENTATION = r"""
options:
  description:
    description: One line for people.
    type: str
    required: true
  also:
    description: The vendor's own address, where the repository's is a mirror. It is no second source of the same
      packages, either.
    type: str
    default: ""
  username:
    description: Login for the repository's address. Empty sends none.
    type: str
    default: ""
  password:
    description: Its password; never shown. With a login, only root can read the file that has it.
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
  timeout:
    description: Seconds that the server of the key may take.
    type: int
    default: 30
  only_kept:
    description: Whether nothing is done where the repository's file is not there.
    type: bool
    default: false
"""
