#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

DOCUMENTATION = r"""
---
module: dnf_module_stream
short_description: Enable, disable or reset a module stream of dnf, and switch only when allowed
version_added: "0.1.0"
description:
  - Reads the current state from C(/etc/dnf/modules.d) in milliseconds; if it is already as wanted, neither dnf nor a
    repository is contacted.
  - Changes it with C(dnf module enable), C(disable) and C(reset), and then verifies that dnf has recorded the change.
  - Another enabled stream is replaced only with O(allow_switch). The module then removes those of O(packages) that are
    installed, resets the module and enables the wanted stream, in this order, so that a run that was interrupted
    continues where it stopped. Before the removal, it makes sure that the wanted stream is offered.
options:
  name:
    description: Name of the module.
    type: str
    required: true
  stream:
    description: Name of the stream; required when O(state=enabled) and refused otherwise.
    type: str
  state:
    description:
      - C(enabled) selects O(stream), C(disabled) hides the module, C(reset) leaves the choice to the repository.
    type: str
    choices: [enabled, disabled, reset]
    default: enabled
  allow_switch:
    description: Whether another enabled stream may be replaced, which removes or replaces O(packages).
    type: bool
    default: false
  packages:
    description: Names (globs allowed) of packages that must be removed when the stream is switched.
    type: list
    elements: str
    default: []
  install:
    description:
      - Packages that must be installed after a switch. If it is set, O(packages) are not removed first, but replaced by
        those of the stream in one transaction, after everything has been downloaded. If a step before that transaction
        fails, the stream that was enabled is enabled again.
      - Installed packages of another O(version), such as an interrupted run leaves behind, then also count as a switch.
    type: list
    elements: str
    default: []
  version:
    description: Branch or version of all O(packages) of the stream, such as C(580); required with O(install).
    type: str
    default: ""
  timeout:
    description: Seconds that each dnf command may take, including the time that it waits for another one's lock.
    type: float
    default: 900
attributes:
  check_mode:
    support: full
    description: Predicts the change, and fails if the real run would, without changing anything.
  diff_mode:
    support: full
    description: Shows state and stream before and after.
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Select the driver branch
  gpuwright.node.dnf_module_stream:
    name: nvidia-driver
    stream: 580-dkms

- name: Replace another branch
  gpuwright.node.dnf_module_stream:
    name: nvidia-driver
    stream: 580-dkms
    allow_switch: true
    packages: [cuda-drivers, kmod-nvidia-latest-dkms, nvidia-driver]
    install: [kmod-nvidia-latest-dkms, nvidia-driver-cuda]
    version: "580"
"""

RETURN = r"""
stream_before:
  description: The stream that was enabled; empty if none was.
  returned: when the state could be read
  type: str
stream_after:
  description: The stream that is enabled now, or would be in check mode; empty if none is.
  returned: when the state could be read
  type: str
available:
  description: Streams that the enabled repositories offer; null if it was not necessary to ask.
  returned: when the state could be read
  type: list
  elements: str
packages_to_remove:
  description: Installed packages that a switch removes or replaces, or would.
  returned: when the state could be read
  type: list
  elements: str
commands:
  description: Commands that were run, or would be, in order.
  returned: when the state could be read
  type: list
  elements: str
"""

from typing import Any, Dict

from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.packages.module_streams import Dnf, StreamError
from ansible_collections.gpuwright.node.plugins.module_utils.packages.stream_change import (
    bring_about,
    wanted_change,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "stream": {"type": "str"},
            "state": {"type": "str", "choices": ["enabled", "disabled", "reset"], "default": "enabled"},
            "allow_switch": {"type": "bool", "default": False},
            "packages": {"type": "list", "elements": "str", "default": []},
            "install": {"type": "list", "elements": "str", "default": []},
            "version": {"type": "str", "default": ""},
            "timeout": {"type": "float", "default": 900},
        },
        required_if=[("state", "enabled", ("stream",))],
        supports_check_mode=True,
    )
    result: Dict[str, Any] = {"changed": False}
    try:
        bring_about(wanted_change(module.params), Dnf(module.params["timeout"]), module.check_mode, result)
    except StreamError as error:
        module.fail_json(msg=f"{error} [driver.stream]", **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
