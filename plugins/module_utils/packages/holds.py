# SPDX-License-Identifier: Apache-2.0
"""Holds of installed packages: for each owner, a block in dnf's versionlock.list or a file of apt preferences."""

import os
import re
from typing import Iterable, List, Match, Optional, Sequence, Tuple

from ..host.bounded import run_bounded
from .installed import QUERY_SECONDS

# Locks of packages that do not exist, since `dnf versionlock delete` drops every comment of the list.
BEGIN, END = "gpuwright-BEGIN-{}-0:0-0.*", "gpuwright-END-{}-0:0-0.*"
# How version 0.1.0 marked its lines.
COMMENTS = ("# BEGIN gpuwright {}", "# END gpuwright {}")
RPM_FORM, DEB_FORM = "%{NAME}-%{EPOCHNUM}:%{VERSION}-%{RELEASE}.*\\n", "${db:Status-Status} ${Package} ${Version}\\n"
# NAME-EPOCH:VERSION-RELEASE.*, as locks_of writes it; NAME-VERSION-* or NAME-VERSION-RELEASE*, as planned does.
DNF_LINE = re.compile(r"(?P<name>.+?)-(?:\d+:[^-]+-[^-]+|[^-]+-[^-]*\*)$")
APT_STANZA = re.compile(r"(?m)^Package: (?P<name>\S+)\nPin: version (?P<version>\S+)$")
HEAD = "# Written by gpuwright: these packages stay at their version.\n"


def held_text(
    family: str, owner: str, packages: Sequence[str], patterns: Sequence[str], version: str, before: Optional[str]
) -> Optional[str]:
    """The file's text in which the installed of `packages` are held; None: there is to be no such file.

    patterns, version   whose installed packages of that version are held, too
    before              the text as it is, None if there is no file
    No packages at all release what was held. Raises OSError if the package database cannot be queried.
    """
    if family == "debian":
        if not packages:
            return None
        found = debs(_ask_dpkg([name.partition("=")[0] for name in packages]), "")
        found += debs(_ask_dpkg(patterns), version) if patterns and version else []
        return preferences(found) if found else before
    locks: List[str] = []
    if packages:
        # rpm -q takes a pattern for the name itself; only -qa looks for what it matches.
        named = [name for name in packages if "*" not in name]
        patterned = [name for name in packages if "*" in name]
        locks = rpms(_ask_rpm("-q", named), "") if named else []
        locks += rpms(_ask_rpm("-qa", patterned), "") if patterned else []
        locks += rpms(_ask_rpm("-qa", patterns), version) if patterns and version else []
    text = listed(before or "", owner, sorted(set(locks)))
    return text if text or before is not None else None


def _ask_rpm(mode: str, names: Sequence[str]) -> List[str]:
    return _ask(["rpm", mode, "--qf", RPM_FORM] + list(names))


def _ask_dpkg(names: Sequence[str]) -> List[str]:
    return _ask(["dpkg-query", "--show", "--showformat", DEB_FORM] + list(names))


def _ask(argv: Sequence[str]) -> List[str]:
    """Lines of the answer. Packages that are not there are no error, as before the first run; trouble of its own is."""
    done = run_bounded(argv, timeout=QUERY_SECONDS)
    if done.rc is None or "error:" in done.stderr:
        raise OSError(f"{argv[0]} cannot say what is installed: {done.problem or done.stderr.strip()}")
    return done.stdout.splitlines()


def rpms(lines: Iterable[str], version: str) -> List[str]:
    """The locks among rpm's lines, "NAME-EPOCH:VERSION-RELEASE.*"; with a version, only its own.

    For what is not there, rpm answers "package x is not installed": no lock for that.
    """
    own = re.compile(rf"-[0-9]+:{re.escape(version)}-[^-]+$" if version else r"[.][*]$")
    return [line for line in lines if own.search(line)]


def debs(lines: Iterable[str], version: str) -> List[Tuple[str, str]]:
    """(name, version) of what is installed in dpkg's lines, "installed NAME VERSION"; with a version, only its own."""
    own = re.compile(rf"([0-9]+:)?{re.escape(version)}(-|$)" if version else "")
    rows = [line.split(" ") for line in lines if line.startswith("installed ")]
    return [(row[1], row[2]) for row in rows if len(row) == 3 and own.match(row[2])]


def preferences(packages: Iterable[Tuple[str, str]]) -> str:
    """apt preferences that keep these (name, version).

    Above 1000 they keep apt, by hand or unattended, from any other version. `apt-mark hold` would be one mark that the
    toolkit, its user and other tools would share.
    """
    stanzas = [
        f"\nPackage: {name}\nPin: version {version}\nPin-Priority: 1001\n" for name, version in sorted(set(packages))
    ]
    return HEAD + "".join(stanzas)


def listed(text: str, owner: str, locks: Sequence[str]) -> str:
    """dnf's list with these locks as the owner's block, where it was or at the end; without any, no block."""
    marks = (BEGIN.format(owner), END.format(owner))
    block = [marks[0], *locks, marks[1]] if locks else []
    lines = _without(text.splitlines(), [mark.format(owner) for mark in COMMENTS])[0]
    kept, place = _without(lines, marks)
    return "".join(f"{line}\n" for line in kept[:place] + block + kept[place:])


def owners_now(family: str, owner: str, path: str, text: Optional[str]) -> List[str]:
    """Who holds packages, sorted, once the file at `path` has this text (None: it is absent).

    dnf has one list for all owners. On Debian each has a file; their names differ in the owner and lie in one folder.
    """
    if family == "redhat":
        return owners_of(text or "")
    folder, name = os.path.split(path)
    start, _own, end = name.rpartition(owner)
    found = {
        other[len(start) : len(other) - len(end)]
        for other in (os.listdir(folder) if os.path.isdir(folder) else [])
        if other.startswith(start) and other.endswith(end) and len(other) > len(start + end)
    }
    return sorted(found - {owner} | ({owner} if text is not None else set()))


def owners_of(text: str) -> List[str]:
    """Who has a block in dnf's list, sorted; a mark without its other one counts, too."""
    form = "|".join(re.escape(mark).replace(re.escape("{}"), "(.+)") for mark in (BEGIN, COMMENTS[0]))
    found = (re.match(f"(?:{form})$", line) for line in text.splitlines())
    return sorted({match.group(1) or match.group(2) for match in found if match})


def _without(lines: List[str], marks: Sequence[str]) -> Tuple[List[str], int]:
    """The lines without the block that these marks enclose, and where it was, or else their end.

    A mark whose other mark is missing goes, too: what stands between cannot be told from others' lines.
    """
    begin, end = marks
    if begin in lines and end in lines[lines.index(begin) :]:
        first = lines.index(begin)
        last = lines.index(end, first)
        return lines[:first] + lines[last + 1 :], first
    kept = [line for line in lines if line not in marks]
    return kept, len(kept)


def planned_text(
    text: str,
    family: str,
    owner: str,
    version: str = "",
    packages: Iterable[str] = (),
    own_versions: Iterable[str] = (),
) -> str:
    """The file's text in which the packages of `owner` may change to the planned versions and to no others.

    text          dnf's list (family redhat; others' lines stay) or our apt preferences (debian)
    version       to which all of them may change, such as 580.* or 580.95.05-*; empty: only those in `packages`
    packages      as dnf or apt are asked for them, name-version or name=version; without a version they stay held
    own_versions  names to which `version` does not apply
    """
    planned = {name: wanted for name, wanted in map(_split, packages) if wanted}
    kept = set(own_versions)

    def next_version(name: str) -> str:
        return planned.get(name) or (version if name not in kept else "")

    if family == "debian":
        return APT_STANZA.sub(lambda match: _stanza(match, next_version(match.group("name"))), text)
    lines, ours = [], False
    begin, end = BEGIN.format(owner), END.format(owner)
    for line in text.splitlines():
        ours = (ours or line == begin) and line != end
        match = DNF_LINE.match(line) if ours and line != begin else None
        # A request to dnf has no architecture and may have no release; a lock is a pattern for all parts.
        wanted = next_version(match.group("name")).rstrip("*").rstrip("-") if match else ""
        pattern = wanted + "*" if wanted.endswith(".") else wanted
        lines.append(
            "{}-{}{}".format(match.group("name"), pattern, "*" if "-" in pattern else "-*")
            if match and wanted
            else line
        )
    return "".join(f"{line}\n" for line in lines)


def _stanza(match: "Match[str]", version: str) -> str:
    return "Package: {}\nPin: version {}".format(match.group("name"), version or match.group("version"))


def _split(package: str) -> Tuple[str, str]:
    """Name and version in a request: name, name=version, name-version or name-version-release."""
    if "=" in package:
        name, _, version = package.partition("=")
        return name, version
    # A version has a dot, and no name before it has one: cuda-toolkit-12-9, libcudnn9-cuda-12-9.10.2.21-1.
    match = re.match(r"(?P<name>.+?)-(?P<version>\d+\.\d[^-]*(?:-[^-]+)?)$", package)
    return (match.group("name"), match.group("version")) if match else (package, "")
