# SPDX-License-Identifier: Apache-2.0
"""The fact gpu_node_left_out: {kind, reason, next} of a host whose run is over while the other hosts continue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..started import callback_enabled

FACT = "gpu_node_left_out"
# Actions whose results may have it.
LEAVES_OUT = ("set_fact", "operator_lock", "gpu_verify")


def left_out_of(action: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """The fact, if this task of the action sets it; Ansible itself keeps no facts of a task that failed."""
    told = (result.get("ansible_facts") or {}).get(FACT)
    return told if action in LEAVES_OUT and isinstance(told, dict) else {}


def left_out_message(host: str, told: Mapping[str, Any]) -> str:
    """What the task that leaves the host out ends with; a run without the summary has to tell all here."""
    more = "; the end of this run says more."
    if not callback_enabled("summary"):
        more = f". {told['reason']} next: {told['next']}"
    return f"{host} is left out ({told['kind']}), the other hosts continue{more}"
