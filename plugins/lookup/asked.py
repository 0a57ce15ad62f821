# SPDX-License-Identifier: Apache-2.0
"""What a host's plan must know besides the host itself, and the environment that the plan makes."""

from __future__ import annotations

DOCUMENTATION = """
name: asked
author: The gpuwright developers (@gpuwright)
version_added: "0.2.0"
short_description: What the inventory asks of a plan, and the environment that results
description:
  - For the options of M(gpuwright.node.gpu_plan), and for what is checked before the plan is carried out.
options:
  _terms:
    description:
      - C(pins), C(locks) and C(also) are options of M(gpuwright.node.gpu_plan); C(also) needs the fact C(gpu_node).
      - C(circumstances) is C(also) without what the host lacks.
      - C(environment) is what the role framework_pytorch builds for the fact C(gpu_node_plan) - C(name) of its folder,
        C(lock), the text of its lock files, and C(beside), as P(gpuwright.node.package_lock#lookup) returns it.
      - C(repositories) is what the system layer relies on, for the facts C(gpu_node) and C(gpu_node_plan).
    type: list
    elements: str
    choices: [pins, locks, also, circumstances, environment, repositories]
    required: true
"""
EXAMPLES = """
- name: Decide the plan
  gpuwright.node.gpu_plan:
    matrix: "{{ role_path }}/files/matrix"
    also: "{{ lookup('gpuwright.node.asked', 'also') }}"
    pins: "{{ lookup('gpuwright.node.asked', 'pins') }}"
"""
RETURN = """
_raw:
  description: One answer for each term.
  type: list
  elements: raw
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.lookup import LookupBase
from ansible_collections.gpuwright.node.plugins.plugin_utils.host_values import needed_fact
from ansible_collections.gpuwright.node.plugins.plugin_utils.planning import asked


class LookupModule(LookupBase):
    """`lookup('gpuwright.node.asked', 'pins')`."""

    def run(self, terms: list, variables: dict | None = None, **kwargs: object) -> list[Any]:
        known = variables or {}
        of_host = asked(known, self._templar, self._loader)

        def circumstances() -> dict[str, Any]:
            return of_host.circumstances(boolean(of_host.setting("preflight_judges_only"), strict=False))

        answers: dict[str, Callable[[], Any]] = {
            "pins": of_host.pins,
            "locks": of_host.locks,
            "circumstances": circumstances,
            "also": lambda: {**circumstances(), **of_host.hardware(needed_fact(known, "gpu_node"))},
            "environment": lambda: of_host.environment(needed_fact(known, "gpu_node_plan")),
            "repositories": lambda: of_host.repositories(
                needed_fact(known, "gpu_node"), needed_fact(known, "gpu_node_plan")
            ),
        }
        for term in terms:
            if term not in answers:
                raise AnsibleLookupError(f"asked does not know {term!r}; it knows {', '.join(answers)}")
        return [answers[term]() for term in terms]
