# SPDX-License-Identifier: Apache-2.0
"""Sources of packages that a run has taken over: as they were, so that an uninstallation brings them back.

They may be newer than the first record, so each is in the ledger, with its content. What is there is also how a source
is known that comes back after it was taken over.
"""

import base64
import contextlib
import os
import stat
import zlib
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..host.files import below
from ..host.whole_file import write_whole
from . import look
from .ledger import LEDGER, load, save
from .what_goes_back import NOTHING, RESTORE, STAYS, Row

TAKEN = "taken"
MODE = 0o644


class Before(NamedTuple):
    """One file before it was changed, and the ledger's entry of it before that."""

    path: str
    content: bytes
    target: str
    mode: int
    owner: Tuple[int, int]
    entry: Optional[Dict[str, Any]]


def remembered(root: str = "/") -> Optional[Dict[str, List[str]]]:
    """Digests of the sources that were taken over, by path; None without a ledger. OSError, `ledger.Damaged`."""
    ledger = load(LEDGER, root)
    return None if ledger is None else {path: one["entries"] for path, one in ledger.get(TAKEN, {}).items()}


def why_irreplaceable(path: str, root: str = "/") -> str:
    """Why an uninstallation could not bring back the file `path`, "" if it can. OSError."""
    found = os.lstat(below(root, path))
    if stat.S_ISLNK(found.st_mode):
        return ""
    if not stat.S_ISREG(found.st_mode):
        return "it is no file"
    return "it is larger than 1 MiB" if found.st_size > look.CONTENT_BYTES else ""


def take(texts: Mapping[str, str], digests: Mapping[str, Sequence[str]], root: str = "/") -> List[Before]:
    """Write these texts (by path), and remember what was there and which sources it had; mode and owner stay.

    OSError, `ledger.Damaged`. Without a ledger, as in a play without the node's lock, nothing is remembered.
    """
    done = []
    for path in sorted(texts):
        before = _read(path, root)
        done.append(before._replace(entry=_remember(path, digests[path], before, root)))
        write_whole(below(root, path), texts[path].encode("utf-8", "surrogateescape"), before.mode, before.owner)
        _left(path, root)
    return done


def give_back(done: Sequence[Before], root: str = "/") -> None:
    """Undo `take`. OSError, `ledger.Damaged`."""
    for before in reversed(done):
        full = below(root, before.path)
        if before.target:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(full)
            os.symlink(before.target, full)
        else:
            write_whole(full, before.content, before.mode, before.owner)
        ledger = load(LEDGER, root)
        if ledger is not None:
            entries = ledger.setdefault(TAKEN, {})
            entries.pop(before.path, None)
            entries.update({before.path: before.entry} if before.entry else {})
            save(LEDGER, ledger, root)


def _read(path: str, root: str) -> Before:
    full = below(root, path)
    found = os.lstat(full)
    if stat.S_ISLNK(found.st_mode):
        # The link becomes a file: what it leads to is somebody else's.
        return Before(path, b"", os.readlink(full), MODE, (os.geteuid(), os.getegid()), None)
    with open(full, "rb") as file:
        content = file.read()
    return Before(path, content, "", stat.S_IMODE(found.st_mode), (found.st_uid, found.st_gid), None)


def _remember(path: str, digests: Sequence[str], before: Before, root: str) -> Optional[Dict[str, Any]]:
    """The ledger's entry of this file so far."""
    ledger = load(LEDGER, root)
    if ledger is None:
        return None
    so_far = ledger.setdefault(TAKEN, {}).get(path)
    entries = sorted({*(so_far or {}).get("entries", ()), *digests})
    content = base64.b64encode(zlib.compress(before.content)).decode("ascii")
    ledger[TAKEN][path] = {"line": look.line_of(root, path, True), "content": content, "entries": entries}
    # Whoever has changed it since the first record gets their own content back.
    ledger["foreign"].pop(f"files {path}", None)
    save(LEDGER, ledger, root)
    return dict(so_far) if so_far else None


def _left(path: str, root: str) -> None:
    """How the run has left it, by which somebody's later change is known."""
    ledger = load(LEDGER, root)
    if ledger is not None:
        ledger[TAKEN][path]["left"] = look.line_of(root, path, True)
        save(LEDGER, ledger, root)


def rows_elsewhere(ledger: Mapping[str, Any], root: str = "/") -> List[Row]:
    """As `compare`, for files in folders that no look goes to, as those of a `reposdir` of the site. OSError."""
    rows = []
    for path, one in sorted(ledger.get(TAKEN, {}).items()):
        found = look.line_of(root, path, True)
        if look.with_content(path) or found == one["line"]:
            continue
        same = found == one.get("left")
        step, why = (RESTORE, "") if same else (STAYS, "somebody has changed it since")
        rows.append(Row("files", path, one["line"], found or NOTHING, step, why, True))
    return rows


def with_taken(record: Mapping[str, Any], ledger: Mapping[str, Any]) -> Dict[str, Any]:
    """The record, in which files whose sources were taken over are as they were just before that."""
    files, contents = dict(record["files"]), dict(record["contents"])
    for path, one in ledger.get(TAKEN, {}).items():
        if look.with_content(path):
            files[path] = one["line"]
        words = one["line"].split(" ")
        if words[0] == "file" and len(words) > 3:
            contents[words[3]] = one["content"]
    return dict(record, files=files, contents=contents)


def forget(root: str = "/") -> None:
    """They are back: a later run may take them over again. OSError."""
    ledger = load(LEDGER, root)
    if ledger is not None and ledger.get(TAKEN):
        for one in ledger[TAKEN].values():
            one["entries"] = []
        save(LEDGER, ledger, root)
