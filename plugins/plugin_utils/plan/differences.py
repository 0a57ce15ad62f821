# SPDX-License-Identifier: Apache-2.0
"""What an upgrade would change on a node: its recorded plan beside the new one, part by part."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.probe.plan_choices import plan_choices

NONE = "none"
# Parts whose change replaces packages that a driver's kept packages do not cover.
LIBRARIES = ("cuDNN", "NCCL")


@dataclasses.dataclass(frozen=True)
class Row:
    """One part of the plan, before and after."""

    part: str
    before: str
    after: str


def differences(node: Mapping[str, Any], plan: Mapping[str, Any]) -> list[Row]:
    """Rows for what differs, in the plan's order.

    node  the fact gpu_node, with the choices of its recorded plan      plan  the fact gpu_node_plan
    """
    kept = node.get("kept_plan") or {}
    rows = [
        Row(part, kept.get(part) or NONE, choice or NONE)
        for part, choice in plan_choices(plan).items()
        if (kept.get(part) or "") != choice
    ]
    driver, installed = plan["driver"], node["nvidia"].get("user_space") or ""
    if driver["branch"] and not driver["present"]:
        target = driver["version"] or f"newest of {driver['branch']}"
        if target != installed:
            rows.insert(0, Row("driver version", installed or NONE, target))
            if installed and plan["guards"]["driver"]:
                rows.append(Row("holds", f"the driver's packages at {installed}", f"at {target}"))
    return rows


def table(rows: Sequence[Row]) -> list[str]:
    """Lines in columns, for the screen."""
    if not rows:
        return ["Nothing differs from the recorded plan."]
    part, before = (max(len(getattr(row, name)) for row in rows) for name in ("part", "before"))
    return [f"{row.part:<{part}}  {row.before:<{before}}  ->  {row.after}" for row in rows]


def replaced_libraries(rows: Sequence[Row]) -> list[str]:
    """Parts of which one version replaces another on the node, so that the old packages must be kept, too."""
    return [row.part for row in rows if row.part in LIBRARIES and NONE not in (row.before, row.after)]
