# SPDX-License-Identifier: Apache-2.0
"""The judgement of an acceptance, for the role accept: which groups are tried next, and each node's certificate."""

from __future__ import annotations

DOCUMENTATION = """
name: accept
author: The gpuwright developers (@gpuwright)
version_added: "0.2.0"
short_description: The next step of an acceptance, its results, and the certificates of its nodes
description:
  - For the role accept. It computes with what it is given; no host is contacted and nothing is written.
options:
  _terms:
    description:
      - C(step) is the next step of the tournament, with C(kind) and C(groups).
      - C(round) is the row of the history that the answers to a step make.
      - C(certificates) are the certificates of all nodes, by name.
      - C(page) is the page of one certificate.
      - C(refusal) says in one message why a node is not accepted; it is empty for one that is.
    type: str
    choices: [step, round, certificates, page, refusal]
    required: true
  nodes:
    description: Names of all nodes that began, in order. For C(step).
    type: list
    elements: str
    default: []
  alive:
    description: Names of those that still take part. For C(step) and C(certificates).
    type: list
    elements: str
    default: []
  history:
    description: The rounds so far.
    type: list
    elements: dict
    default: []
  share_percent:
    description: Percentage by which a figure may stay below its reference. For C(step).
    type: float
    default: 10
  step:
    description: The step that was run. For C(round).
    type: dict
    default: {}
  answers:
    description: What each node printed, by name. For C(round) and C(certificates).
    type: dict
    default: {}
  number:
    description: Number of the step; an answer with another number does not count. For C(round).
    type: int
    default: 0
  expected:
    description: What each node must be, by name. For C(certificates).
    type: dict
    default: {}
  run:
    description: Times and settings of the run. For C(certificates).
    type: dict
    default: {}
  certificate:
    description: One certificate. For C(page) and C(refusal).
    type: dict
    default: {}
  folder:
    description: Folder of the certificates. For C(refusal).
    type: str
    default: ""
"""
EXAMPLES = """
- ansible.builtin.debug:
    msg: "{{ lookup('gpuwright.node.accept', 'step', nodes=ansible_play_hosts, alive=ansible_play_hosts) }}"
"""
RETURN = """
_raw:
  description: What was asked for.
  type: list
  elements: raw
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.gpuwright.node.plugins.plugin_utils.accept import certificate, tournament
from ansible_collections.gpuwright.node.plugins.plugin_utils.accept.figures import answer_in


class LookupModule(LookupBase):
    """`lookup('gpuwright.node.accept', 'step', ...)`."""

    def run(self, terms: list, variables: dict | None = None, **kwargs: object) -> list[Any]:
        self.set_options(var_options=variables, direct=kwargs)
        work = getattr(self, f"_{terms[0]}", None) if terms and terms[0] in CHOICES else None
        if work is None:
            raise AnsibleLookupError(f"accept does not know {terms}; it knows {', '.join(CHOICES)}")
        return [work()]

    def _step(self) -> dict[str, Any]:
        share = self.get_option("share_percent") / 100.0
        nodes, alive, history = (self.get_option(name) for name in ("nodes", "alive", "history"))
        return tournament.next_step(nodes, alive, history, share)._asdict()

    def _round(self) -> dict[str, Any]:
        step = tournament.Step(**self.get_option("step"))
        return tournament.gathered(step, self._answers(), self.get_option("number"))

    def _certificates(self) -> dict[str, Any]:
        expected, history, run = (self.get_option(name) for name in ("expected", "history", "run"))
        answers = self._answers()
        lost = set(answers) - set(self.get_option("alive"))
        return certificate.certificates(answers, expected, history, run, lost)

    def _page(self) -> str:
        return certificate.page(self.get_option("certificate"))

    def _refusal(self) -> str:
        return certificate.refusal(self.get_option("certificate"), self.get_option("folder"))

    def _answers(self) -> dict[str, Any]:
        return {str(host): answer_in(text) for host, text in self.get_option("answers").items()}


CHOICES = ("step", "round", "certificates", "page", "refusal")
