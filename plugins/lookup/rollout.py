# SPDX-License-Identifier: Apache-2.0
"""The hosts and batches of a rollout, for `hosts:` and `serial:` of its plays."""

from __future__ import annotations

DOCUMENTATION = """
name: rollout
short_description: The hosts of a rollout, and the sizes of its batches
description:
  - For C(hosts:) and C(serial:) of a play of C(playbooks/rollout.yml). The first call, before any host is
    contacted, checks what was asked for, prints the batches and writes the record of the rollout.
  - Returns no host in check mode, so that the batches are printed and nothing is done.
  - Needs the callback C(gpuwright.node.rollout).
options:
  _terms:
    description: The group whose hosts are rolled out.
    required: true
  want:
    description: What to return. C(hosts) is the list of their names, C(serial) the sizes of the batches.
    type: str
    choices: [hosts, serial]
    default: hosts
  name:
    description: Name of the record if the command line names none.
    type: str
    default: default
  again:
    description: Whether hosts that are done with the same plan are done again, as where packages are what changes.
    type: bool
    default: false
  whole:
    description: Whether the steps of the play belong together, so that tags are refused.
    type: bool
    default: false
  fact:
    description: A fact that an earlier play has set on the hosts whose turn it is, to how many of them may be down at
      once. Only these hosts are rolled out, without canaries. Empty is all hosts.
    type: str
    default: ""
"""
EXAMPLES = """
- name: Rollout
  hosts: "{{ query('gpuwright.node.rollout', 'gpu_nodes') }}"
  serial: "{{ query('gpuwright.node.rollout', 'gpu_nodes', want='serial') }}"
"""
RETURN = """
_raw:
  description: Names of hosts, or sizes of batches.
  type: list
  elements: raw
"""

from ansible import context
from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.gpuwright.node.plugins.plugin_utils.limits import NOBODY
from ansible_collections.gpuwright.node.plugins.plugin_utils.rollout import current

LISTING = ("syntax", "listhosts", "listtasks", "listtags")


class LookupModule(LookupBase):
    """`query('gpuwright.node.rollout', group)`."""

    def run(self, terms: list, variables: dict | None = None, **kwargs: object) -> list:
        self.set_options(var_options=variables, direct=kwargs)
        serial = self.get_option("want") == "serial"
        if any(context.CLIARGS.get(name) for name in LISTING):
            return ["100%"] if serial else [terms[0]]
        try:
            kind = current.Kind(*(self.get_option(name) for name in ("name", "again", "whole", "fact")))
            parts = current.batches_of(terms[0], (variables or {}).get("rollout_turn", "idle"), kind)
        except current.RolloutError as error:
            raise AnsibleLookupError(f"Nothing was done: {error}") from error
        if serial:
            return [len(part) for part in parts] or [1]
        return [host for part in parts for host in part] or [NOBODY]
