# SPDX-License-Identifier: Apache-2.0
"""The steps of an uninstallation on the node: what is to be done, files and accounts, and the end with its answer."""

import os
import shutil
from typing import Any, Callable, Dict, List, NamedTuple, Sequence

from ..host.bounded import Finished, run_bounded
from ..host.files import below
from ..host.whole_file import sync_folder
from ..packages.listing import owners, removable
from .ledger import LEDGER, RECORD, attribute, load, make_record, new_ledger
from .look import look
from .places import FOLDER, UNIT
from .restore import NotDone, RunProgram, remove_accounts, remove_trees, restore_files
from .stays import with_needed, with_running, with_used
from .taken import forget, rows_elsewhere, with_taken
from .what_goes_back import STAYS, Row, compare, own_trees, packages_of, to_do

__all__ = ["Found", "NotDone", "Tools", "describe", "find", "finish", "put_back", "units_of"]

UNITS = "/etc/systemd/system/"
SECONDS = 60


class Tools(NamedTuple):
    """What is asked of the node beside its files; tests have their own."""

    look: Callable[..., Dict[str, Any]] = look
    removable: Callable[..., Dict[str, str]] = removable
    owners: Callable[..., Dict[str, str]] = owners
    run: RunProgram = run_bounded


TOOLS = Tools()


class Found(NamedTuple):
    record: Dict[str, Any]
    rows: List[Row]


def find(root: str = "/", tools: Tools = TOOLS) -> Found:
    """The node against its first record. Where there is none yet, as in check mode, one is made and not kept."""
    record, ledger = load(RECORD, root), load(LEDGER, root)
    if record is None or ledger is None:
        record = make_record(root, tools.look)
        ledger = new_ledger(record)
    record = with_taken(record, ledger)
    now = tools.look(record["family"], root, ledger["before"] or ledger["after"])
    if ledger["before"]:
        # What this run has done so far is the toolkit's, too, as what a package manager kept of a file.
        attribute(ledger, ledger["before"], now)
    rows = compare(record, ledger, now) + rows_elsewhere(ledger, root)
    rows = with_needed(with_running(rows, root), record["family"], tools.removable)
    if not any(row.kind == "packages" for row in to_do(rows)):
        # Until they are gone, their files are everywhere.
        rows = with_used(rows, record["family"], tools.owners, root)
    return Found(record, rows)


def describe(found: Found, root: str = "/", tools: Tools = TOOLS) -> Dict[str, Any]:
    """For the role: rows, what the package manager and systemd are asked for. Names, modes and hashes, no content."""
    trees = [tree for tree in own_trees(found.record) if os.path.lexists(below(root, tree))]
    return {
        "time": found.record["time"],
        "late": found.record["late"],
        "rows": [dict(row._asdict()) for row in found.rows],
        "undone": [row.name for row in to_do(found.rows)] + trees,
        "stays": [
            f"{row.name} stays ({row.found}; at first {row.was}): {row.why}" for row in found.rows if row.step == STAYS
        ],
        "packages": packages_of(found.rows, found.record["family"]),
        "units": units_of(found.rows, tools.run),
        "trees": trees,
        "differences": len(to_do(found.rows)) + len(trees),
    }


def units_of(rows: Sequence[Row], run: RunProgram) -> List[str]:
    """Units of our files that systemd knows as loaded, and the instances of those that are templates."""
    names = [row.name[len(UNITS) :] for row in to_do(rows) if row.kind == "files" and row.name.startswith(UNITS)]
    mine = [name for name in names if UNIT.fullmatch(name)]
    templates = [name.replace("@.", "@*.") for name in mine if "@." in name]
    plain = [name for name in mine if "@." not in name]
    if templates:
        done: Finished = run(
            ["systemctl", "list-units", "--all", "--plain", "--no-legend", "--no-pager", *templates], SECONDS
        )
        plain += [line.split()[0] for line in done.stdout.splitlines() if line.split()]
    return sorted(set(plain))


def put_back(found: Found, root: str = "/", tools: Tools = TOOLS) -> None:
    """Files, folders and accounts, once packages are gone. OSError, `restore.NotDone`."""
    rows = to_do(found.rows)
    remove_trees(own_trees(found.record), root)
    restore_files(rows, found.record, root)
    forget(root)
    if any(row.name.startswith("/etc/systemd/") for row in rows):
        tools.run(["systemctl", "daemon-reload"], SECONDS)
    remove_accounts(rows, root, tools.run)


def finish(found: Found, root: str = "/") -> bool:
    """Remove the toolkit's own folder, with the record last; where something of ours stays, records stay. OSError."""
    folder = below(root, FOLDER)
    whole = not [row for row in found.rows if row.ours]
    keep = () if whole else (os.path.basename(RECORD), os.path.basename(LEDGER))
    if not os.path.isdir(folder):
        return whole
    # The ledger without the record is taken for damage by nobody: the record is looked for first.
    for name in sorted(os.listdir(folder), key=lambda name: name == os.path.basename(RECORD)):
        path = os.path.join(folder, name)
        if name in keep:
            continue
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    if whole:
        os.rmdir(folder)
        sync_folder(folder)
    return whole
