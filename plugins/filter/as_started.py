# SPDX-License-Identifier: Apache-2.0
"""Commands in a text of a role, as this run of the toolkit was started."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpuwright.node.plugins.plugin_utils.started import told


class FilterModule:
    """For what roles say."""

    def filters(self) -> dict[str, Any]:
        return {"as_started": told}
