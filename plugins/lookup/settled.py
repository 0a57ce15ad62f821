# SPDX-License-Identifier: Apache-2.0
"""Which roles have nothing to do on this host, as an earlier run found and nothing has changed since."""

from __future__ import annotations

DOCUMENTATION = """
name: settled
author: The gpuwright developers (@gpuwright)
version_added: "0.1.0"
short_description: Roles that have nothing to do on this host
description:
  - A role is settled if an earlier run of all its tasks changed nothing on this host, from the same code, settings,
    plan and facts, and nothing that these tasks looked at has changed on the node since.
  - No role is settled in check mode, with C(gpuwright_full=true), where the last verdict was neither PASS nor WARN,
    or where a reboot is due.
options:
  _terms:
    description: None are needed.
    type: list
    elements: str
  environment:
    description: Name of the Python environment that the plan and its lock files make.
    type: str
  want:
    description:
      - C(decision) returns the settled C(roles), whether these are C(all), and the checksums of the roles' C(inputs).
      - C(record) returns what the verification records on the node after a run that changed nothing.
    type: str
    choices: [decision, record]
    default: decision
"""
EXAMPLES = """
- ansible.builtin.set_fact:
    gpu_node_settled: "{{ lookup('gpuwright.node.settled', environment='0123456789abcdef') }}"
"""
RETURN = """
_raw:
  description: The decision, or the record.
  type: list
  elements: dict
"""

from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible_collections.gpuwright.node.plugins.plugin_utils.entering import decision


class LookupModule(LookupBase):
    """`lookup('gpuwright.node.settled')`."""

    def run(self, terms: list, variables: dict | None = None, **kwargs: object) -> list[dict[str, Any]]:
        known = variables or {}
        if kwargs.get("want") == "record":
            return [decision.record(known)]
        return [decision.decided(known, self._templar, kwargs.get("environment"))]
