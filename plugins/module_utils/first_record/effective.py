# SPDX-License-Identifier: Apache-2.0
"""What a look sees beside files and packages: units, live settings, accounts, and the toolkit's own trees.

A line for each, as for files. What cannot be read has a line that says so: it never looks like what was there before.
"""

import hashlib
import os
import stat
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Sequence

from ..host.bounded import Finished, run_bounded
from ..host.files import below, names_in, read_text
from ..tuning import gpu as tuning_gpu
from ..tuning import knobs as tuning_knobs
from ..tuning import store as tuning_store
from ..tuning.reading import load_record
from . import places

RunProgram = Callable[[Sequence[str], float], Finished]

SYSTEMD = "/etc/systemd/system"
ENABLED = ("Id", "LoadState", "UnitFileState", "FragmentPath", "DropInPaths", "NeedDaemonReload")
# Whether it runs, and for a service that runs once and ends, nothing: a check of a timer comes and goes.
RUNS = ("Type", "RemainAfterExit", "ActiveState")
SECONDS = 20
ABSENT = "absent"
CONTENT_BYTES = 4 * 1024 * 1024
# Settings of the kernel that roles ask for and host_tuning does not keep.
KERNEL = ("/sys/fs/selinux/booleans/container_use_devices",)
# Their lines begin with the account's name, and say which numbers its containers may use.
NUMBERS = ("/etc/subuid", "/etc/subgid")
LINGER = "/var/lib/systemd/linger"
TUNED = "/etc/tuned/active_profile"


def unreadable(error: object) -> str:
    return f"unreadable: {error}"


def read_units(root: str, others: Iterable[str] = (), run: RunProgram = run_bounded) -> Dict[str, str]:
    """`{unit: enabled, masked, its files, and whether it runs}`: the toolkit's own, and those that its roles switch.

    others  names of more units
    """
    own = [
        name
        for name in names_in(root, SYSTEMD)
        if places.UNIT.fullmatch(name) and "@." not in name and places.is_own(name)
    ]
    names = sorted({*own, *places.UNITS, *others})
    done = run(["systemctl", "show", "--property", ",".join((*ENABLED, *RUNS)), "--", *names], SECONDS)
    if done.rc != 0:
        why = done.problem or done.stderr.strip()[:200] or f"exit status {done.rc}"
        return dict.fromkeys(names, unreadable(why))
    # systemd answers in the order of the question, with an empty line between two units.
    lines = [_unit_line(text) for text in done.stdout.split("\n\n") if text.strip()]
    if len(lines) != len(names):
        return dict.fromkeys(names, unreadable(f"{len(lines)} answers for {len(names)} units"))
    return {name: lines[place] for place, name in enumerate(names)}


def _unit_line(text: str) -> str:
    shown = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    once = shown.get("Type") == "oneshot" and shown.get("RemainAfterExit") != "yes"
    runs = [] if once else [shown.get("ActiveState", "")]
    return " ".join([*(shown.get(name, "") for name in ENABLED[1:]), *runs])


def read_settings(root: str) -> Dict[str, str]:
    """`{key: value}` of each setting that host_tuning keeps (keys as in tuning.knobs), units and files apart."""
    found = {path: read_text(root, path) or ABSENT for path in KERNEL}
    try:
        record = load_record(root) or {"settings": []}
        keys = sorted({str(key) for row in record["settings"] for key in row["keys"]})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return dict(found, tuning=unreadable(error))
    gpus: Dict[str, Any] = {}
    for key in keys:
        kind = key.split()[0] if key.split() else ""
        try:
            if kind == "gpu":
                gpus = gpus or tuning_gpu.ask()
                found[key] = _of_gpus(gpus, key)
            elif kind == "tuned":
                # What tuned-adm itself reads; starting it would take longer than the rest.
                found[key] = read_text(root, TUNED) or ABSENT
            elif kind not in ("unit", "file"):
                found[key] = tuning_knobs.read_all(root, key)
        except (tuning_knobs.NotHere, OSError, ValueError, IndexError, KeyError) as error:
            found[key] = unreadable(error)
    return found


def _of_gpus(gpus: Mapping[str, Mapping[str, Any]], key: str) -> str:
    _gpu, which, what = key.split()
    chosen = sorted(gpus) if which == "all" else [which]
    return ", ".join(tuning_gpu.value(gpus, uuid, what) for uuid in chosen)


def tuned_units(root: str) -> List[str]:
    """Units that are settings, such as irqbalance.service or the mount of the scratch disk."""
    try:
        rows = (load_record(root) or {"settings": []})["settings"]
        return sorted({key.split()[1] for row in rows for key in row["keys"] if key.startswith("unit ")})
    except (ValueError, TypeError, KeyError, AttributeError, IndexError):
        return []


def tuned_files(root: str) -> List[str]:
    """Files that host_tuning has written, whatever they are called."""
    try:
        return sorted(tuning_store.load(root)["files"])
    except ValueError:
        return [tuning_store.BEFORE]


def read_accounts_of(root: str, names: Iterable[str]) -> Dict[str, str]:
    """`{name: line}` of these accounts: all but the password, of which only whether it is locked, absent or neither.

    Users with numbers, comment, home and shell, groups with members, and what their containers may use.
    """
    shadow = _colon_lines(root, "/etc/shadow")
    files = {path: _colon_lines(root, path) for path in ("/etc/passwd", "/etc/group", *NUMBERS)}
    found = {}
    for name in sorted(set(names)):
        parts = [f"{path} {':'.join(words[2:] if path not in NUMBERS else words[1:])}"
                 for path, lines in files.items() for words in lines if words[0] == name]  # fmt: skip
        parts += [f"groups {','.join(sorted(words[0] for words in files['/etc/group'] if _is_member(words, name)))}"]
        parts += [_lock(words) for words in shadow if words[0] == name]
        parts += ["lingers"] if name in names_in(root, LINGER) else []
        found[name] = "; ".join(parts)
    return found


def _is_member(words: Sequence[str], name: str) -> bool:
    return len(words) > 3 and name in words[3].split(",")


def _lock(words: Sequence[str]) -> str:
    """From a line of shadow(5): the state of the password, and when password and account end."""
    password = words[1] if len(words) > 1 else ""
    state = "locked" if password.startswith("!") else "none" if password in ("", "*") else "a password"
    return f"{state} {':'.join(words[3:8])}"


def _colon_lines(root: str, path: str) -> List[List[str]]:
    lines = (line.split(":") for line in (read_text(root, path) or "").splitlines())
    return [words for words in lines if words[0] and not words[0].startswith(("#", "+", "-"))]


def line_named(root: str, path: str) -> str:
    """Of a path that may be anybody's: content by its digest up to 4 MiB, above by size and times."""
    full = below(root, path)
    line = _line(full)
    if not os.path.isfile(full) or os.path.islink(full) or os.path.getsize(full) > CONTENT_BYTES:
        return line
    with open(full, "rb") as file:
        return f"{line.partition(' ')[0]} {owner_of(root, path)} {hashlib.sha256(file.read()).hexdigest()}"


def owner_of(root: str, path: str) -> str:
    found = os.lstat(below(root, path))
    return f"{found.st_uid}:{found.st_gid}"


def read_trees(root: str) -> Dict[str, str]:
    """`{folder: digest}` of the toolkit's own trees, and of each folder in them: a change names the environment.

    Names, modes, owners, sizes, times and links: reading the content of an environment takes a minute. No program can
    set the time of the last change (ctime) to one of its choice. Python's caches come and go with its use.
    """
    found = {}
    for tree in places.STAMPED_TREES:
        full = below(root, tree)
        found[tree] = _line(full)
        for name in names_in(root, tree):
            found[f"{tree}/{name}"] = _digest([_line(os.path.join(full, name)), *_below(os.path.join(full, name))])
    return found


def _digest(lines: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line.encode("utf-8", "surrogateescape") + b"\n")
    return digest.hexdigest()


def _line(full: str) -> str:
    try:
        found = os.lstat(full)
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    own = f"{found.st_mode:o} {found.st_uid}:{found.st_gid}"
    if stat.S_ISLNK(found.st_mode):
        return f"{own} -> {os.readlink(full)}"
    return own if stat.S_ISDIR(found.st_mode) else f"{own} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def _below(folder: str) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.name == "__pycache__":
            continue
        found = entry.stat(follow_symlinks=False)
        own = f"{entry.name} {found.st_mode:o} {found.st_uid}:{found.st_gid}"
        if stat.S_ISDIR(found.st_mode):
            yield f"{own} ("
            yield from _below(entry.path)
            yield ")"
        elif stat.S_ISLNK(found.st_mode):
            yield f"{own} -> {os.readlink(entry.path)}"
        else:
            yield f"{own} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"
