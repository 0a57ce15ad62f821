# SPDX-License-Identifier: Apache-2.0
"""Translate an error of dnf or apt into what happened and what to do next."""

from __future__ import annotations

DOCUMENTATION = r"""
---
name: package_failure
author: The gpuwright developers (@gpuwright)
version_added: 0.1.0
short_description: Explain a failure of dnf or apt, in one paragraph
description:
  - Names what happened and what to do next; logins are hidden.
positional: names, family
options:
  _input:
    description: The failed result of M(ansible.builtin.dnf) or M(ansible.builtin.apt), or of M(ansible.builtin.command)
      that ran dnf or dpkg.
    type: dict
    required: true
  names:
    description: Packages that were asked for.
    type: list
    elements: str
    required: true
  family:
    description: C(redhat) for dnf, C(debian) for apt.
    type: str
    default: redhat
"""

EXAMPLES = r"""
- ansible.builtin.debug:
    msg: "{{ ansible_failed_result | gpuwright.node.package_failure(['gcc']) }}"
"""

RETURN = r"""
_value:
  description: The paragraph.
  type: str
"""

from ansible_collections.gpuwright.node.plugins.plugin_utils.failures.package_manager import package_failure


class FilterModule:
    """Filters of the role preflight, with which every play begins."""

    def filters(self) -> dict:
        return {"package_failure": package_failure}
