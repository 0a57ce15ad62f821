# SPDX-License-Identifier: Apache-2.0
"""What the module files keeps: folders of text files, files, folders and links, units of systemd, and a proof."""

import grp
import json
import pwd
from operator import itemgetter
from typing import Any, Callable, Dict, List, Mapping, Tuple

from . import placing, trees, units
from .bounded import run_bounded
from .bytecode import compile_modules, first_interpreter

FOLDER_MODE = "0755"
PROOF_SECONDS = 120
AGAIN = "Mend that and run again"
Diff = List[Dict[str, Any]]


class FilesError(Exception):
    """What could not be done, as a message for people. `paths`: what was changed before it."""

    def __init__(self, message: str, paths: List[str]) -> None:
        super(FilesError, self).__init__(message)
        self.paths = paths


def keep(wish: Mapping[str, Any], check: bool, label: Callable[[str], bool]) -> Dict[str, Any]:
    """Bring all of it about, or in check mode only look; the module's result. FilesError.

    wish   the module's parameters
    label  gives a path the label that SELinux's policy has for it, and tells whether it had another one
    """
    entries = list(filter(itemgetter("path"), wish["entries"]))
    if wish["missing_account"] == "tell":
        unknown = next(filter(None, (no_account(*owners(entry, wish)) for entry in entries)), "")
        if unknown:
            return {"changed": False, "paths": [], "units": [], "diff": [], "no_account": unknown}
    paths: List[str] = []
    diff: Diff = []
    for tree in wish["trees"]:
        _keep_tree(tree, check, paths, diff)
    for entry in entries:
        _keep_entry(entry, wish, check, label, paths, diff)
    try:
        wished = [units.Unit(**unit) for unit in wish["units"]]
        set_up = units.bring_about(wished, bool(paths), units.are_units(paths), check)
    except OSError as error:
        raise FilesError(f"{error}. {AGAIN} [files.unit]", paths)
    if wish["prove"] and not check:
        _prove(wish["prove"], paths)
    names = list(dict.fromkeys(one["after"]["path"] for one in set_up))
    changed = bool(paths or names)
    return {"changed": changed, "paths": paths, "units": names, "diff": diff + set_up, "no_account": ""}


def _keep_tree(tree: Mapping[str, Any], check: bool, paths: List[str], diff: Diff) -> None:
    dest, files = tree["dest"], tree["files"]
    try:
        if not files:
            raise ValueError("files is empty, which would remove everything below it")
        to_write, to_remove = trees.tree_changes(dest, files)
        if not check:
            trees.apply_tree(dest, files, to_write, to_remove)
        python = first_interpreter(tree["compile_for"])
        compiled = compile_modules(dest, python, write=not check) if python else []
    except (OSError, ValueError) as error:
        raise FilesError(f"{dest} was not brought up to date: {error}. {AGAIN} [files.failed]", paths)
    come = [f"{dest}/{name}" for name in dict.fromkeys([*to_write, *compiled])]
    gone = [f"{dest}/{name}" for name in to_remove]
    paths += come + gone
    diff += [_told(path, "as in the toolkit") for path in come] + [_told(path, "removed") for path in gone]


def _told(path: str, word: str) -> Dict[str, Any]:
    """A file of a tree that differs, as Ansible's --diff prints it."""
    before = "is there" if word == "removed" else "differs or is not there"
    return {"before": {"path": path, "content": before}, "after": {"path": path, "content": word}}


def _keep_entry(
    entry: Mapping[str, Any],
    wish: Mapping[str, Any],
    check: bool,
    label: Callable[[str], bool],
    paths: List[str],
    diff: Diff,
) -> None:
    try:
        wanted = wanted_of(entry, wish)
        found = placing.found_at(wanted.path)
        differs = placing.differences(found, wanted)
        if not check:
            placing.place(wanted, differs)
    except (OSError, ValueError) as error:
        raise FilesError(f"{entry['path']} was not brought up to date: {error}. {AGAIN} [files.failed]", paths)
    labelled = wanted.state != "absent" and not check and label(wanted.path)
    if differs or labelled:
        paths.append(wanted.path)
        diff += [placing.shown(found, wanted, differs)] if differs else []


def _prove(program: List[str], paths: List[str]) -> None:
    done = run_bounded(program, PROOF_SECONDS)
    if done.rc != 0:
        said = done.problem or done.stderr.strip()[-600:] or f"exit status {done.rc}"
        raise FilesError(f"{' '.join(program)} does not work: {said} [files.proof]", paths)


def wanted_of(entry: Mapping[str, Any], task: Mapping[str, Any]) -> placing.Wanted:
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


def owners(entry: Mapping[str, Any], task: Mapping[str, Any]) -> Tuple[str, str]:
    return entry["owner"] or task["owner"], entry["group"] or task["group"]


def no_account(owner: str, group: str) -> str:
    """In words, if one of them does not exist, else ""."""
    try:
        pwd.getpwnam(owner)
        grp.getgrnam(group)
    except KeyError:
        return f"there is no account {owner} or no group {group}"
    return ""
