# SPDX-License-Identifier: Apache-2.0
"""Guard of playbooks/drift.yml: it imports site.yml, which changes hosts unless Ansible was started in check mode."""

from __future__ import annotations

DOCUMENTATION = """
name: drift
author: The gpuwright developers (@gpuwright)
version_added: "0.2.0"
short_description: Let playbooks/drift.yml begin only in check mode, and end a host's run with what differs
description:
  - In C(hosts:) of the first play, it returns the group, or stops the run before any host is contacted if it was
    started without C(--check) and C(--diff), with C(--start-at-task), or without the callback that collects.
  - With O(want=sentence) it returns why the host's run ends with an error; empty if nothing differs.
options:
  _terms:
    description: The group or, with O(want=sentence), the host.
    type: list
    elements: str
    required: true
  want:
    description: What is returned.
    type: str
    choices: [hosts, sentence]
    default: hosts
"""
EXAMPLES = """
- name: Look only
  hosts: "{{ lookup('gpuwright.node.drift', lookup('gpuwright.node.gpu_nodes')) }}"
"""
RETURN = """
_raw:
  description: The group, or one sentence.
  type: list
  elements: str
"""

from collections.abc import Mapping
from typing import Any

from ansible import context
from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.gpuwright.node.plugins.plugin_utils.drift import current
from ansible_collections.gpuwright.node.plugins.plugin_utils.started import told

COMMAND = "ansible-playbook playbooks/drift.yml --check --diff"
LISTINGS = ("syntax", "listhosts", "listtasks", "listtags")


def problems(arguments: Mapping[str, Any], collecting: bool) -> list[str]:
    """Why looking for drift cannot begin. `arguments` are those of ansible-playbook; lists change nothing anyway."""
    if any(arguments.get(name) for name in LISTINGS):
        return []
    missing = [option for option in ("--check", "--diff") if not arguments.get(option[2:])]
    found = []
    if missing:
        found.append(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing, and without check mode the "
            f"layers of site.yml would change the hosts. Start it as: {told(COMMAND)} [drift.check]"
        )
    if arguments.get("start_at_task"):
        found.append(
            "--start-at-task leaves out the tasks before it, and what they look at would pass as not differing: choose "
            "layers with --tags [drift.start_at]"
        )
    if not collecting:
        found.append(
            "the callback gpuwright.node.drift is not loaded, so nothing would be collected: name it in "
            "callbacks_enabled of your ansible.cfg, or start gpuwright.node.drift itself [drift.callback]"
        )
    return found


class LookupModule(LookupBase):
    """`lookup('gpuwright.node.drift', 'gpu_nodes')`."""

    def run(self, terms: list, variables: dict | None = None, **kwargs: object) -> list[str]:
        if kwargs.get("want") == "sentence":
            return [current.sentence(str(name)) for name in terms]
        found = problems(context.CLIARGS, current.now.active)
        if found:
            raise AnsibleLookupError("Nothing was done: " + "; ".join(found))
        return [str(term) for term in terms]
