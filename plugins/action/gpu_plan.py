# SPDX-License-Identifier: Apache-2.0
"""Decide every version for a node on the controller, or refuse before anything is changed."""

from __future__ import annotations

import json
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.parsing.ajson import AnsibleJSONEncoder
from ansible.plugins.action import ActionBase
from ansible_collections.gpuwright.node.plugins.plugin_utils.host_values import facts_of
from ansible_collections.gpuwright.node.plugins.plugin_utils.planning import planned

SPEC: dict[str, Any] = {
    "matrix": {"type": "raw", "required": True},
    "host": {"type": "dict"},
    "also": {"type": "dict", "default": {}},
    "pins": {"type": "dict", "default": {}},
    "locks": {"type": "list", "elements": "str"},
    "knowledge": {"type": "str", "default": ""},
    "knowledge_signer": {"type": "str", "default": ""},
}


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
