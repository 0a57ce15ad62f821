# SPDX-License-Identifier: Apache-2.0
"""The plan and its reasons, if they are new: for a node that has none yet, or was built from a different one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.probe.plan_choices import plan_choices
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.question import plan_table

from ..started import told
from .words import fold_names, name_some, printable, wrapped

# In a fleet with more kinds of nodes, the others are only named.
MOST_PLANS = 4


def news(plan: Mapping[str, Any], node: Mapping[str, Any]) -> str:
    """Why this plan is worth showing; "" if the node was built from the same one.

    node  gpu_node, whose `kept_plan` says from what the node was built, part by part
    """
    kept = node.get("kept_plan")
    if not isinstance(kept, dict):
        return "first plan of this node"
    now = plan_choices(plan)
    parts = [part for part in {**now, **kept} if (now.get(part) or "") != (kept.get(part) or "")]
    changes = [f"{part}: {kept.get(part) or 'none'} -> {now.get(part) or 'none'}" for part in parts]
    return "changed, " + "; ".join(changes) if changes else ""


def plan_lines(plans: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any], str]], columns: int) -> list[str]:
    """The plans of these hosts, the same of several hosts once; `plans`: by name the plan, gpu_node and the news."""
    alike: dict[tuple[str, str], list[str]] = {}
    for name, (plan, node, why) in plans.items():
        alike.setdefault((why, plan_table(plan, node, columns, neighbours=False)), []).append(name)
    lines: list[str] = []
    groups = list(alike.items())
    for (why, text), names in groups[:MOST_PLANS]:
        title = f"Plan for {name_some(fold_names(names), 2 * columns)}" + (f" ({printable(why)})" if why else "")
        lines += wrapped(title, columns, "", "  ")
        lines += [f"  {line}".rstrip() for line in text.splitlines()]
    rest = [name for _, names in groups[MOST_PLANS:] for name in names]
    if rest:
        lines += wrapped(
            f"and {len(groups) - MOST_PLANS} other plans, for {name_some(fold_names(rest), columns)}: "
            + told(f"ansible-playbook playbooks/plan.yml -e gpu={rest[0]}"),
            columns,
            "",
            "  ",
        )
    return lines
