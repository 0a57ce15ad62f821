# SPDX-License-Identifier: Apache-2.0
"""One short text for each thing that a role's tasks looked at on this node, so that a change of it is seen later.

A thing is `(kind, name)`. Kinds: file (content, mode, owner, target of a link), folder (also what it holds), tree
(also everything below), packages (the package manager's records), unit (of systemd: its files, enabled or not), active
(whether the unit runs), tuning (the settings that host_tuning was asked for, whose parameters are the name, as JSON).
"""

import hashlib
import json
import os
import stat
from typing import Any, Callable, Dict, Iterable, Iterator, List, Sequence, Tuple

from ..host.bounded import Finished, run_bounded
from ..host.files import below, resolve
from ..packages.installed import PACKAGE_FILES
from ..tuning import apply as tuning
from ..tuning import store as tuning_store
from ..tuning.disk import NotHere
from ..tuning.plan import Refused, make_plan

KINDS = ("file", "folder", "tree", "packages", "unit", "active", "tuning")
# Up to this size a file is compared by its content, above by size and times.
CONTENT_BYTES = 4 * 1024 * 1024
# dnf's module streams.
STREAMS = "/etc/dnf/modules.d"
UNIT_PROPERTIES = (
    "LoadState", "UnitFileState", "FragmentPath", "DropInPaths", "NeedDaemonReload",
)  # fmt: skip
OF_UNITS = {"unit": UNIT_PROPERTIES, "active": ("ActiveState",)}
UNIT_SECONDS = 20
ABSENT = "absent"

Thing = Tuple[str, str]
RunProgram = Callable[[Sequence[str], float], Finished]


def look(things: Iterable[Thing], root: str = "/", run: RunProgram = run_bounded) -> Dict[Thing, str]:
    """A text for each thing; equal texts mean that nothing has changed. ValueError for an unknown kind."""
    return {(kind, name): _one(root, kind, name, run) for kind, name in sorted(set(things))}


def _one(root: str, kind: str, name: str, run: RunProgram) -> str:
    if kind in OF_UNITS:
        return _unit(name, OF_UNITS[kind], run)
    if kind == "file":
        return _file(root, name)
    if kind == "folder":
        return _digest([_file(root, name), *_entries(root, name)])
    if kind == "tree":
        return _digest([_file(root, name), *_below(below(root, name))])
    if kind == "packages":
        return _digest([*(_times(root, path) for path in PACKAGE_FILES), *_entries(root, STREAMS)])
    if kind == "tuning":
        return _tuning(root, json.loads(name))
    raise ValueError(f"{kind} is no kind of thing: expected one of {', '.join(KINDS)}")


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _own(found: os.stat_result) -> str:
    return f"{found.st_mode:o} {found.st_uid}:{found.st_gid}"


def _file(root: str, path: str) -> str:
    full = below(root, path)
    try:
        found = os.lstat(full)
        if stat.S_ISLNK(found.st_mode):
            end = resolve(root, path)
            return f"{_own(found)} -> {os.readlink(full)}: {_content(end) if end else ABSENT}"
        return _content(full)
    except FileNotFoundError:
        return ABSENT
    except NotADirectoryError:
        return ABSENT


def _content(full: str) -> str:
    found = os.lstat(full)
    if not stat.S_ISREG(found.st_mode):
        return _own(found)
    if found.st_size > CONTENT_BYTES:
        return f"{_own(found)} {_stamp(found)}"
    with open(full, "rb") as file:
        return f"{_own(found)} {hashlib.sha256(file.read(CONTENT_BYTES + 1)).hexdigest()}"


def _stamp(found: os.stat_result) -> str:
    """Size and times; no program can set the time of the last change (ctime) to one of its choice."""
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def _times(root: str, path: str) -> str:
    try:
        return _stamp(os.stat(below(root, path)))
    except FileNotFoundError:
        return ABSENT


def _entries(root: str, folder: str) -> List[str]:
    try:
        names = sorted(os.listdir(below(root, folder)))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [f"{name}: {_file(root, os.path.join(folder, name))}" for name in names]


def _below(folder: str) -> Iterator[str]:
    """Everything below the folder by mode, owner, size and times; Python's caches come and go with its use."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.name == "__pycache__":
            continue
        found = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            yield f"{entry.path} {_own(found)}"
            yield from _below(entry.path)
        elif stat.S_ISLNK(found.st_mode):
            yield f"{entry.path} {_own(found)} -> {os.readlink(entry.path)}"
        else:
            yield f"{entry.path} {_own(found)} {_stamp(found)}"


def _unit(name: str, properties: Sequence[str], run: RunProgram) -> str:
    done = run(["systemctl", "show", "--property", ",".join(properties), "--", name], UNIT_SECONDS)
    if done.rc != 0:
        raise OSError(f"systemctl show {name}: {done.problem or done.stderr.strip()[:200]}")
    return " ".join(sorted(line for line in done.stdout.splitlines() if line))


def _tuning(root: str, parameters: Dict[str, Any]) -> str:
    """Whether the settings are as they were asked for; what the host differs in, if not."""
    before = tuning_store.load(root)
    plan = tuning.NOTHING
    try:
        if parameters["state"] == "present":
            plan = make_plan(root, parameters, parameters["program"], can_wait=True)
        work = tuning.compare(root, plan, before)
    except (Refused, NotHere) as error:
        return str(error)
    return str(tuning.describe(work)) if tuning.is_change(work) else "as asked for"
