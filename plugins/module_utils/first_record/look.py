# SPDX-License-Identifier: Apache-2.0
"""A node's state as data: a line for each file, package, account, unit and setting that the toolkit may change.

A file's line has kind, mode, owner and hash, or the target of a link; contents are read only for the first record.
"""

import base64
import hashlib
import os
import stat
import zlib
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional

from ..host.files import below, read_text
from ..packages.installed import PACKAGE_FILES
from ..packages.listing import installed
from . import effective, places

# Configuration is small; of a larger file only the hash is kept, and it cannot be put back.
CONTENT_BYTES = 1024 * 1024
HASH_LETTERS = 32

State = Dict[str, Dict[str, str]]
Listing = Callable[[str], Dict[str, str]]


def look(
    family: str,
    root: str = "/",
    known: Optional[Mapping[str, Any]] = None,
    listing: Listing = installed,
    names: Optional[Iterable[str]] = None,
    run: effective.RunProgram = effective.run_bounded,
) -> Dict[str, Any]:
    """`{files, packages, users, groups, stamp}`, and with `names` these and what is in force (`look_wide`); OSError.

    known  an earlier look: its packages are taken where the package manager's records have not changed since
    names  accounts and absolute paths that the values of variables name
    """
    stamp = package_stamp(root)
    same = known is not None and known.get("stamp") == stamp
    packages = known["packages"] if known is not None and same else listing(family)
    files = read_files(root)
    wide: Dict[str, Any] = {} if names is None else dict(look_wide(root, files, names, run), names=sorted(names))
    return {
        **wide,
        "files": files,
        "packages": packages,
        "users": read_accounts(root, "/etc/passwd", (2, 3, 4, 5, 6)),
        "groups": read_accounts(root, "/etc/group", (2, 3)),
        "stamp": stamp,
    }


def look_wide(
    root: str, files: Iterable[str], names: Iterable[str], run: effective.RunProgram = effective.run_bounded
) -> Dict[str, Dict[str, str]]:
    """`{units, settings, accounts, trees, named, links}`, a line each; OSError.

    named  of paths that variables name, and of files that host_tuning wrote: some lie where no look goes
    links  owners of the links among the files that roles ask for
    """
    paths = sorted({name for name in names if name.startswith("/")} | {*effective.tuned_files(root), *places.NAMED})
    wanted = [path for path in files if places.is_wanted(path) and os.path.islink(below(root, path))]
    return {
        "units": effective.read_units(root, effective.tuned_units(root), run),
        "settings": effective.read_settings(root),
        "accounts": effective.read_accounts_of(root, [name for name in names if not name.startswith("/")]),
        "trees": effective.read_trees(root),
        "named": {path: effective.line_named(root, path) for path in paths},
        "links": {path: effective.owner_of(root, path) for path in wanted},
    }


def package_stamp(root: str) -> str:
    """Changes with every transaction; dpkg and rpm replace or write these files."""
    found = []
    for path in PACKAGE_FILES:
        try:
            status = os.stat(below(root, path))
        except FileNotFoundError:
            continue
        found.append(f"{path} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}")
    return "; ".join(found)


def read_files(root: str) -> Dict[str, str]:
    """`{path: line}` of all that lies in the places, apart from what passes."""
    return {path: line_of(root, path) for path in _paths(root) if not places.is_passing(path)}


def _paths(root: str) -> Iterator[str]:
    seen = set()
    for tree in places.TREES:
        top = below(root, tree)
        if os.path.lexists(top):
            seen.add(tree)
        for folder, folders, names in os.walk(top):
            inside = tree + folder[len(top) :]
            seen.update(os.path.join(inside, name) for name in [*folders, *names])
    for folder in places.NAMES:
        seen.update(os.path.join(folder, name) for name in _names(root, folder))
    seen.update(path for path in places.FILES if os.path.lexists(below(root, path)))
    yield from sorted(seen)


def _names(root: str, folder: str) -> List[str]:
    try:
        return os.listdir(below(root, folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def with_content(path: str) -> bool:
    """Whether a file's content belongs to its line: of what lies beside it by name alone, it does not."""
    return path in places.FILES or any(path.startswith(tree + "/") for tree in places.TREES)


def line_of(root: str, path: str, content: bool = False) -> str:
    """Kind, mode, owner and hash of one file, or the target of a link; "" if there is none. OSError.

    content  hash it wherever it lies
    """
    full = below(root, path)
    try:
        found = os.lstat(full)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    own = f"{stat.S_IMODE(found.st_mode):04o} {found.st_uid}:{found.st_gid}"
    if stat.S_ISLNK(found.st_mode):
        return f"link {os.readlink(full)}"
    if stat.S_ISDIR(found.st_mode):
        return f"folder {own}"
    if not stat.S_ISREG(found.st_mode):
        return f"other {own}"
    return f"file {own} {_hash(full)}" if content or with_content(path) else f"file {own}"


def _hash(full: str) -> str:
    digest = hashlib.sha256()
    with open(full, "rb") as file:
        piece = file.read(CONTENT_BYTES)
        while piece:
            digest.update(piece)
            piece = file.read(CONTENT_BYTES)
    return digest.hexdigest()[:HASH_LETTERS]


def read_contents(root: str, lines: Mapping[str, str]) -> Dict[str, str]:
    """`{hash: content}` of the files of these lines, compressed; a file that is too large is left out. OSError."""
    found: Dict[str, str] = {}
    for path, line in lines.items():
        words = line.split(" ")
        if words[0] != "file" or len(words) < 4 or words[3] in found:
            continue
        with open(below(root, path), "rb") as file:
            data = file.read(CONTENT_BYTES + 1)
        if len(data) <= CONTENT_BYTES:
            found[words[3]] = base64.b64encode(zlib.compress(data)).decode("ascii")
    return found


def read_accounts(root: str, path: str, fields: Any) -> Dict[str, str]:
    """`{name: fields}` of a file such as /etc/passwd; passwords are not among them."""
    found = {}
    for line in (read_text(root, path) or "").splitlines():
        words = line.split(":")
        if len(words) > max(fields) and words[0] and not words[0].startswith(("#", "+", "-")):
            found[words[0]] = ":".join(words[field] for field in fields)
    return found
