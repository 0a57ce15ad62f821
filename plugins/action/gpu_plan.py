# SPDX-License-Identifier: Apache-2.0
"""Decide every version for a node on the controller, or refuse before anything is changed."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import yaml
from ansible.errors import AnsibleActionFail
from ansible.parsing.ajson import AnsibleJSONEncoder
from ansible.plugins.action import ActionBase
from ansible_collections.gpuwright.node.plugins.plugin_utils.host_values import facts_of
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.clash import conflict_message
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.matrix import CARDS, SHIPPED, read_matrix
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import one_way_out, solve

SPEC: dict[str, Any] = {
    "matrix": {"type": "raw", "required": True},
    "host": {"type": "dict"},
    "also": {"type": "dict", "default": {}},
    "pins": {"type": "dict", "default": {}},
    "locks": {"type": "list", "elements": "str"},
}
# Strategies load an action in the main process before they fork a worker for each host, so what is parsed here is
# parsed once in a run. Errors in the files are reported by the task, which reads them again.
with contextlib.suppress(OSError, ValueError, yaml.YAMLError):
    read_matrix(SHIPPED, without=[CARDS])


class ActionModule(ActionBase):
    """`gpu_plan:` of a task; the module of the same name documents it. No host is contacted for it."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(SPEC)
        host, also = options.pop("host"), options.pop("also")
        if host is None:
            # A fact that goes through a template is written as text and parsed again, which takes longer than the plan.
            host = facts_of(task_vars or {}).get("gpu_node")
        if host is None:
            raise AnsibleActionFail("missing required arguments: host, since no gpu_probe has left the fact gpu_node")
        options["host"] = {**host, **also}
        # Plain values, as a module gets them: Ansible's own text classes are marked against templating, and are slow.
        options = json.loads(json.dumps(options, cls=AnsibleJSONEncoder, vault_to_text=True))
        return {**result, **planned(**options)}


def planned(
    matrix: dict[str, Any] | str, host: dict[str, Any], pins: dict[str, str], locks: list[str] | None
) -> dict[str, Any]:
    """The result of the task: the plan as a fact, or `failed` with the clash.

    matrix  its content, or the folder of its files
    """
    try:
        matrix = matrix if isinstance(matrix, dict) else read_matrix(matrix, without=[CARDS])
    except (OSError, ValueError, yaml.YAMLError) as error:
        return {"failed": True, "msg": f"The matrix of versions cannot be read: {error} [plan.matrix]"}
    if locks is not None:
        matrix = {**matrix, "locks": locks}
    try:
        plan = solve(matrix, host, pins)
    except KeyError as error:
        missing = f"{error} is missing in host or matrix. Expected: what gpu_probe returns, and the matrix."
        return {"failed": True, "msg": missing}
    if "conflicts" in plan:
        conflicts = plan["conflicts"]
        together = one_way_out(matrix, host, pins, conflicts)
        return {
            "failed": True,
            "msg": conflict_message(host, conflicts, together),
            "conflicts": conflicts,
        }
    return {"changed": False, "ansible_facts": {"gpu_node_plan": plan}}
