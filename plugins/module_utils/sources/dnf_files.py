# SPDX-License-Identifier: Apache-2.0
"""The sections of all files in which dnf looks for repositories, in its own order and by its own rules.

dnf takes the first section of an id and ignores all others, also where the first one is switched off; a file that it
cannot parse is skipped as a whole. Sources: dnf/conf/read.py, libdnf/utils/iniparser, dnf.conf(5).
"""

import configparser
import os
import re
from typing import Any, Dict, List, NamedTuple, Tuple

from ..host.files import names_in, read_assignments, read_bytes
from ..packages.repositories import DNF_CONF, expand
from .relied import Entry, plain_address

FOLDERS = ("/etc/yum.repos.d", "/etc/yum/repos.d", "/etc/distro.repos.d")
VARIABLES = ("/etc/dnf/vars", "/etc/yum/vars")
MAIN = "main"
OFF = ("0", "no", "false", "off")
WORDS = re.compile(r"[\s,]+")
ADDRESSES = ("baseurl", "mirrorlist", "metalink")


class File(NamedTuple):
    """A file's entries, and why dnf cannot parse it: "line 3: words", "" if it can."""

    path: str
    text: str
    entries: Tuple[Entry, ...]
    problem: str


def read_files(root: str = "/") -> List[File]:
    """[main]'s file first, which may have sections of repositories, too, then all others. Absent ones are left out."""
    major = release(root)
    found = []
    for path in [DNF_CONF, *_paths(root)]:
        data = read_bytes(root, path)
        if data is not None:
            found.append(parse(path, data.decode("utf-8", "surrogateescape"), root, major))
    return found


def release(root: str = "/") -> str:
    """The first number of the system's version, which is dnf's $releasever."""
    return read_assignments(root, "/etc/os-release").get("VERSION_ID", "").partition(".")[0]


def folders(root: str = "/") -> Tuple[str, ...]:
    """Where dnf looks for files: reposdir of [main], or what it takes without one."""
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string((read_bytes(root, DNF_CONF) or b"").decode("utf-8", "surrogateescape"))
        named = parser.get(MAIN, "reposdir", fallback="")
    except configparser.Error:
        # dnf ends with an error of its own for this file.
        named = ""
    return tuple(folder.rstrip("/") for folder in WORDS.split(named) if folder) or FOLDERS


def _paths(root: str) -> List[str]:
    paths = [f"{folder}/{name}" for folder in folders(root) for name in names_in(root, folder)]
    return sorted((path for path in paths if path.endswith(".repo")), key=lambda path: path[: -len(".repo")].split("/"))


def parse(path: str, text: str, root: str = "/", major: Any = "") -> File:
    """A `File`; entries before the line that dnf cannot parse are there all the same, to see what the file is about."""
    sections, problem = _sections(text)
    entries = []
    for name, line, last, values in sections:
        if name == MAIN:
            continue
        filled = [expand(values[key], root, major) for key in ADDRESSES if values.get(key)]
        words = [word for value in filled for word in WORDS.split(value) if word]
        enabled = values.get("enabled", "1").strip().lower() not in OFF
        addresses = tuple(plain_address(word) for word in words)
        entries.append(Entry(path, line, last, expand(name, root, major), addresses, enabled, values))
    return File(path, text, tuple(entries), problem)


def _sections(text: str) -> Tuple[List[Tuple[str, int, int, Dict[str, str]]], str]:
    """`(name, line, last line, values)` of each section, and what cannot be parsed."""
    found: List[Any] = []
    key = ""
    for number, line in enumerate(text.lstrip("\ufeff").splitlines(), 1):
        bare = line.strip()
        if not bare or line[0] in "#;":
            key = ""
        elif line[0] == "[" or (bare[0] == "[" and not key):
            name, bracket, rest = bare[1:].partition("]")
            if not bracket or not name or "]" in rest:
                return found, f"line {number}: {bare[:60]!r} is no section"
            found.append([name, number, number, {}])
        elif line[0] in " \t":
            if not key:
                return found, f"line {number}: {bare[:60]!r} continues nothing"
            found[-1][3][key] += "\n" + bare
            found[-1][2] = number
        else:
            name, sign, value = line.partition("=")
            key = name.strip()
            if not found:
                return found, f"line {number}: {bare[:60]!r} is in no section"
            if not sign or not key:
                return found, f"line {number}: {bare[:60]!r} is no setting, which has a name and '='"
            found[-1][3][key] = value.strip()
            found[-1][2] = number
    return [tuple(section) for section in found], ""


def settings_files(root: str = "/") -> List[str]:
    """Files beside those of repositories that decide what dnf makes of them."""
    named = [os.path.join(folder, name) for folder in VARIABLES for name in names_in(root, folder)]
    return [DNF_CONF, *named]
