# SPDX-License-Identifier: Apache-2.0
"""Guard of -l: Ansible ignores what it cannot match, so that a typing error leaves hosts out, or excludes none."""

from __future__ import annotations

DOCUMENTATION = """
name: gpu_limit
short_description: Stop with an error that names what a C(--limit) misspells
description:
  - Provides no variables. It is called once the inventory has been read, which is before Ansible looks at C(--limit).
  - Stops if a part of C(--limit), including an exclusion, is the name or pattern of no host and no group.
options:
  stage:
    description: When the plugin is called.
    type: str
    default: inventory
    choices: [inventory]
"""

from typing import Any

from ansible import context
from ansible.errors import AnsibleError
from ansible.inventory.group import Group
from ansible.plugins.vars import BaseVarsPlugin
from ansible_collections.gpuwright.node.plugins.plugin_utils.limits import limit_problems


class VarsModule(BaseVarsPlugin):
    """Called for every group; the group `all` knows every name."""

    # Ansible keeps a plug-in without state, and makes any other anew whenever it reads the variables of a host.
    is_stateless = True

    def get_vars(self, loader: Any, path: str, entities: Any) -> dict[str, Any]:
        limit = context.CLIARGS.get("subset")
        for entity in entities if isinstance(entities, list) else [entities]:
            if limit and isinstance(entity, Group) and entity.name == "all":
                names = [
                    *(host.name for host in entity.get_hosts()),
                    *(group.name for group in entity.get_descendants()),
                ]
                found = limit_problems(limit, names)
                if found and entity.get_hosts():
                    raise AnsibleError(f"Nothing was done: {'. '.join(found)}")
        return {}
