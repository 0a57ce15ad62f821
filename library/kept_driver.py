#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

DOCUMENTATION = r"""
---
module: kept_driver
short_description: Keep the exact packages of a driver on the node, and put them back
version_added: "0.2.0"
description:
  - Before a driver is changed, O(state=kept) downloads the packages that are installed, at exactly their versions, and
    records them with the files and links that belong to them. O(state=put_back) brings the node back to the record, in
    one transaction and without a network, and proves it.
  - There is one record, of what was there before the last change. While that change has not passed (O(state=closed)
    has not been said), the record is not replaced, so that a second try does not keep what a broken one left.
options:
  state:
    description: What to do. C(read) only reports.
    type: str
    choices: [kept, closed, put_back, read]
    required: true
  family:
    description: The package manager's family.
    type: str
    choices: [redhat, debian]
    default: redhat
  source:
    description: C(node) keeps the files on the node; C(mirror) keeps their names, after proving that the repositories
      have them.
    type: str
    choices: [node, mirror]
    default: node
  driver:
    description: Version of the driver that is installed, such as C(570.172.08); empty if there is none.
    type: str
    default: ""
  patterns:
    description: Patterns of the names of packages of a driver. Those that have the driver's version are kept.
    type: list
    elements: str
    default: []
  also:
    description: Patterns of the names of packages that are kept whatever their version is.
    type: list
    elements: str
    default: []
  files:
    description: Small files to keep, each with C(path), and C(begin) and C(end) where only the lines from one to the
      other are meant.
    type: list
    elements: dict
    default: []
  links:
    description: Links to keep.
    type: list
    elements: path
    default: []
  parts:
    description: What O(state=put_back) puts back. C(packages) are the packages with the files and all links but the
      last one of O(links); C(environment) is that one link.
    type: list
    elements: str
    choices: [packages, environment]
    default: [packages, environment]
attributes:
  check_mode:
    support: full
    description: Says what would be kept or put back, and changes nothing.
  diff_mode:
    support: none
    description: Packages have no diff.
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Keep the packages of the driver
  gpuwright.node.kept_driver:
    state: kept
    driver: "570.172.08"
    patterns: ["*nvidia*", "cuda-drivers*"]
    links: [/opt/gpuwright/venvs/current]
"""

RETURN = r"""
driver:
  description: Version of the driver that is recorded; empty if nothing is.
  returned: success
  type: str
packages:
  description: Packages that are recorded, as the package manager names them.
  returned: success
  type: list
  elements: str
mib:
  description: Size of the kept files, in MiB; 0 where a mirror has them.
  returned: success
  type: int
environment:
  description: Where the recorded link to the environment leads; empty if there is none.
  returned: success
  type: str
install:
  description: Packages that are to be installed, or were, to be as recorded.
  returned: success
  type: list
  elements: str
remove:
  description: Names of packages that are to be removed, or were, since they were not there before.
  returned: success
  type: list
  elements: str
"""

from typing import Any, Dict

from ansible_collections.gpuwright.node.plugins.module_utils.driver_change import kept_driver
from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule

SPEC = {
    "state": {"type": "str", "choices": ["kept", "closed", "put_back", "read"], "required": True},
    "family": {"type": "str", "choices": ["redhat", "debian"], "default": "redhat"},
    "source": {"type": "str", "choices": ["node", "mirror"], "default": "node"},
    "driver": {"type": "str", "default": ""},
    "patterns": {"type": "list", "elements": "str", "default": []},
    "also": {"type": "list", "elements": "str", "default": []},
    "files": {"type": "list", "elements": "dict", "default": []},
    "links": {"type": "list", "elements": "path", "default": []},
    "parts": {
        "type": "list",
        "elements": "str",
        "choices": ["packages", "environment"],
        "default": ["packages", "environment"],
    },
}


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    result: Dict[str, Any] = {"changed": False}
    try:
        kept_driver.bring_about(module.params, module.check_mode, result)
    except kept_driver.KeptError as error:
        module.fail_json(msg=str(error), **result)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"What is kept cannot be read or written: {error} [upgrade.record]", **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
