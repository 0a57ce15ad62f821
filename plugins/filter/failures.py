# SPDX-License-Identifier: Apache-2.0
"""Why a package manager or pip failed, and what to do next."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpuwright.node.plugins.plugin_utils.failures.package_manager import package_failure
from ansible_collections.gpuwright.node.plugins.plugin_utils.failures.pip import pip_failure


class FilterModule:
    """Filters of the roles that install."""

    def filters(self) -> dict[str, Any]:
        return {"package_failure": package_failure, "pip_failure": pip_failure}
