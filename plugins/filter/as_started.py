# SPDX-License-Identifier: Apache-2.0
"""Rewrites the commands in a role's text to match how this run of the toolkit was started."""

from __future__ import annotations

DOCUMENTATION = r"""
---
name: as_started
author: The gpuwright developers (@gpuwright)
version_added: 0.2.0
short_description: Make the commands in a text match how the toolkit was started
description:
  - C(site.yml) becomes C(gpuwright.node.site) if the collection is installed.
options:
  _input:
    description: A text with a command of ansible-playbook in it.
    type: str
    required: true
"""

EXAMPLES = r"""
- ansible.builtin.debug:
    msg: "{{ 'ansible-playbook site.yml -l a5-01' | gpuwright.node.as_started }}"
"""

RETURN = r"""
_value:
  description: The text.
  type: str
"""

from typing import Any

from ansible_collections.gpuwright.node.plugins.plugin_utils.started import told


class FilterModule:
    """For the messages of roles."""

    def filters(self) -> dict[str, Any]:
        return {"as_started": told}
