# SPDX-License-Identifier: Apache-2.0
"""The record of what a node had before its driver is changed: exact packages, small files, links."""

import os
import re
import stat
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..host.files import below
from ..host.whole_file import write_edited, write_whole
from ..host.written.state_file import ID, MODE, Damaged, read_state, write_state

FOLDER = "/var/lib/gpuwright/kept"
RECORD = FOLDER + "/record.json"
FILES = FOLDER + "/packages"
SCHEMA = 1
NODE, MIRROR = "node", "mirror"
FILE_FORM = {"path": str, "begin": str, "end": str, "text": (str, None), "mode?": MODE, "uid?": ID, "gid?": ID}
RECORD_FORM = {
    "schema": {SCHEMA}, "family": {"redhat", "debian"}, "source": {NODE, MIRROR}, "driver": str,
    "packages": [[str, str, str]], "patterns": [str], "there": [str], "files": [FILE_FORM],
    "links": [[str, (str, None)]], "bytes": int, "time": str, "open": bool,
    # Of each file of a package, by its name; a record of an earlier release has none.
    "sums?": {str: {"size": int, "sha256": str}},
}  # fmt: skip
# How a package manager names one package for sure.
FORM = {
    "redhat": "%{NAME} %{EPOCHNUM}:%{VERSION}-%{RELEASE} %{ARCH}\\n",
    "debian": "${db:Status-Status} ${Package} ${Version} ${Architecture}\\n",
}


class KeptError(Exception):
    """What could not be kept or put back, and what to do; ends with an id."""


class Refused(KeptError):
    """The same, before any package was changed."""


class Package(NamedTuple):
    """One package as it is installed; `version` with epoch (rpm: always) and release."""

    name: str
    version: str
    arch: str

    @property
    def upstream(self) -> str:
        """The version without epoch and release, 580.95.05."""
        return re.sub(r"^\d+:", "", self.version).rsplit("-", 1)[0]

    def spelled(self, family: str) -> str:
        """As dnf or apt takes it on its command line."""
        if family == "redhat":
            return f"{self.name}-{self.version}.{self.arch}"
        # apt takes `name:all` for another architecture than its own.
        arch = "" if self.arch == "all" else ":" + self.arch
        return f"{self.name}{arch}={self.version}"


def parse_packages(family: str, text: str) -> List[Package]:
    """Of the lines that rpm or dpkg-query print with `FORM`; what is not installed is left out. Sorted."""
    rows = [line.split(" ") for line in text.splitlines()]
    if family == "debian":
        rows = [row[1:] for row in rows if row[0] == "installed"]
    # rpm's keys of repositories are packages, too, and have no architecture.
    return sorted(Package(*row) for row in rows if len(row) == 3 and row[2] != "(none)")


def query(family: str, patterns: Sequence[str]) -> List[str]:
    """The command that lists installed packages with `FORM`."""
    if family == "redhat":
        return ["rpm", "-qa", "--qf", FORM[family]] + list(patterns)
    return ["dpkg-query", "--show", "--showformat", FORM[family]] + list(patterns)


def chosen(packages: Sequence[Package], version: str) -> List[Package]:
    """Those that have the driver's version: others have names like its own and belong to somebody else."""
    return [package for package in packages if package.upstream == version]


def block_of(text: str, begin: str, end: str) -> Optional[str]:
    """What stands in `text` from the line `begin` to the line `end`, both included; None if they are not there."""
    match = re.search(rf"(?ms)^{re.escape(begin)}\n.*?^{re.escape(end)}$\n?", text)
    return match.group(0) if match else None


def with_block(text: str, begin: str, end: str, block: Optional[str]) -> str:
    """`text` with the block in place of the one that it has; None takes it out."""
    old = block_of(text, begin, end)
    if old is not None:
        return text.replace(old, block or "", 1)
    if not block:
        return text
    return text + ("" if not text or text.endswith("\n") else "\n") + block


def read_files(wanted: Sequence[Mapping[str, Any]], root: str = "/") -> List[Dict[str, Any]]:
    """`wanted` (path; begin and end of the part that is meant, or "") with `text`, None for what is not there.

    A whole file has its `mode`, `uid` and `gid` as well.
    """
    found = []
    for one in wanted:
        text = read_whole(root, one["path"])
        begin, end = one.get("begin", ""), one.get("end", "")
        if text is not None and begin:
            text = block_of(text, begin, end)
        record: Dict[str, Any] = {"path": one["path"], "begin": begin, "end": end, "text": text}
        if text is not None and not begin:
            status = os.stat(below(root, one["path"]))
            record.update(mode=stat.S_IMODE(status.st_mode), uid=status.st_uid, gid=status.st_gid)
        found.append(record)
    return found


def read_whole(root: str, path: str) -> Optional[str]:
    """The text of a file to its last character; None if there is none. OSError, ValueError if it cannot be read."""
    try:
        with open(below(root, path), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def differing_files(files: Sequence[Mapping[str, Any]], root: str = "/") -> List[Mapping[str, Any]]:
    """Those of the record that are not as they were."""
    now = read_files(files, root)
    return [kept for number, kept in enumerate(files) if {**now[number], **kept} != {**kept, **now[number]}]


def write_files(files: Sequence[Mapping[str, Any]], root: str = "/") -> None:
    """Put back the files, or their parts, one whole file after the other; OSError."""
    for one in files:
        path = below(root, one["path"])
        text = one["text"]
        if one["begin"]:
            text = with_block(read_whole(root, one["path"]) or "", one["begin"], one["end"], text)
        if text is None:
            if os.path.lexists(path):
                os.unlink(path)
            continue
        if one["begin"] and not text and not os.path.lexists(path):
            continue
        if "mode" in one:
            write_whole(path, text.encode("utf-8"), one["mode"], (one["uid"], one["gid"]))
        else:
            # A part of somebody else's file, or a record of an earlier release.
            write_edited(path, text.encode("utf-8"))


def read_links(paths: Sequence[str], root: str = "/") -> Dict[str, Optional[str]]:
    """Where each link leads; None for what is no link."""
    return {path: os.readlink(below(root, path)) if os.path.islink(below(root, path)) else None for path in paths}


def put_link(path: str, target: str, root: str = "/") -> None:
    """Replace a link in one step; OSError."""
    place = below(root, path)
    temporary = place + ".gpuwright-new"
    if os.path.lexists(temporary):
        os.unlink(temporary)
    os.symlink(target, temporary)
    os.rename(temporary, place)


def read_record(root: str = "/") -> Optional[Dict[str, Any]]:
    """What was kept, None if nothing was; KeptError if the record is damaged: it is never taken for none."""
    try:
        found: Optional[Dict[str, Any]] = read_state(below(root, RECORD), RECORD_FORM, shown=RECORD)
    except Damaged as error:
        raise KeptError(f"{error}; {DAMAGED}")
    return found


DAMAGED = (
    f"look at it, then move it away (sudo mv {RECORD} {RECORD}.damaged): which packages, settings and links an upgrade "
    f"replaced is then not known any more, and {FILES} has the packages alone [upgrade.record]"
)


def write_record(record: Mapping[str, Any], root: str = "/") -> None:
    """Write it last: without it, nothing counts as kept. OSError."""
    write_state(below(root, RECORD), dict(record), RECORD_FORM, 0o600)


def packages_of(record: Mapping[str, Any]) -> List[Package]:
    return [Package(*row) for row in record["packages"]]


def changes(now: Sequence[Package], kept: Sequence[Package], there: Sequence[str]) -> Tuple[List[Package], List[str]]:
    """What must be installed to have what was kept, and names that must go since they were not there before.

    there  names of all packages like the driver's that were there before, whoever they belong to
    """
    have = set(now)
    install = [package for package in kept if package not in have]
    gone = sorted({package.name for package in now} - {package.name for package in kept} - set(there))
    return install, gone
