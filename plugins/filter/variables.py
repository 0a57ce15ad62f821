# SPDX-License-Identifier: Apache-2.0
"""Check the variables of a host against the argument specs of the roles, before anything else is checked.

Ansible itself says nothing about a misspelt name, accepts -3 as a count, and reads an unquoted 8.10 as 8.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.gpuwright.node.plugins.plugin_utils.variables.rules import problems_by_roles


class FilterModule:
    """Filters of the role preflight."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"variable_problems": problems_by_roles}
