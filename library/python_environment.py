#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: checks whether a Python environment is still as it was installed."""

DOCUMENTATION = r"""
module: python_environment
short_description: Check whether a Python environment is intact
description:
  - Compares every file of the environment with the RECORD of the package that installed it, and every package with
    lock.txt in the environment, and imports modules. Changes nothing.
  - The checks C(framework.files) and C(framework.imports) use the same code, so an environment that they call damaged
    is damaged here, too.
  - An environment that does not exist is not intact, but no error, since check mode has not created it. The same is
    true of one without its O(mark), which is not looked at any further.
  - With O(modes) it first corrects the modes of the environment's files as M(gpuwright.node.tree_modes) does. With
    O(complete) it completes an environment that was just built.
options:
  path:
    description: The environment.
    type: path
    required: true
  imports:
    description: Modules that must be importable by an ordinary user.
    type: list
    elements: str
    default: []
  user:
    description: The ordinary user who imports them; root runs no code from packages.
    type: str
    default: nobody
  all_hashes:
    description:
      - Whether to hash also the files that have not changed since the environment was complete (5 to 10 GB). Sizes are
        compared in any case.
    type: bool
    default: false
  only:
    description: Names of the only packages to check. Empty means all but O(leave_out).
    type: list
    elements: str
    default: []
  leave_out:
    description: Names of packages that something else installs and repairs.
    type: list
    elements: str
    default: []
  mark:
    description: Name of a file in the environment that is written after everything else. Empty looks for none.
    type: str
    default: ''
  modes:
    description: Whether to let everybody read the environment, and only its owner write to it.
    type: bool
    default: false
  complete:
    description:
      - Content of O(mark), written as JSON. Before that, C(pip check) has to find that the packages agree, but for what
        they lack of O(leave_out), and what pip has not compiled (C(--no-compile)) is compiled, on up to eight cores. An
        environment that is not intact loses its mark again.
    type: dict
attributes:
  check_mode: {support: full, description: Changes nothing; what is not intact is a change that a run would repair.}
  diff_mode: {support: full, description: "What is wrong, and the first files with wrong modes."}
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Look whether the environment is whole
  gpuwright.node.python_environment:
    path: /opt/gpuwright/venvs/0123456789abcdef
    imports: [torch, numpy]
  register: environment_state

- name: Complete a new environment
  gpuwright.node.python_environment:
    path: /opt/gpuwright/venvs/0123456789abcdef
    imports: [torch, numpy]
    mark: gpuwright.json
    modes: true
    complete: {schema: 1, python: "3.11"}
"""

RETURN = r"""
whole:
  description: Whether nothing is missing, changed or of another version, and all modules can be imported.
  type: bool
  returned: always
  sample: true
because:
  description: What is wrong, in one sentence; empty if nothing is.
  type: str
  returned: always
  sample: "torch/__init__.py is missing (torch)"
there:
  description: Whether there is a folder at O(path).
  type: bool
  returned: always
  sample: true
mark_sha256:
  description: Checksum of O(mark); empty if there is no such file.
  type: str
  returned: always
  sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
repaired:
  description: How many files and folders had, or in check mode have, wrong modes.
  type: int
  returned: always
  sample: 0
examples:
  description: The first of these files and folders.
  type: list
  elements: str
  returned: always
  sample: []
"""

import os
from typing import Any, Dict, List

from ansible_collections.gpuwright.node.plugins.module_utils.host.placing import one_row
from ansible_collections.gpuwright.node.plugins.module_utils.host.tree_modes import repair_modes
from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.training.environment_compiled import compile_packages
from ansible_collections.gpuwright.node.plugins.module_utils.training.environment_mark import (
    mark_checksum,
    set_mark,
    take_mark,
)
from ansible_collections.gpuwright.node.plugins.module_utils.training.environment_state import (
    disagreement,
    judge_environment,
)

JUDGED = ("path", "imports", "user", "all_hashes", "only", "leave_out")
MOST_EXAMPLES = 5
SPEC = {
    "path": {"type": "path", "required": True},
    "imports": {"type": "list", "elements": "str", "default": []},
    "user": {"type": "str", "default": "nobody"},
    "all_hashes": {"type": "bool", "default": False},
    "only": {"type": "list", "elements": "str", "default": []},
    "leave_out": {"type": "list", "elements": "str", "default": []},
    "mark": {"type": "str", "default": ""},
    "modes": {"type": "bool", "default": False},
    "complete": {"type": "dict"},
}


def main() -> None:
    """Complete the environment if that is asked for, examine it, and report the result."""
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True, required_by={"complete": ["mark"]})
    wish = module.params
    path, mark = wish["path"], wish["mark"]
    completes = wish["complete"] is not None and not module.check_mode
    found: List[str] = []
    because = ""
    try:
        if completes:
            because = disagreement(path, wish["leave_out"]) or compile_packages(path)
        checksum = mark_checksum(path, mark)
        if mark and not checksum and not completes:
            because = f"{path} was never complete: {mark} is not there" if os.path.isdir(path) else missing(path)
        # First: an ordinary user tries it below, and closed folders are not damage that takes a new environment to fix.
        if not because and wish["modes"]:
            found = repair_modes(path, write=not module.check_mode)
        if not because and completes:
            set_mark(path, mark, wish["complete"])
            checksum = mark_checksum(path, mark)
        because = because or judge_environment(**judged(wish))
        if completes and because:
            # Otherwise a run that only looks for the mark would use it.
            take_mark(path, mark)
            checksum = ""
    except OSError as error:
        module.fail_json(msg=f"{path}: {error}. Mend that and run again [framework.damaged]")
    diff = [one_row(name, "mode", "differs", "repaired") for name in found[:MOST_EXAMPLES]]
    if because and module.check_mode:
        diff.append(one_row(path, "content", because, "as it was installed"))
    module.exit_json(
        changed=bool(found or completes or diff),
        diff=diff,
        whole=not because,
        because=because,
        there=os.path.isdir(path),
        mark_sha256=checksum,
        repaired=len(found),
        examples=found[:MOST_EXAMPLES],
    )


def missing(path: str) -> str:
    return f"there is no environment at {path}"


def judged(wish: Dict[str, Any]) -> Dict[str, Any]:
    return {name: wish[name] for name in JUDGED}


if __name__ == "__main__":
    main()
