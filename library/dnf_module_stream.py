#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

DOCUMENTATION = r"""
---
module: dnf_module_stream
short_description: Enable, disable or reset a module stream of dnf, and switch only when allowed
version_added: "1.0.0"
description:
  - Reads the present state from C(/etc/dnf/modules.d) in milliseconds; where it is as wanted, neither dnf nor a
    repository is asked.
  - Changes it with C(dnf module enable), C(disable) and C(reset), and proves afterwards that dnf has recorded it.
  - Another enabled stream is replaced only with O(allow_switch). The module then removes those of O(packages) that are
    installed, resets the module and enables the wanted stream, in this order, so that a run that was cut off goes on
    where it was. Before the removal it makes sure that the wanted stream is offered.
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
    description: Names (globs allowed) of packages that must go when the stream is switched.
    type: list
    elements: str
    default: []
  install:
    description:
      - Packages that must be there after a switch. With it O(packages) are not removed first, but replaced by those of
        the stream in one transaction, after everything was downloaded. Where a step before that transaction fails, the
        stream that was enabled is enabled again.
      - Then packages of another O(version) count as a switch, too, such as a run that was cut off leaves them.
    type: list
    elements: str
    default: []
  version:
    description: Branch or version of all O(packages) of the stream, such as C(580); required with O(install).
    type: str
    default: ""
  timeout:
    description: Seconds that each dnf command may take, waiting for the lock of another one included.
    type: float
    default: 900
attributes:
  check_mode:
    support: full
    description: Predicts the change and fails where the real run would, without changing anything.
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
  description: The stream that was enabled, empty when none was.
  returned: when the state could be read
  type: str
stream_after:
  description: The stream that is enabled now, or would be in check mode; empty when none is.
  returned: when the state could be read
  type: str
available:
  description: Streams that the enabled repositories offer; null when nobody had to ask.
  returned: when the state could be read
  type: list
  elements: str
packages_to_remove:
  description: Installed packages that a switch removes or replaces, or would.
  returned: when the state could be read
  type: list
  elements: str
commands:
  description: What was run, or would be, in order.
  returned: when the state could be read
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import is_version
from ansible_collections.gpuwright.node.plugins.module_utils.packages.module_streams import (
    Dnf,
    Selection,
    StreamError,
    check_name,
    is_switch,
    plan_commands,
    read_selection,
    switch_refusal,
    unknown_stream,
)
from ansible_collections.gpuwright.node.plugins.module_utils.packages.stream_switch import (
    describe_switch,
    foreign_packages,
    replace_packages,
    stream_put_back,
)


def main():
    """Compare, decide, change, prove."""
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
    result = {"changed": False}
    try:
        bring_about(module, wanted_selection(module.params), result)
    except StreamError as error:
        module.fail_json(msg=str(error), **result)
    module.exit_json(**result)


def wanted_selection(params):
    """The `Selection` that the parameters ask for."""
    check_name("name", params["name"])
    for package in params["packages"]:
        check_name("a member of packages", package.replace("*", "x").replace("?", "x"))
    for package in params["install"]:
        check_name("a member of install", package.replace("*", "x"))
    if params["install"] and not is_version(params["version"]):
        raise StreamError(f"version is {params['version']!r}: expected a branch such as 580 beside install")
    if not 0 < params["timeout"] <= 86400:
        raise StreamError(f"timeout is {params['timeout']}: expected seconds above 0 and up to 86400")
    if params["state"] == "enabled":
        check_name("stream", params["stream"])
        return Selection("enabled", params["stream"])
    if params["stream"]:
        raise StreamError(f"stream is {params['stream']}, but state {params['state']} takes none")
    return Selection("disabled" if params["state"] == "disabled" else "", "")


def bring_about(module, wanted, result):
    """Make the change, if there is one and check mode does not forbid it; fills in the result as far as it comes."""
    name, dnf, install = module.params["name"], Dnf(module.params["timeout"]), module.params["install"]
    before = read_selection(name)
    result.update(stream_before=before.stream, stream_after=before.stream, available=None, packages_to_remove=[])
    if wanted != before and wanted.state == "enabled":
        result["available"] = dnf.available_streams(name)
        if wanted.stream not in result["available"]:
            raise StreamError(unknown_stream(name, wanted.stream, result["available"]))
    found = dnf.versions(module.params["packages"]) if install else {}
    replaced = found if is_switch(wanted, before) or foreign_packages(found, module.params["version"]) else {}
    if is_switch(wanted, before) and not install:
        result["packages_to_remove"] = dnf.installed(module.params["packages"])
    commands = plan_commands(name, wanted, before, result["packages_to_remove"])
    words = [" ".join(command) for command in commands]
    if replaced:
        result["packages_to_remove"] = sorted(replaced)
        words.append(describe_switch(sorted(replaced), install))
    result["commands"] = words
    if (is_switch(wanted, before) or replaced) and not module.params["allow_switch"]:
        raise StreamError(switch_refusal(name, wanted, before, words))
    if not module.check_mode:
        make_changes(module, wanted, commands, replaced, dnf, result)
    result.update(
        changed=bool(words),
        stream_after=wanted.stream,
        diff={"before": describe(name, before), "after": describe(name, wanted)},
    )


def make_changes(module, wanted, commands, replaced, dnf, result):
    """Select the stream, then replace the packages; a step that fails before they are replaced leaves all as it was."""
    name, install = module.params["name"], module.params["install"]
    names = module.params["packages"] if install else []
    with stream_put_back(name, dnf, names):
        for command in commands:
            dnf.change(command)
            result["changed"] = not install
        if commands:
            prove(name, wanted)
        if replaced:
            replace_packages(dnf, replaced, module.params["version"], install)


def prove(name, wanted):
    """dnf's exit status is not believed; what it recorded is."""
    after = read_selection(name)
    if after != wanted:
        raise StreamError(
            f"dnf reported success, but recorded {describe(name, after).strip()!r} instead of "
            f"{describe(name, wanted).strip()!r}. Next: dnf module list {name}"
        )


def describe(name, selection):
    """One line for a diff."""
    words = " ".join(part for part in selection if part) or "not selected"
    return f"module {name}: {words}\n"


if __name__ == "__main__":
    main()
