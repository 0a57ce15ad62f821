# SPDX-License-Identifier: Apache-2.0
"""Whether this run has one of the collection's callbacks."""

from __future__ import annotations

DOCUMENTATION = """
name: callback_enabled
author: The gpuwright developers (@gpuwright)
version_added: "0.1.0"
short_description: Whether this run has a callback of this collection
description:
  - A checkout's C(summary) and C(lock) come with its playbooks; where the collection is installed,
    ansible.cfg names them.
options:
  _terms:
    description: Names of callbacks, such as C(summary).
    type: list
    elements: str
    required: true
"""
EXAMPLES = """
- ansible.builtin.debug:
    msg: "{{ lookup('gpuwright.node.callback_enabled', 'summary') }}"
"""
RETURN = """
_raw:
  description: One boolean for each name.
  type: list
  elements: bool
"""

from ansible.plugins.lookup import LookupBase
from ansible_collections.gpuwright.node.plugins.plugin_utils.started import callback_enabled


class LookupModule(LookupBase):
    """`lookup('gpuwright.node.callback_enabled', 'summary')`."""

    def run(self, terms: list, variables: dict | None = None, **kwargs: object) -> list[bool]:
        return [callback_enabled(str(name)) for name in terms]
