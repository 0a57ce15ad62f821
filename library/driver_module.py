#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

DOCUMENTATION = r"""
---
module: driver_module
short_description: Build the NVIDIA driver's module where it is missing, and prove it
version_added: "0.2.0"
description:
  - Asks C(modinfo) for the module file of each kernel, builds what is missing with DKMS, and asks again. A package
    whose scriptlet hides a failed build ends here, with the end of the build's log.
  - What a build that was killed left behind is removed, since DKMS would build nothing there.
options:
  kernels:
    description: Releases of the kernels that may boot.
    type: list
    elements: str
    required: true
  version:
    description: The driver's exact version, such as C(580.95.05), or a branch with its dot, such as C(580.).
    type: str
    required: true
  flavour:
    description: Which module it is. Empty takes either.
    type: str
    choices: ["", open, proprietary]
    default: ""
attributes:
  check_mode:
    support: full
    description: Says for which kernels a module is missing, and builds none.
  diff_mode:
    support: none
    description: A module has no diff.
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Build the module of driver 580 for the running kernel
  gpuwright.node.driver_module:
    kernels: ["{{ ansible_facts.kernel }}"]
    version: "580."
    flavour: open
"""

RETURN = r"""
built:
  description: Kernels whose module was missing and is built now.
  returned: success
  type: list
  elements: str
unbuilt:
  description: Kernels without a module; with rc 0 only in check mode.
  returned: always
  type: list
  elements: str
"""

from typing import Sequence

from ansible_collections.gpuwright.node.plugins.module_utils.driver_change.module_build import Outcome, Wanted, build
from ansible_collections.gpuwright.node.plugins.module_utils.host.bounded import find_program, run_bounded
from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.probe.host import ask

# A module for one kernel takes minutes on a slow machine.
BUILD_SECONDS = 3600
SPEC = {
    "kernels": {"type": "list", "elements": "str", "required": True},
    "version": {"type": "str", "required": True},
    "flavour": {"type": "str", "choices": ["", "open", "proprietary"], "default": ""},
}


def run(argv: Sequence[str]) -> str:
    """What the builder said, both streams, or why it was not run to its end."""
    done = run_bounded(argv, BUILD_SECONDS)
    return "\n".join(part for part in (done.stdout, done.stderr, done.problem) if part)


def refusal(wanted: Wanted, found: Outcome) -> str:
    """What is missing, what DKMS says, and what to do next."""
    first, names = found.unbuilt[0], ", ".join(found.unbuilt)
    module = " ".join(filter(None, (wanted.flavour, "NVIDIA module", wanted.version.rstrip("."))))
    if find_program("dkms") is None:
        return (
            f"There is no {module} for kernel {names}, and DKMS, which could build it, is not installed. "
            "[driver.unbuilt]\nThe node was not rebooted for it.\n"
            "Next: install the package that brings the module for that kernel, or dkms, and run this again."
        )
    return (
        f"The packages of the driver are installed, but DKMS has built no {module} for kernel {names}. "
        "[driver.unbuilt]\nThe node was not rebooted for it.\n"
        f"dkms status: {found.dkms or 'nothing'}\n"
        "Next: fix what DKMS names (headers, compiler, disk space), then on the node\n"
        f"  sudo dkms autoinstall -k {first}\n"
        "and run this again. What DKMS and the build's log say:\n"
        f"{found.log or 'nothing: see `dkms status` and /var/lib/dkms'}"
    )


def main() -> None:
    """Build, prove, and end with the evidence where a kernel has no module."""
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    wanted = Wanted(module.params["kernels"], module.params["version"], module.params["flavour"])
    try:
        found = build("/", wanted, ask, run, module.check_mode)
    except OSError as error:
        module.fail_json(msg=f"What a build left behind cannot be removed: {error} [driver.unbuilt]")
    result = {"changed": bool(found.built), "built": found.built, "unbuilt": found.unbuilt}
    if found.unbuilt and not module.check_mode:
        module.fail_json(msg=refusal(wanted, found), **result)
    result["changed"] = result["changed"] or bool(found.unbuilt)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
