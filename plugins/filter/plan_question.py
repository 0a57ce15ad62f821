# SPDX-License-Identifier: Apache-2.0
"""Questions of playbooks/plan.yml: a card's name becomes a host, a plan becomes a table."""

from __future__ import annotations

DOCUMENTATION = r"""
---
name: plan_question
author: The gpuwright developers (@gpuwright)
version_added: 0.1.0
short_description: Turn a question about a card into a host
description:
  - For the playbook plan, which contacts no host.
positional: system, ansible_core, machine, matrix
options:
  _input:
    description: Cards, such as C(2x Tesla V100-PCIE-16GB).
    type: str
    required: true
  system:
    description: System of the host, such as C(alma 8.10); empty for the newest that this controller manages.
    type: str
    required: true
  ansible_core:
    description: Version of the controller.
    type: str
    default: ''
  machine:
    description: Processor of the host.
    type: str
    default: ''
  matrix:
    description: The matrix, for its systems.
    type: dict
    required: true
"""

EXAMPLES = r"""
- ansible.builtin.debug:
    msg: "{{ 'T4' | gpuwright.node.plan_question('debian-12', matrix=__preflight_matrix) }}"
"""

RETURN = r"""
_value:
  description: The host as C(gpu_node), or C(problem).
  type: dict
"""

import shutil
from typing import Any

from ansible_collections.gpuwright.node.plugins.plugin_utils.plan import question as _question
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan import scanned as _scanned
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.input import managed_releases
from ansible_collections.gpuwright.node.plugins.plugin_utils.started import told


def plan_question(
    cards: str, system: str, ansible_core: str = "", machine: str = "", *, matrix: dict[str, Any]
) -> dict[str, Any]:
    """The host that the question means, or C(problem), one sentence for people."""
    # Nobody asked for a system that this controller cannot manage, so none is answered.
    releases = matrix["os_releases"] if system.strip() else managed_releases(matrix, ansible_core)
    try:
        return _question.imagined_host(cards, system, ansible_core, machine, releases)
    except ValueError as error:
        return {"problem": str(error)}


def plan_scanned(path: str, system: str, matrix: dict[str, Any]) -> dict[str, Any]:
    """The host in the file of a scan, or C(problem), one sentence for people."""
    try:
        host = _scanned.read_host(path)
        host = _scanned.with_system(host, system, matrix["os_releases"]) if system else host
    except ValueError as error:
        return {"problem": str(error)}
    command = told(f"ansible-playbook playbooks/plan.yml -e scan={path}") + " -e os='{}'"
    refused = _scanned.not_installed(matrix, host, command)
    return {"problem": refused["what"]} if refused else host


def plan_table(plan: dict[str, Any], host: dict[str, Any]) -> str:
    """The plan as text for this terminal, or for 80 columns if there is none."""
    return _question.plan_table(plan, host, shutil.get_terminal_size((80, 24)).columns)


class FilterModule:
    """Filters of the role preflight."""

    def filters(self) -> dict[str, Any]:
        return {"plan_question": plan_question, "plan_scanned": plan_scanned, "plan_table": plan_table}
