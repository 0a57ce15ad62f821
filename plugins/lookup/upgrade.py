# SPDX-License-Identifier: Apache-2.0
"""What an upgrade would change on this host, for the tasks of the role upgrade."""

from __future__ import annotations

DOCUMENTATION = """
name: upgrade
author: The gpuwright developers (@gpuwright)
version_added: "0.2.0"
short_description: The difference between a node's recorded plan and its new one
description:
  - Compares the facts C(gpu_node) and C(gpu_node_plan) of the host whose task asks.
options: {}
"""
EXAMPLES = """
- name: Print what the upgrade changes
  ansible.builtin.debug:
    msg: "{{ lookup('gpuwright.node.upgrade').table }}"
"""
RETURN = """
_raw:
  description: One record with C(parts), C(table) (lines for the screen) and C(libraries) (parts of which the old
    packages must be kept besides the driver's).
  type: list
  elements: dict
"""

from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible_collections.gpuwright.node.plugins.plugin_utils.host_values import needed_fact
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan import differences


class LookupModule(LookupBase):
    """`lookup('gpuwright.node.upgrade')`."""

    def run(self, terms: list, variables: dict | None = None, **kwargs: object) -> list[dict[str, Any]]:
        known = variables or {}
        rows = differences.differences(needed_fact(known, "gpu_node"), needed_fact(known, "gpu_node_plan"))
        return [
            {
                "parts": [row.part for row in rows],
                "table": differences.table(rows),
                "libraries": differences.replaced_libraries(rows),
            }
        ]
