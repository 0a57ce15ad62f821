#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: enables more components on the distribution mirror that this host already uses."""

DOCUMENTATION = r"""
module: apt_components
short_description: Enable components such as non-free on the mirrors that a host already uses
description:
  - Writes one deb822 file that adds the missing components to every suite of Debian or Ubuntu itself that the host has
    configured, at the same address. The caller names no mirror.
  - Components that another file already configures are left out; if nothing is missing, there is no file.
  - First updates the package lists if the host has never done so. If the new lists cannot be read, the previous file is
    restored and the module fails.
  - Supports check mode and diff.
options:
  components:
    description: Names of components, for example contrib and non-free.
    type: list
    elements: str
    required: true
  path:
    description: The file, below /etc/apt/sources.list.d and ending in .sources.
    type: path
    required: true
  timeout:
    description: Seconds that one update of the package lists may take.
    type: int
    default: 300
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Enable the components with NVIDIA's driver
  gpuwright.node.apt_components:
    components: [contrib, non-free, non-free-firmware]
    path: /etc/apt/sources.list.d/gpuwright-components.sources
"""

RETURN = r"""
added:
  description: "What the file adds: C(uri), C(suites), C(components) of each stanza."
  type: list
  returned: always
"""

import os

from ansible_collections.gpuwright.node.plugins.module_utils.host.bounded import run_bounded
from ansible_collections.gpuwright.node.plugins.module_utils.host.whole_file import write_edited
from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.packages.addresses import without_login
from ansible_collections.gpuwright.node.plugins.module_utils.packages.apt_sources import (
    KEYRINGS,
    own_targets,
    read_targets,
    sources_text,
    wanted_stanzas,
)


def read(path: str) -> str:
    """The file's text, empty if there is no file."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def write(module: AnsibleModule, path: str, text: str) -> None:
    """Replace the file in one step; an empty text removes it."""
    if not text:
        os.unlink(path)
        return
    # The mirror's address is the host's own, and some have a login in it.
    most = 0o777 if text == without_login(text) else 0o600
    write_edited(path, text.encode("utf-8", "surrogateescape"), most)


def update(seconds: float) -> str:
    """What went wrong while apt read its package lists; empty if nothing did."""
    # Without this option, apt only warns about a repository that it could not reach.
    done = run_bounded(["apt-get", "update", "--quiet=2", "--option", "APT::Update::Error-Mode=any"], seconds)
    return "" if done.rc == 0 else (done.problem or done.stderr.strip() or f"exit status {done.rc}")


def main() -> None:
    """Compare the file with what it should be, write it, update the lists, or restore everything."""
    module = AnsibleModule(
        argument_spec={
            "components": {"type": "list", "elements": "str", "required": True},
            "path": {"type": "path", "required": True},
            "timeout": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    path, seconds = module.params["path"], module.params["timeout"]
    try:
        targets = read_targets()
        if not own_targets(targets) and not module.check_mode:
            problem = update(seconds)
            if problem:
                module.fail_json(
                    msg=f"apt cannot read its package lists: {problem[-600:]}. Nothing was changed. [packages.lists]"
                )
            targets = read_targets()
    except OSError as error:
        module.fail_json(msg=f"{error}. Look at: sudo apt-get update [packages.lists]")
    if not own_targets(targets) and not module.check_mode:
        module.fail_json(
            msg="No configured apt source is Debian's or Ubuntu's own (apt-get indextargets shows none with the "
            "component main), so nothing says which mirror has {}. Configure the distribution's mirror first. "
            "[packages.mirror]".format(" ".join(module.params["components"]))
        )
    stanzas = wanted_stanzas(targets, module.params["components"], path)
    keyrings = [name for name in KEYRINGS.values() if os.path.exists(name)]
    before, after = read(path), sources_text(stanzas, keyrings)
    if before != after and not module.check_mode:
        write(module, path, after)
        problem = update(seconds)
        if problem:
            write(module, path, before)
            module.fail_json(
                msg="With the components {} apt cannot read its package lists: {}. {} is as it was before. "
                "[packages.lists]".format(" ".join(module.params["components"]), problem[-600:], path)
            )
    changed = before != after
    added = [
        {"uri": without_login(uri), "suites": list(suites), "components": list(names)}
        for _, uri, suites, names in stanzas
    ]
    before, after = without_login(before), without_login(after)
    difference = {"before": before, "after": after, "before_header": path, "after_header": path}
    module.exit_json(changed=changed, added=added, diff=difference)


if __name__ == "__main__":
    main()
