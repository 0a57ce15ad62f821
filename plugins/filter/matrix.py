# SPDX-License-Identifier: Apache-2.0
"""Read the matrix of what fits what: a folder of YAML files, each with top-level names of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.matrix import read_matrix


def matrix(folder: str, without: Sequence[str] = ()) -> dict[str, Any]:
    """The content of all YAML files of `folder` as one dict; files named in `without` are not read."""
    try:
        return read_matrix(folder, without)
    except ValueError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """Filters of the role preflight."""

    def filters(self) -> dict[str, Any]:
        return {"matrix": matrix}
