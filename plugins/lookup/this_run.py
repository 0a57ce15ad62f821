# SPDX-License-Identifier: Apache-2.0
"""What only the controller knows about this run: how it was started, where its reports go, whether it has a summary."""

from __future__ import annotations

DOCUMENTATION = """
name: this_run
author: The gpuwright developers (@gpuwright)
version_added: "0.2.0"
short_description: How this run was started, where its reports go, and whether it ends with a summary
description:
  - For the messages of the toolkit's own roles and the place of their reports; no host is contacted.
options:
  _terms:
    description:
      - C(started_as) is C(checkout) or C(collection), for the commands in a node's messages.
      - C(report_folder) is the folder of reports for which no other is set. In a checkout it is C(reports) beside
        C(site.yml); if the collection is installed, C(reports) in the folder in which ansible-playbook was started.
      - C(name) tells this run from all others, such as one that has left facts in the controller's fact cache.
      - C(roles) are those whose variables every run checks.
      - C(summary) says whether the callback C(summary) is loaded. It comes with the toolkit's playbooks; somebody
        else's playbook that uses the toolkit's roles need not have it.
    type: list
    elements: str
    choices: [started_as, report_folder, name, roles, summary]
    required: true
"""
EXAMPLES = """
- ansible.builtin.debug:
    msg: "Reports go to {{ lookup('gpuwright.node.this_run', 'report_folder') }}"
"""
RETURN = """
_raw:
  description: The answer to each question, as text, boolean or list.
  type: list
  elements: raw
"""

from collections.abc import Callable

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.gpuwright.node.plugins.plugin_utils import started
from ansible_collections.gpuwright.node.plugins.plugin_utils.host_values import this_run
from ansible_collections.gpuwright.node.plugins.plugin_utils.layers import CHECKED

ANSWERS: dict[str, Callable[[], str | bool | list[str]]] = {
    "started_as": lambda: started.STARTED_AS,
    "report_folder": lambda: str(started.report_folder()),
    "name": this_run,
    "roles": lambda: list(CHECKED),
    "summary": lambda: started.callback_enabled("summary"),
}


class LookupModule(LookupBase):
    """`lookup('gpuwright.node.this_run', 'report_folder')`."""

    def run(self, terms: list, variables: dict | None = None, **kwargs: object) -> list[str | bool | list[str]]:
        for term in terms:
            if term not in ANSWERS:
                raise AnsibleLookupError(f"this_run does not know {term!r}; it knows {', '.join(ANSWERS)}")
        return [ANSWERS[term]() for term in terms]
