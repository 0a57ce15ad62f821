# SPDX-License-Identifier: Apache-2.0
"""A public variable of any role: the inventory's value, or the default that its role declares."""

from __future__ import annotations

DOCUMENTATION = """
name: setting
author: The gpuwright developers (@gpuwright)
version_added: "0.2.0"
short_description: A public variable of a role of this collection, or its default
description:
  - Roles that check a node before it is changed, or verify it afterwards, need the variables of other roles.
  - The default is that of the role's argument specs, the only place that has it besides the role's C(defaults).
options:
  _terms:
    description: Names of variables, such as C(system_training_user).
    type: list
    elements: str
    required: true
"""
EXAMPLES = """
- ansible.builtin.debug:
    msg: "{{ lookup('gpuwright.node.setting', 'system_training_user') }}"
"""
RETURN = """
_raw:
  description: One value for each name.
  type: list
  elements: raw
"""

from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible_collections.gpuwright.node.plugins.plugin_utils.role_options import value_of


class LookupModule(LookupBase):
    """`lookup('gpuwright.node.setting', 'system_training_user')`."""

    def run(self, terms: list, variables: dict | None = None, **kwargs: object) -> list[Any]:
        return [value_of(name, variables or {}, self._templar) for name in terms]
