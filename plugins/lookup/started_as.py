# SPDX-License-Identifier: Apache-2.0
"""How the toolkit was started."""

from __future__ import annotations

DOCUMENTATION = """
name: started_as
author: The gpuwright developers (@gpuwright)
version_added: "0.1.0"
short_description: Whether this is a checkout or an installed collection
description:
  - For the commands in what a node says to people.
options: {}
"""
EXAMPLES = """
- ansible.builtin.debug:
    msg: "{{ lookup('gpuwright.node.started_as') }}"
"""
RETURN = """
_raw:
  description: C(checkout) or C(collection).
  type: list
  elements: str
"""

from ansible.plugins.lookup import LookupBase
from ansible_collections.gpuwright.node.plugins.plugin_utils.started import STARTED_AS


class LookupModule(LookupBase):
    """`lookup('gpuwright.node.started_as')`."""

    def run(self, terms: list, variables: dict | None = None, **kwargs: object) -> list[str]:
        return [STARTED_AS]
