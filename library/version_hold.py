#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: holds installed packages at their version."""

DOCUMENTATION = r"""
module: version_hold
short_description: Hold installed packages at their version, release them, or let them change to planned versions
description:
  - On dnf's systems a block of C(versionlock.list) for each owner of holds, on apt's a file of preferences. Lines of
    others stay as they are.
  - One call of the node asks which versions are installed and writes the holds, in one step.
options:
  owner:
    description: Word that marks the lines.
    type: str
    required: true
  family:
    description: C(redhat) or C(debian).
    type: str
    choices: [redhat, debian]
    required: true
  path:
    description: The list, or the owner's file.
    type: path
    required: true
  state:
    description:
      - With C(held), the installed versions of I(packages) are held; without any packages, what was held is released.
      - With C(planned), what is held may change to the planned versions and to no others.
      - With C(restored), the file is as in I(text).
    type: str
    choices: [held, planned, restored]
    default: held
  packages:
    description: Names to hold; for C(planned), what the package manager will be asked for.
    type: list
    elements: str
    default: []
  patterns:
    description: Patterns of names. Installed packages that match and have I(version) are held, too.
    type: list
    elements: str
    default: []
  version:
    description: See I(patterns); for C(planned), the version to which all held packages may change, such as C(580.*).
    type: str
    default: ''
  own_versions:
    description: For C(planned), names to which I(version) does not apply.
    type: list
    elements: str
    default: []
  text:
    description: For C(restored), what C(planned) has returned as C(before).
    type: str
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Hold the driver
  gpuwright.node.version_hold:
    owner: driver
    family: redhat
    path: /etc/dnf/plugins/versionlock.list
    packages: [nvidia-driver-cuda, kmod-nvidia-latest-dkms]
"""

RETURN = r"""
unsupported:
  description: Whether nothing can be held, because dnf's plugin, which the list belongs to, is not installed.
  type: bool
  returned: always
  sample: false
owners:
  description: Who holds something now; what nobody holds need not be allowed to change.
  type: list
  elements: str
  returned: unless RV(unsupported)
  sample: [driver]
before:
  description: Text of the file as it was; absent if there was none.
  type: str
  returned: if there was such a file
"""

import os
from typing import Any, Dict

from ansible_collections.gpuwright.node.plugins.module_utils.host import placing
from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.packages.holds import held_text, owners_now, planned_text
from ansible_collections.gpuwright.node.plugins.module_utils.packages.installed import FAMILIES

MODE = 0o644


def main() -> None:
    """Decide the file's text, compare, write."""
    module = AnsibleModule(
        argument_spec={
            "owner": {"type": "str", "required": True},
            "family": {"choices": list(FAMILIES), "required": True},
            "path": {"type": "path", "required": True},
            "state": {"choices": ["held", "planned", "restored"], "default": "held"},
            "packages": {"type": "list", "elements": "str", "default": []},
            "patterns": {"type": "list", "elements": "str", "default": []},
            "version": {"type": "str", "default": ""},
            "own_versions": {"type": "list", "elements": "str", "default": []},
            "text": {"type": "str"},
        },
        supports_check_mode=True,
    )
    asked = module.params
    try:
        found = placing.found_at(asked["path"])
        before = found.content.decode("utf-8", "surrogateescape") if found.state == "file" else None
        if asked["state"] == "held" and asked["packages"] and asked["family"] == "redhat" and before is None:
            module.exit_json(changed=module.check_mode, unsupported=True)
        if asked["state"] == "held":
            after = held_text(
                asked["family"], asked["owner"], asked["packages"], asked["patterns"], asked["version"], before
            )
        elif asked["state"] == "planned" and before is not None:
            after = planned_text(
                before, asked["family"], asked["owner"], asked["version"], asked["packages"], asked["own_versions"]
            )
        else:
            after = before if asked["state"] == "planned" else asked["text"]
        content = (after or "").encode("utf-8", "surrogateescape")
        state = "absent" if after is None else "file"
        wanted = placing.Wanted(asked["path"], state, content, "", MODE, os.geteuid(), os.getegid())
        differs = placing.differences(found, wanted)
        if not module.check_mode:
            placing.place(wanted, differs)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"The holds of {asked['owner']} in {asked['path']}: {error} [packages.hold]")
    if state == "file" and not module.check_mode:
        module.set_default_selinux_context(asked["path"], False)
    known: Dict[str, Any] = {} if before is None else {"before": before}
    known["owners"] = owners_now(asked["family"], asked["owner"], asked["path"], after)
    diff = [placing.shown(found, wanted, differs)] if differs else []
    module.exit_json(changed=bool(differs), unsupported=False, diff=diff, **known)


if __name__ == "__main__":
    main()
