# SPDX-License-Identifier: Apache-2.0
"""Put files, links, folders and accounts back to the first record, after packages and services are gone."""

import base64
import contextlib
import os
import shutil
import zlib
from typing import Any, Callable, Iterable, List, Mapping, Sequence, Tuple

from ..host.bounded import Finished, run_bounded
from ..host.files import below
from ..host.whole_file import write_whole
from ..host.written.owning import make_folders, own_path
from .places import OWN_TREES
from .what_goes_back import NOTHING, REMOVE, Row, home_of

SECONDS = 60
NOWHERE = "/nowhere"

RunProgram = Callable[[Sequence[str], float], Finished]


class NotDone(Exception):
    """What could not be put back."""


def restore_files(rows: Iterable[Row], record: Mapping[str, Any], root: str = "/") -> None:
    """Bring the files of these rows to their lines of the record. A folder that holds files stays.

    OSError, `NotDone`.
    """
    ours = [row for row in rows if row.kind == "files"]
    # Nothing is removed while something else cannot be put back.
    for row in ours:
        if row.step != REMOVE:
            _parts_of(row.name, row.was, record)
    # Folders are made from the top and removed from the bottom.
    for row in sorted((row for row in ours if row.step == REMOVE), key=lambda row: row.name, reverse=True):
        _remove(below(root, row.name))
    for row in sorted((row for row in ours if row.step != REMOVE), key=lambda row: row.name):
        _put_back(row.name, row.was, record, root)


def _remove(full: str) -> None:
    if os.path.isdir(full) and not os.path.islink(full):
        if not any(names for _folder, _folders, names in os.walk(full)):
            shutil.rmtree(full)
    elif os.path.lexists(full):
        os.unlink(full)


def _parts_of(path: str, line: str, record: Mapping[str, Any]) -> Tuple[int, Tuple[int, int], bytes]:
    """(mode, owner, content) in a line of the record; a link has none. `NotDone` if they are damaged."""
    words = line.split(" ")
    if words[0] == "link":
        return 0, (0, 0), b""
    try:
        mode, (user, group) = int(words[1], 8), [int(number) for number in words[2].split(":")]
        content = b"" if words[0] == "folder" else zlib.decompress(base64.b64decode(record["contents"][words[3]]))
    except (IndexError, KeyError, ValueError, zlib.error) as error:
        raise NotDone(f"{path} cannot be put back, since the record of it is damaged: {error}")
    return mode, (user, group), content


def _put_back(path: str, line: str, record: Mapping[str, Any], root: str) -> None:
    full = below(root, path)
    mode, owner, content = _parts_of(path, line, record)
    make_folders(os.path.dirname(full))
    if line.startswith("link "):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(full)
        os.symlink(line.partition(" ")[2], full)
    elif line.startswith("folder "):
        make_folders(full)
        own_path(full, mode, owner)
    else:
        write_whole(full, content, mode, owner)


def remove_trees(trees: Iterable[str], root: str = "/") -> List[str]:
    """Remove what is the toolkit's alone; which of it was there."""
    gone = [tree for tree in trees if tree in OWN_TREES and os.path.lexists(below(root, tree))]
    for tree in gone:
        shutil.rmtree(below(root, tree))
    return gone


def remove_accounts(rows: Iterable[Row], root: str = "/", run: RunProgram = run_bounded) -> None:
    """Remove users and groups that were not there before, and homes of the toolkit's; `NotDone`."""
    accounts = [row for row in rows if row.found != NOTHING]
    for row in [row for row in accounts if row.kind == "users"]:
        # 6: there is none any more.
        _ask(run, ["userdel", row.name], (0, 6))
        home = below(root, home_of(row.found) or NOWHERE)
        if os.path.isdir(home):
            shutil.rmtree(home)
    for row in [row for row in accounts if row.kind == "groups"]:
        if row.was == NOTHING:
            # userdel has removed that of the same name.
            _ask(run, ["groupdel", row.name], (0, 6))
        else:
            _ask(run, ["gpasswd", "--members", row.was.partition(":")[2], row.name])


def _ask(run: RunProgram, command: List[str], allowed: Sequence[int] = (0,)) -> None:
    done = run(command, SECONDS)
    if done.rc not in allowed:
        raise NotDone(f"{' '.join(command)}: {done.problem or done.stderr.strip()[:300]}")
