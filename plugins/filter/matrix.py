# SPDX-License-Identifier: Apache-2.0
"""Read the matrix of which versions fit together: a folder of YAML files, no two with the same top-level name."""

from __future__ import annotations

DOCUMENTATION = r"""
---
name: matrix
author: The gpuwright developers (@gpuwright)
version_added: 0.1.0
short_description: The matrix of versions as one dict
description:
  - Reads all YAML files of a folder, no two of which have the same top-level name.
positional: without
options:
  _input:
    description: The folder.
    type: path
    required: true
  without:
    description: Names of files that are not read.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- ansible.builtin.debug:
    msg: "{{ (role_path ~ '/files/matrix') | gpuwright.node.matrix(without=['devices.yml']) }}"
"""

RETURN = r"""
_value:
  description: The content of the files.
  type: dict
"""

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
