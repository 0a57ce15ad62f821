# SPDX-License-Identifier: Apache-2.0
"""The controller's side of the module file_tree: a folder of text files as one value."""

from __future__ import annotations

DOCUMENTATION = r"""
---
name: tree_files
author: The gpuwright developers (@gpuwright)
version_added: 0.1.0
short_description: Return a folder of sources as one value
description:
  - For M(gpuwright.node.file_tree), which writes it on a node. Products of builds and tests are left out.
positional: without
options:
  _input:
    description: The folder, on the controller.
    type: path
    required: true
  without:
    description: Folders in it that are left out.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- ansible.builtin.debug:
    msg: "{{ (role_path ~ '/files/tool') | gpuwright.node.tree_files }}"
"""

RETURN = r"""
_value:
  description: Relative name and content of every source.
  type: dict
"""

from ansible_collections.gpuwright.node.plugins.plugin_utils.trees import tree_digest, tree_files


class FilterModule:
    """Filters of the role preflight."""

    def filters(self) -> dict:
        return {"tree_files": tree_files, "tree_digest": tree_digest}
