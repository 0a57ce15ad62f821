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

import functools
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.lookup import LookupBase
from ansible_collections.gpuwright.node.plugins.lookup.setting import defaults
from ansible_collections.gpuwright.node.plugins.plugin_utils.entering import inputs, seen
from ansible_collections.gpuwright.node.plugins.plugin_utils.host_values import facts_of, needed_fact


class LookupModule(LookupBase):
    """`lookup('gpuwright.node.settled')`."""

    def run(self, terms: list, variables: dict | None = None, **kwargs: object) -> list[dict[str, Any]]:
        known = variables or {}
        if kwargs.get("want") == "record":
            return [self._record(known)]
        node = needed_fact(known, "gpu_node")
        plan = {**needed_fact(known, "gpu_node_plan"), "environment": kwargs.get("environment")}
        folders = [str(known.get(name) or "") for name in ("playbook_dir", "inventory_dir")]
        # Many roles ask for the same settings, and each may be a template.
        value_of = functools.cache(lambda name: self._value(name, known))
        checksums = {role: inputs.checksum(role, value_of, plan, node, folders) for role in inputs.SETTLING}
        roles = [] if self._full(known) else settled(node, checksums)
        return [{"roles": roles, "all": len(roles) == len(inputs.SETTLING), "inputs": checksums}]

    def _value(self, name: str, variables: Mapping[str, Any]) -> Any:
        return self._templar.template(variables.get(name, defaults().get(name)))

    def _full(self, variables: Mapping[str, Any]) -> bool:
        asked = boolean(self._value("gpuwright_full", variables), strict=False)
        return bool(variables.get("ansible_check_mode")) or asked

    def _record(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        decision = facts_of(variables).get("gpu_node_settled") or {}
        # What was not entered was not looked at: its record stays.
        checksums = {
            name: text for name, text in (decision.get("inputs") or {}).items() if name not in decision["roles"]
        }
        host = seen.now.host(str(variables.get("inventory_hostname")))
        return {
            name: {"inputs": checksums[name], "things": sorted(map(list, role.things))}
            for name, role in (host.settled().items() if seen.now.active else ())
            if name in checksums
        }


def settled(node: Mapping[str, Any], checksums: Mapping[str, str]) -> list[str]:
    """The roles that have nothing to do. `node` is gpu_node with `settled`."""
    if (node.get("last_verdict") or {}).get("verdict") not in ("PASS", "WARN") or node["reboot"]["required"]:
        return []
    recorded = node.get("settled") or {}
    return [
        role
        for role in inputs.SETTLING
        if role in recorded and recorded[role]["inputs"] == checksums[role] and not recorded[role]["changed"]
    ]
