#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: which form of the GPUs' description the node's container engines accept."""

DOCUMENTATION = r"""
module: container_engines
short_description: Find which form of the GPUs' description the node's container engines accept
description:
  - Asks podman and Docker's daemon for their versions (C(--version)). Both read the same CDI files, and one that does
    not know a field refuses the whole file.
  - Read-only; check mode makes no difference.
extends_documentation_fragment: [gpuwright.node.read_only]
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Find which form of the description the engines accept
  gpuwright.node.container_engines:
  register: engines
"""

RETURN = r"""
additional_groups:
  description:
    - Whether every engine that is installed accepts CDI 0.7.0, which has groups of device nodes (C(additionalGids)).
    - V(false) without an engine, or with one that does not say its version.
  type: bool
  returned: always
  sample: false
"""

from ansible_collections.gpuwright.node.plugins.module_utils.checks.containers.engine import accept_groups
from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule


def main() -> None:
    """Report only; change nothing."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    module.exit_json(changed=False, additional_groups=accept_groups("/"))


if __name__ == "__main__":
    main()
