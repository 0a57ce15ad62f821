# SPDX-License-Identifier: Apache-2.0
"""Which roles have nothing to do on a host, and what is remembered of those that were entered."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean

from ..host_values import facts_of, needed_fact
from ..role_options import defaults
from . import inputs, seen


def decided(known: Mapping[str, Any], templar: Any, environment: object) -> dict[str, Any]:
    """For the host with these variables and an environment of that name: `{roles, all, inputs}`."""
    node = needed_fact(known, "gpu_node")
    plan = {**needed_fact(known, "gpu_node_plan"), "environment": environment}
    folders = [str(known.get(name) or "") for name in ("playbook_dir", "inventory_dir")]

    # Many roles ask for the same settings, and each may be a template.
    @functools.cache
    def value_of(name: str) -> Any:
        return templar.template(known.get(name, defaults().get(name)))

    checksums = {role: inputs.checksum(role, value_of, plan, node, folders) for role in inputs.SETTLING}
    roles = [] if asks_for_all(known, templar) else settled(node, checksums)
    return {"roles": roles, "all": len(roles) == len(inputs.SETTLING), "inputs": checksums}


def asks_for_all(known: Mapping[str, Any], templar: Any) -> bool:
    """Whether every role is to be entered, whatever is settled."""
    asked = templar.template(known.get("gpuwright_full", defaults().get("gpuwright_full")))
    return bool(known.get("ansible_check_mode")) or boolean(asked, strict=False)


def record(variables: Mapping[str, Any]) -> dict[str, Any]:
    decision = facts_of(variables).get("gpu_node_settled") or {}
    # What was not entered was not looked at: its record stays.
    checksums = {name: text for name, text in (decision.get("inputs") or {}).items() if name not in decision["roles"]}
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
