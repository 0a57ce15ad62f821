# SPDX-License-Identifier: Apache-2.0
"""Collect what preflight found on every host, and write it as one table."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpuwright.node.plugins.plugin_utils.preflight_problems import (
    common_problems,
    left_out,
    preflight_problems,
    problem_table,
)


class FilterModule:
    """Filters of the role preflight."""

    def filters(self) -> dict[str, Any]:
        return {
            "preflight_problems": preflight_problems,
            "preflight_left_out": left_out,
            "common_problems": common_problems,
            "problem_table": problem_table,
        }
