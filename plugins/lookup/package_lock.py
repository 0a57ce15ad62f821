# SPDX-License-Identifier: Apache-2.0
"""The lock file of packages in addition to the plan's, as `gpuwright.node.lock` has written it on the controller."""

from __future__ import annotations

DOCUMENTATION = """
name: package_lock
author: The gpuwright developers (@gpuwright)
version_added: "0.2.0"
short_description: Lock file of packages in addition to the plan's
description:
  - Returns what M(gpuwright.node.package_lock) has written for these packages, this lock file and this Python. Nothing
    is resolved.
options:
  _terms:
    description: Packages from an index (C(lpips==0.1.4)) and paths of wheels on the controller.
    type: list
    elements: str
    required: true
  base_name:
    description: Name of the plan's lock file.
    required: true
  base:
    description: Text of the plan's lock file.
    required: true
  python:
    description: The node's Python, such as C(3.11).
    required: true
  folder:
    description: The inventory's folder. Lock files are in its subfolder C(locks); relative paths of wheels begin in the
      inventory's folder.
    required: true
  locks:
    description: Another folder of lock files, from O(folder) unless absolute.
    default: ""
"""
EXAMPLES = """
- ansible.builtin.debug:
    msg: "{{ lookup('gpuwright.node.package_lock', ['lpips'], **about) }}"
  vars:
    about: {base_name: plan.txt, base: "", python: "3.11", folder: "{{ inventory_dir }}"}
"""
RETURN = """
_raw:
  description:
    - C(path) of the lock file, C(found) whether it exists, its C(text), and C(wheels) as paths.
    - C(fault) is empty, or says which package cannot be used and why; then there is no path.
  type: list
  elements: dict
"""

from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible_collections.gpuwright.node.plugins.plugin_utils import package_lock


class LookupModule(LookupBase):
    """`lookup('gpuwright.node.package_lock', packages, base_name=..., base=..., python=..., folder=...)`."""

    def run(self, terms: list, variables: dict | None = None, **kwargs: Any) -> list[dict[str, Any]]:
        packages = [entry for term in terms for entry in (term if isinstance(term, list) else [term])]
        return [package_lock.lock_of(packages, **kwargs)]
