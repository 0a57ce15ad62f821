# SPDX-License-Identifier: Apache-2.0
"""Read a host's files below a root folder; what is absent or unreadable is None or empty, never an exception."""

import os

# Importing typing would take a third of gpu-run's start time: its names are only for the type checker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional

LIMIT_BYTES = 1024 * 1024
MAX_LINKS = 40


def below(root: str, path: str) -> str:
    """The place of the host's absolute `path` below `root`, links not followed."""
    return os.path.join(root, path.lstrip("/"))


def resolve(root: str, path: str) -> "Optional[str]":
    """Follow links as the host itself would, absolute ones starting again at `root`; None if the chain is broken."""
    todo = [part for part in path.split("/") if part]
    here: "List[str]" = []
    links = 0
    while todo:
        part = todo.pop(0)
        if part in (".", ".."):
            here = here[:-1] if part == ".." else here
            continue
        target = link_target(root, "/".join([*here, part]))
        if target is None:
            # Not a link, or it does not exist: the last check, for existence, decides which.
            here.append(part)
            continue
        links += 1
        if links > MAX_LINKS:
            return None
        here = [] if target.startswith("/") else here
        todo = [part for part in target.split("/") if part] + todo
    full = below(root, "/".join(here))
    try:
        os.lstat(full)
    except (OSError, ValueError):
        return None
    return full


def exists(root: str, path: str) -> bool:
    """Whether the host has `path`; a link to nothing does not count."""
    return _found(root, path) is not None


def _found(root: str, path: str) -> "Optional[str]":
    """As `resolve`, for what is only to be opened: on the host itself the kernel follows the links, in less time."""
    if root != "/":
        return resolve(root, path)
    full = below(root, path)
    try:
        os.stat(full)
    except (OSError, ValueError):
        return None
    return full


def read_bytes(root: str, path: str) -> "Optional[bytes]":
    """At most 1 MiB of the file, or None."""
    full = _found(root, path)
    # Only a regular file: opening a pipe or a terminal in its place could wait forever.
    if full is None or not os.path.isfile(full):
        return None
    try:
        with open(full, "rb") as file:
            return file.read(LIMIT_BYTES)
    except OSError:
        return None


def read_text(root: str, path: str) -> "Optional[str]":
    """The file's text without surrounding white space, undecodable bytes replaced; None if it cannot be read."""
    data = read_bytes(root, path)
    return None if data is None else data.decode("utf-8", "replace").strip()


def is_digits(text: str, most: int) -> bool:
    """Whether the text is 1 to `most` decimal digits; str.isdecimal() also accepts digits of other scripts."""
    return 0 < len(text) <= most and not text.strip("0123456789")


def to_int(text: "Optional[str]") -> "Optional[int]":
    """A decimal number, or None; stricter than int(), which also accepts "1_0" and digits of other scripts."""
    text = text or ""
    return int(text) if is_digits(text[text.startswith("-") :], 18) else None


def read_int(root: str, path: str) -> "Optional[int]":
    """The file's decimal number, or None."""
    return to_int(read_text(root, path))


def names_in(root: str, folder: str) -> "List[str]":
    """Sorted names in a folder; empty if there is no such folder or it cannot be read."""
    full = _found(root, folder)
    try:
        return sorted(os.listdir(full)) if full else []
    except OSError:
        return []


def link_target(root: str, path: str) -> "Optional[str]":
    """The text of the link, or None."""
    try:
        return os.readlink(below(root, path))
    except (OSError, ValueError):
        # ValueError: a name from a damaged file may contain a byte that no path can.
        return None


def read_assignments(root: str, path: str) -> "Dict[str, str]":
    """Lines NAME=value as a dict, quotes removed, everything else skipped (os-release, grubenv, logind's sessions)."""
    found = {}
    for line in (read_text(root, path) or "").splitlines():
        name, separator, value = line.partition("=")
        if separator and not name.startswith("#"):
            found[name.strip()] = value.strip().strip("\"'")
    return found


def read_colon_lines(text: "Optional[str]") -> "Dict[str, str]":
    """Lines `name: value` as a dict; if a name is repeated, the first value counts (cpuinfo, meminfo, modinfo)."""
    found: "Dict[str, str]" = {}
    for line in (text or "").splitlines():
        name, separator, value = line.partition(":")
        if separator:
            found.setdefault(name.strip(), value.strip())
    return found
