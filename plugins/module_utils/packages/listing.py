# SPDX-License-Identifier: Apache-2.0
"""All installed packages with their versions, who needs whom, and which package a file belongs to."""

import re
from typing import Dict, Iterable, List, Set, Tuple

from ..host.bounded import run_bounded

SECONDS = 120
KEY = "gpg-pubkey"
RPM_FORM = "%{NAME}.%{ARCH} %{EPOCHNUM}:%{VERSION}-%{RELEASE}\\n"
DEB_FORM = "${db:Status-Status}\t${Package}:${Architecture}\t${Version}\t${Depends}, ${Pre-Depends}\t${Provides}\\n"
NEEDED = re.compile(r"^\s+(.+) is needed by (?:\(installed\) )?(\S+)$", re.MULTILINE)
# Read by dpkg-query for a package's own architecture, too: a name is all that a dependency has.
WORD = re.compile(r"[a-z0-9][a-z0-9+.-]+")


class NotListed(OSError):
    """The package manager did not answer; what it said."""


def _ask(command: List[str], allowed: Tuple[int, ...] = (0,)) -> str:
    done = run_bounded(command, timeout=SECONDS)
    if done.rc not in allowed:
        raise NotListed(f"{' '.join(command[:2])} gave no answer: {done.problem or done.stderr.strip()[:300]}")
    return done.stdout + ("" if done.rc == 0 else done.stderr)


def installed(family: str) -> Dict[str, str]:
    """`{name.arch: versions}` (rpm; keys of repositories are among them) or `{name:arch: version}` (dpkg).

    Several versions of one name, as of a kernel, are separated by blanks. OSError.
    """
    if family == "debian":
        return {name: version for name, version, _needs, _gives in _debs()}
    found: Dict[str, List[str]] = {}
    for line in _ask(["rpm", "-qa", "--qf", RPM_FORM]).splitlines():
        name, _, version = line.partition(" ")
        found.setdefault(name, []).append(version)
    return {name: " ".join(sorted(versions)) for name, versions in found.items()}


def _debs() -> List[Tuple[str, str, str, str]]:
    lines = [line.split("\t") for line in _ask(["dpkg-query", "--show", "--showformat", DEB_FORM]).splitlines()]
    return [
        (line[1], line[2], line[3], line[4])
        for line in lines
        if len(line) == 5 and line[0] not in ("config-files", "not-installed")
    ]


def removable(names: Iterable[str], family: str) -> Dict[str, str]:
    """Those of `names` that something else needs: `{name: who needs it}`; the others can go together. OSError.

    names  as `installed` has them, for rpm with the version: name-version-release.arch
    """
    wanted = sorted(set(names))
    return _needed_debs(wanted) if family == "debian" else _needed_rpms(wanted)


def _needed_rpms(names: List[str]) -> Dict[str, str]:
    """rpm's own test of the removal, repeated without those that are needed, until it has nothing to object."""
    kept: Dict[str, str] = {}
    while True:
        left = [name for name in names if name not in kept]
        if not left:
            return kept
        said = _ask(["rpm", "-e", "--test", *left], (0, *range(1, 100)))
        objections = NEEDED.findall(said)
        if not objections:
            if "error:" in said:
                raise NotListed(f"rpm cannot test the removal: {said.strip()[:300]}")
            return kept
        before = len(kept)
        for capability, needed_by in objections:
            for name in _givers(capability) & set(left):
                kept.setdefault(name, needed_by)
        if len(kept) == before:
            raise NotListed(f"rpm names no package that has {objections[0][0]}, which {objections[0][1]} needs")


def _givers(capability: str) -> Set[str]:
    word = capability.split(" ")[0]
    said = _ask(["rpm", "-q", "--qf", "%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}\\n", "--whatprovides", word], (0, 1))
    return set(said.split())


def _needed_debs(names: List[str]) -> Dict[str, str]:
    return needed_debs(names, _debs())


def needed_debs(names: Iterable[str], debs: Iterable[Tuple[str, str, str, str]]) -> Dict[str, str]:
    """The same from a listing (name:arch, version, depends, provides): a group of alternatives needs one that stays."""
    known = list(debs)
    gives = {name: {name.partition(":")[0], *_words(provides)} for name, _version, _needs, provides in known}
    going = set(names) & set(gives)
    kept: Dict[str, str] = {}
    while True:
        before = len(kept)
        for name, _version, needs, _provides in known:
            if name in going:
                continue
            for group in filter(None, (part.strip() for part in needs.split(","))):
                others = _words(group.replace("|", ","))
                if any(others & gives[stays] for stays in gives if stays not in going):
                    continue
                for gone in sorted(going):
                    if others & gives[gone]:
                        kept[gone] = name.partition(":")[0]
                        going.discard(gone)
        if len(kept) == before:
            return kept


def _words(text: str) -> Set[str]:
    found = (WORD.match(part.strip()) for part in text.split(","))
    return {match.group() for match in found if match}


def owners(paths: Iterable[str], family: str) -> Dict[str, str]:
    """Which installed package each of the files belongs to; those that no package has are left out. OSError."""
    found: Dict[str, str] = {}
    for path in sorted(set(paths)):
        command = ["dpkg-query", "-S", path] if family == "debian" else ["rpm", "-qf", "--qf", "%{NAME}\\n", path]
        done = run_bounded(command, timeout=SECONDS)
        if done.rc is None:
            raise NotListed(f"{command[0]} cannot say what {path} belongs to: {done.problem}")
        if done.rc == 0 and done.stdout.strip():
            found[path] = done.stdout.strip().splitlines()[0].partition(":")[0]
    return found
