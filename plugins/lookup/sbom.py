# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of a node (CycloneDX 1.6), as text."""

from __future__ import annotations

DOCUMENTATION = """
name: sbom
author: The gpuwright developers (@gpuwright)
version_added: "0.2.0"
short_description: The software of a node as a CycloneDX document
description:
  - Makes the document on the controller; no host is contacted. The same software gives the same serial number.
options:
  _terms:
    description: The host's name.
    type: list
    elements: str
    required: true
  node:
    description: The fact C(gpu_node).
    type: dict
    required: true
  software:
    description: What C(software_inventory) returned.
    type: dict
    required: true
  gpus:
    description: The records of C(nvidia_smi_info).
    type: list
    elements: dict
    default: []
"""
EXAMPLES = """
- name: Write the bill of materials
  ansible.builtin.copy:
    content: "{{ lookup('gpuwright.node.sbom', inventory_hostname, node=gpu_node, software=software) }}"
    dest: "/srv/sbom/{{ inventory_hostname }}.cdx.json"
  delegate_to: localhost
"""
RETURN = """
_raw:
  description: One document for each host.
  type: list
  elements: str
"""

import functools
from typing import Any

import yaml
from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.report import now_utc
from ansible_collections.gpuwright.node.plugins.plugin_utils.software import cyclonedx
from ansible_collections.gpuwright.node.plugins.plugin_utils.started import ROOT


@functools.cache
def release() -> str:
    """The toolkit's version: galaxy.yml of a checkout, MANIFEST.json of an installed collection; "" without either."""
    for file, keys in (("galaxy.yml", ("version",)), ("MANIFEST.json", ("collection_info", "version"))):
        if (ROOT / file).is_file():
            found: Any = yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))
            for key in keys:
                found = found[key]
            return str(found)
    return ""


class LookupModule(LookupBase):
    """`lookup('gpuwright.node.sbom', host, node=gpu_node, software=software)`."""

    def run(self, terms: list, variables: dict | None = None, **kwargs: Any) -> list[str]:
        try:
            node, software, gpus = kwargs["node"], kwargs["software"], kwargs.get("gpus") or []
            made = [cyclonedx.document(str(name), node, software, gpus, now_utc(), release()) for name in terms]
        except (KeyError, TypeError) as error:
            raise AnsibleLookupError(
                f"the bill of materials cannot be made: {error} is missing or has another form; expected gpu_node and "
                "the result of software_inventory. Run ansible-playbook playbooks/software.yml --tags sbom [sbom.input]"
            ) from error
        return [cyclonedx.to_text(document) for document in made]
