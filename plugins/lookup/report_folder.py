# SPDX-License-Identifier: Apache-2.0
"""Where reports go that have no folder of their own."""

from __future__ import annotations

DOCUMENTATION = """
name: report_folder
author: The gpuwright developers (@gpuwright)
version_added: "0.1.0"
short_description: The folder of reports on the controller, unless told otherwise
description:
  - C(reports) beside C(site.yml) of a checkout. Where the collection is installed, C(reports) in the folder in which
    ansible-playbook was started.
options: {}
"""
EXAMPLES = """
- ansible.builtin.debug:
    msg: "{{ lookup('gpuwright.node.report_folder') }}"
"""
RETURN = """
_raw:
  description: The folder's path; it need not exist.
  type: list
  elements: str
"""

from ansible.plugins.lookup import LookupBase
from ansible_collections.gpuwright.node.plugins.plugin_utils.started import report_folder


class LookupModule(LookupBase):
    """`lookup('gpuwright.node.report_folder')`."""

    def run(self, terms: list, variables: dict | None = None, **kwargs: object) -> list[str]:
        return [str(report_folder())]
