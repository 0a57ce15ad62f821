# SPDX-License-Identifier: Apache-2.0
"""Bring a host's settings to a plan, recording what was found before; an empty plan restores everything."""

import collections
import os
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

from ..host import placing
from . import knobs as tuning_knobs
from . import profiles
from . import store as tuning_store
from .disk import NotHere
from .file_texts import PROGRAM, TMPFILES, UNIT_NAME
from .plan import Plan

NOTHING = Plan([], [], {}, {})
LINK_MODE = 0o777


class Work(NamedTuple):
    """What differs between a host and a plan.

    turn            {key: (found, wanted)}   restore         {key: (found, value before)}
    write           {path: (text, mode)}     put_back        {path: record of before}
    remember_knobs  {key: value}             remember_files  {path: record}
    """

    turn: Dict[str, Tuple[Any, Any]]
    restore: Dict[str, Tuple[Any, Any]]
    write: Dict[str, Tuple[str, int]]
    put_back: Dict[str, Any]
    remember_knobs: Dict[str, Any]
    remember_files: Dict[str, Any]


def compare(root: str, plan: Plan, before: Mapping[str, Any]) -> Work:
    """The `Work` to do. Reads only."""
    found: Optional[str]
    turn, restore, remember_knobs = collections.OrderedDict(), collections.OrderedDict(), {}
    for key, wanted in plan.knobs.items():
        found = tuning_knobs.read(root, key)
        if key not in before["knobs"]:
            remember_knobs[key] = tuning_knobs.read_to_restore(root, key)
        if found != wanted:
            turn[key] = (found, wanted)
    # tuned first: its profiles set knobs that have their own previous values.
    for key in sorted(set(before["knobs"]) - set(plan.knobs), key=lambda key: (not key.startswith("tuned"), key)):
        try:
            found = tuning_knobs.read_to_restore(root, key)
        except NotHere:
            found = None
        restore[key] = (found, before["knobs"][key])
    write = {path: wanted for path, wanted in plan.files.items() if not tuning_store.is_as_wanted(root, path, *wanted)}
    put_back = {path: record for path, record in before["files"].items() if path not in plan.files}
    remember_files = {path: tuning_store.remember(root, path) for path in plan.files if path not in before["files"]}
    return Work(turn, restore, write, put_back, remember_knobs, remember_files)


def is_change(work: Work) -> bool:
    """Whether anything on the host but our own record would change."""
    different = any(found != value for found, value in work.restore.values() if found is not None)
    return bool(work.turn or work.write or work.put_back or different)


def turns(work: Work) -> List[str]:
    """Keys of what would affect running work: knobs whose value changes, and a profile or mount that is restarted.

    Files that are only read at the next login or boot, and our own service, affect nobody.
    """
    keys = {key for key, (found, value) in work.restore.items() if found is not None and found != value}
    keys |= set(work.turn) | ({"tuned profile"} if any(map(profiles.is_own, work.write)) else set())
    keys |= {"unit " + path.rpartition("/")[2] for path in work.write if path.endswith(".mount")}
    return sorted(keys - {"unit " + UNIT_NAME})


def apply(root: str, plan: Plan, work: Work, before: Dict[str, Any]) -> Any:
    """Do the work. Raises OSError or ValueError; previous values are recorded on disk by then, so a rerun continues.

    Order: record; restore knobs; files; tell systemd and udev; set knobs; drop the records of what is restored.
    """
    before["knobs"].update(work.remember_knobs)
    before["files"].update(work.remember_files)
    tuning_store.save(root, before)
    for key, (found, value) in work.restore.items():
        if found is not None and found != value:
            tuning_knobs.write(root, key, value)
    for path, record in work.put_back.items():
        tuning_store.put_back(root, path, record)
    for path, (text, mode) in work.write.items():
        made = tuning_store.put(root, path, text, mode)
        before["folders"] = sorted(set(before["folders"]) | set(made))
        tuning_store.save(root, before)
    _announce(sorted(work.write) + sorted(work.put_back))
    # tuned first, then the rest is read again: its profile may have changed values that were right before.
    for key, wanted in sorted(plan.knobs.items(), key=lambda item: not item[0].startswith("tuned")):
        file = "/etc/systemd/system/" + key.split()[-1]
        reload = key == "tuned profile" and any(map(profiles.is_own, work.write))
        if tuning_knobs.read(root, key) != wanted or reload:
            tuning_knobs.write(root, key, wanted)
        elif file.endswith(".mount") and file in work.write:
            # A different disk from the one that is mounted.
            tuning_knobs.command(["systemctl", "restart", key.split()[-1]])
    if TMPFILES in work.write:
        # After the mount, since it concerns the mounted folder.
        tuning_knobs.command(["systemd-tmpfiles", "--create", TMPFILES])
    for key in work.restore:
        del before["knobs"][key]
    for path in work.put_back:
        del before["files"][path]
    before["folders"] = tuning_store.drop_folders(root, before["folders"]) if work.put_back else before["folders"]
    tuning_store.save(root, before)


def _announce(paths: Iterable[str]) -> Any:
    if any(path.startswith("/etc/systemd/") for path in paths):
        tuning_knobs.command(["systemctl", "daemon-reload"])
    if any(path.startswith("/etc/udev/") for path in paths):
        tuning_knobs.command(["udevadm", "control", "--reload"])


def describe(work: Work) -> Any:
    """(before, after): texts for Ansible's diff."""
    old, new = [], []
    for changes in (work.turn, work.restore):
        for key, (found, value) in changes.items():
            if found is not None and found != value:
                old.append(f"{key} = {found}")
                new.append(f"{key} = {value}")
    for path in sorted(work.write):
        new.append(f"{path}: written")
    for path in sorted(work.put_back):
        new.append(f"{path}: {'removed' if work.put_back[path] is None else 'as it was before'}")
    return "\n".join(old) + "\n", "\n".join(new) + "\n"


def wanted_link(path: str, state: str) -> placing.Wanted:
    """The link to gpu-tune, there as long as the settings are."""
    kind = "link" if state == "present" else "absent"
    return placing.Wanted(path, kind, b"", PROGRAM, LINK_MODE, os.geteuid(), os.getegid())
