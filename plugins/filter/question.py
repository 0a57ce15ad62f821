# SPDX-License-Identifier: Apache-2.0
"""Questions of playbooks/plan.yml: a card's name becomes a host, a plan becomes a table."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

from ansible_collections.gpuwright.node.plugins.plugin_utils.plan import question as _question
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan import scanned as _scanned
from ansible_collections.gpuwright.node.plugins.plugin_utils.started import told


def plan_question(
    cards: str, system: str, ansible_core: str = "", machine: str = "", releases: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """The host that is meant, or C(problem), one sentence for people."""
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
    """The plan as text for this terminal; for 80 columns where there is none."""
    return _question.plan_table(plan, host, shutil.get_terminal_size((80, 24)).columns)


class FilterModule:
    """Filters of the role preflight."""

    def filters(self) -> dict[str, Any]:
        return {"plan_question": plan_question, "plan_scanned": plan_scanned, "plan_table": plan_table}
