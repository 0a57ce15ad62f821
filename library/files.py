#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: a number of files, folders and links in one task."""

DOCUMENTATION = r"""
module: files
short_description: Keep files, folders and links of different places as given, in one task
description:
  - What ansible.builtin.copy and ansible.builtin.file do with one call of the node for each, this does with one.
  - Each file is replaced in one step, also on the disk itself, so that neither a reader nor a power cut meets half of
    it. The entries are made in their order; if one fails, those before it stay, and running again goes on.
  - If files of units below C(/etc/systemd/system) have changed, systemd reads its units again.
options:
  entries:
    description: What is wanted.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Absolute path. With an empty one, the entry is left out.
        type: path
        required: true
      state:
        description:
          - A C(directory) is created with those above it. C(absent) removes a file, a link, or a folder with all
            that is in it.
        type: str
        choices: [file, directory, link, absent]
        default: file
      content:
        description: Text of a file; a dictionary or a list is written as JSON.
        type: raw
        default: ''
      target:
        description: Where a link points to; it need not exist.
        type: str
        default: ''
      mode:
        description: Octal, in quotes. Files get the task's I(mode), folders 0755.
        type: str
      owner:
        description: Name of an account. The task's I(owner) by default.
        type: str
      group:
        description: Name of a group. The task's I(group) by default.
        type: str
  owner:
    description: Name of the account that owns entries that name none.
    type: str
    default: root
  group:
    description: Name of the group of entries that name none.
    type: str
    default: root
  mode:
    description: Mode of files that name none, octal, in quotes.
    type: str
    default: '0644'
  trees:
    description: Folders of small text files, kept as M(gpuwright.node.file_tree) keeps them, before the entries.
    type: list
    elements: dict
    default: []
    suboptions:
      dest:
        description: Absolute path of the folder. Nothing else may write to it.
        type: path
        required: true
      files:
        description: Relative name and content of every file.
        type: dict
        required: true
      compile_for:
        description: Paths of Python interpreters. The first that exists compiles the modules.
        type: list
        elements: path
        default: []
  prove:
    description: A program with its arguments that must succeed once all is there. Check mode does not run it.
    type: list
    elements: str
    default: []
  missing_account:
    description:
      - V(tell) changes nothing where an owner or group does not exist, and returns RV(no_account); V(fail) fails at the
        first such entry.
    type: str
    choices: [fail, tell]
    default: fail
  units:
    description:
      - Units of systemd that are set up in their order, after the files. In check mode, one whose file is not there yet
        would be.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name with its ending, such as C(example.service).
        type: str
        required: true
      enabled:
        description: Whether it starts at boot. Without a value, that stays as it is.
        type: bool
      state:
        description: V(started) starts it if it does not run.
        type: str
        choices: ['', started]
        default: ''
      after_change:
        description: The same, if an entry of this task has changed; V(restarted) begins it anew then.
        type: str
        choices: ['', started, restarted]
        default: ''
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Install the program and its settings
  gpuwright.node.files:
    owner: root
    group: root
    mode: "0644"
    entries:
      - {path: /etc/example, state: directory, mode: "0755"}
      - {path: /etc/example/settings.json, content: "{{ settings | to_nice_json }}\n"}
      - {path: /usr/local/bin/example, content: "{{ lookup('file', 'example', rstrip=false) }}", mode: "0755"}
      - {path: /usr/bin/example, state: link, target: /usr/local/bin/example}

- name: Install a timer with its service
  gpuwright.node.files:
    entries:
      - {path: /etc/systemd/system/example.service, content: "{{ lookup('template', 'example.service.j2') }}"}
      - {path: /etc/systemd/system/example.timer, content: "{{ lookup('template', 'example.timer.j2') }}"}
    units:
      - {name: example.timer, enabled: true, state: started, after_change: restarted}
"""

RETURN = r"""
paths:
  description: The paths that were, or in check mode would be, changed.
  type: list
  elements: str
  returned: always
  sample: [/etc/example/settings.json]
no_account:
  description: What does not exist; empty if all owners and groups do.
  type: str
  returned: always
  sample: there is no account trainer or no group trainer
units:
  description: The units that were, or in check mode would be, enabled, disabled, started or restarted.
  type: list
  elements: str
  returned: always
  sample: [example.timer]
"""

import grp
import json
import pwd
from operator import itemgetter
from typing import Any, Dict, List, Tuple

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.host import placing, trees, units
from ansible_collections.gpuwright.node.plugins.module_utils.host.bounded import run_bounded
from ansible_collections.gpuwright.node.plugins.module_utils.host.bytecode import compile_modules, first_interpreter

FOLDER_MODE = "0755"
PROOF_SECONDS = 120
ENTRY = {
    "path": {"type": "path", "required": True},
    "state": {"choices": ["file", "directory", "link", "absent"], "default": "file"},
    "content": {"type": "raw", "default": ""},
    "target": {"type": "str", "default": ""},
    "mode": {"type": "str"},
    "owner": {"type": "str"},
    "group": {"type": "str"},
}
TREE = {
    "dest": {"type": "path", "required": True},
    "files": {"type": "dict", "required": True},
    "compile_for": {"type": "list", "elements": "path", "default": []},
}
UNIT = {
    "name": {"type": "str", "required": True},
    "enabled": {"type": "bool"},
    "state": {"choices": ["", "started"], "default": ""},
    "after_change": {"choices": ["", "started", "restarted"], "default": ""},
}


def main() -> None:
    """Compare and place, entry by entry; then the units."""
    module = AnsibleModule(
        argument_spec={
            "entries": {"type": "list", "elements": "dict", "required": True, "options": ENTRY},
            "owner": {"type": "str", "default": "root"},
            "group": {"type": "str", "default": "root"},
            "mode": {"type": "str", "default": "0644"},
            "trees": {"type": "list", "elements": "dict", "default": [], "options": TREE},
            "prove": {"type": "list", "elements": "str", "default": []},
            "missing_account": {"choices": ["fail", "tell"], "default": "fail"},
            "units": {"type": "list", "elements": "dict", "default": [], "options": UNIT},
        },
        supports_check_mode=True,
    )
    paths: List[str] = []
    diff: List[Dict[str, Any]] = []
    entries = list(filter(itemgetter("path"), module.params["entries"]))
    if module.params["missing_account"] == "tell":
        unknown = next(filter(None, (no_account(*owners(entry, module.params)) for entry in entries)), "")
        if unknown:
            module.exit_json(changed=False, paths=[], units=[], diff=[], no_account=unknown)
    for tree in module.params["trees"]:
        try:
            come, gone = kept_tree(tree, module.check_mode)
        except (OSError, ValueError) as error:
            module.fail_json(
                msg=f"{tree['dest']} was not brought up to date: {error}. Mend that and run again [files.failed]",
                paths=paths,
            )
        paths += come + gone
        diff += [told(path, "as in the toolkit") for path in come] + [told(path, "removed") for path in gone]
    for entry in entries:
        try:
            wanted = wanted_of(entry, module.params)
            found = placing.found_at(wanted.path)
            differs = placing.differences(found, wanted)
            if not module.check_mode:
                placing.place(wanted, differs)
        except (OSError, ValueError) as error:
            module.fail_json(
                msg=f"{entry['path']} was not brought up to date: {error}. Mend that and run again [files.failed]",
                paths=paths,
            )
        there = wanted.state != "absent" and not module.check_mode
        # As Ansible's own modules do: the label that the policy has for this path.
        labelled = there and module.set_default_selinux_context(wanted.path, False)
        if differs or labelled:
            paths.append(wanted.path)
            diff += [placing.shown(found, wanted, differs)] if differs else []
    try:
        wished = [units.Unit(**wish) for wish in module.params["units"]]
        set_up = units.bring_about(wished, bool(paths), units.are_units(paths), module.check_mode)
    except OSError as error:
        module.fail_json(msg=f"{error}. Mend that and run again [files.unit]", paths=paths, diff=diff)
    proof = module.params["prove"]
    done = run_bounded(proof, PROOF_SECONDS) if proof and not module.check_mode else None
    if done is not None and done.rc != 0:
        said = done.problem or done.stderr.strip()[-600:] or f"exit status {done.rc}"
        module.fail_json(msg=f"{' '.join(proof)} does not work: {said} [files.proof]", paths=paths, diff=diff)
    names = list(dict.fromkeys(one["after"]["path"] for one in set_up))
    module.exit_json(changed=bool(paths or names), paths=paths, units=names, diff=diff + set_up, no_account="")


def wanted_of(entry: Dict[str, Any], task: Dict[str, Any]) -> placing.Wanted:
    """The entry with numbers for names; ValueError for an account or group that does not exist, or no octal mode."""
    owner, group = owners(entry, task)
    mode = entry["mode"] or (FOLDER_MODE if entry["state"] == "directory" else task["mode"])
    unknown = no_account(owner, group)
    if unknown:
        raise ValueError(unknown)
    uid, gid = pwd.getpwnam(owner).pw_uid, grp.getgrnam(group).gr_gid
    # Ansible turns text that looks like one into a dictionary.
    text = entry["content"] if isinstance(entry["content"], str) else json.dumps(entry["content"], indent=4) + "\n"
    content = text.encode("utf-8", "surrogateescape")
    return placing.Wanted(entry["path"], entry["state"], content, entry["target"], int(mode, 8), uid, gid)


def kept_tree(tree: Dict[str, Any], check: bool) -> Tuple[List[str], List[str]]:
    """Bring the folder up to date, or in check mode only look; paths of what is written or compiled, and removed."""
    dest, files = tree["dest"], tree["files"]
    if not files:
        raise ValueError("files is empty, which would remove everything below it")
    to_write, to_remove = trees.tree_changes(dest, files)
    if not check:
        trees.apply_tree(dest, files, to_write, to_remove)
    python = first_interpreter(tree["compile_for"])
    compiled = compile_modules(dest, python, write=not check) if python else []
    come = list(dict.fromkeys([*to_write, *compiled]))
    return [f"{dest}/{name}" for name in come], [f"{dest}/{name}" for name in to_remove]


def told(path: str, word: str) -> Dict[str, Any]:
    """A file of a tree that differs, as Ansible's --diff prints it."""
    before = "is there" if word == "removed" else "differs or is not there"
    return {"before": {"path": path, "content": before}, "after": {"path": path, "content": word}}


def owners(entry: Dict[str, Any], task: Dict[str, Any]) -> Tuple[str, str]:
    return entry["owner"] or task["owner"], entry["group"] or task["group"]


def no_account(owner: str, group: str) -> str:
    """In words, if one of them does not exist, else an empty text."""
    try:
        pwd.getpwnam(owner)
        grp.getgrnam(group)
    except KeyError:
        return f"there is no account {owner} or no group {group}"
    return ""


if __name__ == "__main__":
    main()
