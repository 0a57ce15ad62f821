#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: a bundle as the only source of packages, until it is left."""

DOCUMENTATION = r"""
module: package_sources
short_description: Switch off dnf's repositories that are not below a folder, or switch them on again
description:
  - Sets C(enabled=0) in C(/etc/yum.repos.d) for each repository that is on and has its packages elsewhere, and
    remembers them. Nothing else in the files is changed.
  - With O(state=absent), it switches on what it had switched off.
options:
  below:
    description: Address of the folder, such as C(file:///var/lib/gpuwright/bundle/).
    type: str
    required: true
  record:
    description: File that remembers what was switched off.
    type: path
    required: true
  state:
    description: Whether the folder is the only source.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode:
    support: full
    description: Says what would be switched.
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Use the bundle alone
  gpuwright.node.package_sources:
    below: file:///var/lib/gpuwright/bundle/
    record: /var/lib/gpuwright/bundle-sources.json
"""

RETURN = r"""
switched:
  description: Names of repositories that were, or in check mode would be, switched.
  type: list
  returned: always
"""

import os
from typing import Any, Dict

from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.packages.package_sources import (
    FOLDER,
    files_of,
    read_record,
    switched,
    to_switch_off,
    write_file,
    write_record,
)


def main() -> None:
    """Compare, then write the record, then the files."""
    module = AnsibleModule(
        argument_spec={
            "below": {"type": "str", "required": True},
            "record": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    try:
        answer = apply(module.params, module.check_mode)
    except (OSError, ValueError) as error:
        text = "The node's repositories cannot be switched: {}. Mend that and run again. [bundle.sources]"
        module.fail_json(msg=text.format(error))
    module.exit_json(**answer)


def apply(wish: Dict[str, Any], dry: bool) -> Dict[str, Any]:
    """The result of the module; OSError, ValueError."""
    texts, record = files_of(FOLDER), read_record(wish["record"])
    state = "0" if wish["state"] == "present" else "1"
    if state == "0":
        names = {path: to_switch_off(text, wish["below"]) for path, text in texts.items()}
    else:
        names = {path: record[path] for path in texts if path in record}
    after = {path: switched(texts[path], names[path], state) for path in names}
    changed = [path for path in after if after[path] != texts[path]]
    told = sorted(name for path in changed for name in names[path])
    if dry:
        return {"changed": bool(changed), "switched": told}
    if state == "0" and changed:
        # First: what was switched off and is not remembered would never be switched on.
        write_record(wish["record"], {path: sorted({*record.get(path, []), *names.get(path, [])}) for path in texts})
    for path in changed:
        write_file(path, after[path])
    if state == "1" and record:
        os.unlink(wish["record"])
    return {"changed": bool(changed), "switched": told}


if __name__ == "__main__":
    main()
