# SPDX-License-Identifier: Apache-2.0
"""The record of a node before the first change, and the ledger of what the toolkit's own runs changed since.

Whoever gets the node's lock is a run that may change it, so `begin` is called with the lock, and `end` before it is
given back. The record is written once, whole, and never again. What changed between the two is the run's; what changed
between two runs is somebody else's. A run that was killed has no end: the next one takes for its own only what the
toolkit alone makes, and packages that nobody installed by hand.
"""

import json
import os
from typing import Any, Callable, Collection, Dict, Iterable, List, Mapping, Optional

from ..host.files import below, names_in
from ..host.os_family import read_family
from ..host.whole_file import write_whole
from ..host.written.owning import make_folders
from ..host.written.state_file import ANY, NAME, OTHERS, check
from ..host.written.state_file import Damaged as WrongForm
from ..packages.history import installed_by_hand
from ..verdict.report import now_utc
from .look import look, read_contents
from .places import FOLDER, SHARED, is_own

RECORD = FOLDER + "/first-record.json"
LEDGER = FOLDER + "/changes.json"
SCHEMA = 1
# Contents of configuration files are among it.
MODE = 0o600
# They are there only where the toolkit has been before; the folder of the lock's own record is in /run.
TRACES = ("/etc/gpuwright", "/usr/local/lib/gpuwright", "/opt/gpuwright")
# The comment of an account that system_training makes.
ACCOUNT = "gpuwright trainer"
# Numbers of accounts below this one are of the system and of services (login.defs).
FIRST_PERSON = 1000
KINDS = ("files", "packages", "users", "groups")
# Lines by name, as `look` has them; a wide look has more, which `stamp` judges.
LINES = {str: NAME}
LOOK: Dict[str, Any] = {**{kind: LINES for kind in KINDS}, "stamp?": (str, None), "names?": ([NAME], None), OTHERS: ANY}
RECORD_FORM: Dict[str, Any] = {
    **LOOK,
    "schema": int,
    "time": str,
    "family": str,
    "late": [NAME],
    "contents": {str: str},
    "own": {str: LINES},
}
LEDGER_FORM = {
    "schema": int,
    "run": NAME,
    "before": (LOOK, None),
    "after": (LOOK, None),
    # The line that a run of ours left, and whether it made the thing.
    "ours": {kind: {str: [NAME, bool]} for kind in KINDS},
    "foreign": LINES,
    "taken?": {str: {"line": NAME, "content": str, "entries": [NAME], "left?": NAME, OTHERS: ANY}},
    OTHERS: ANY,
}

Look = Callable[..., Dict[str, Any]]
ByHand = Callable[..., Collection[str]]


class Damaged(ValueError):
    """What cannot be read, and what to do."""


class Newer(Damaged):
    """A later version of the toolkit has written it."""


def load(path: str, root: str = "/") -> Optional[Dict[str, Any]]:
    """The record or the ledger; None if there is none. OSError; `Damaged` if it cannot be understood."""
    try:
        with open(below(root, path), encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise Damaged(damage(path, error))
    schema = found.get("schema") if isinstance(found, dict) else None
    if type(schema) is int and schema > SCHEMA:
        raise Newer(
            f"{path} is of schema {schema}: a later version of this toolkit has changed this node, and this one, which "
            f"knows schema {SCHEMA}, does not know what it did. Nothing was changed. Run this from a controller with "
            "that version, or a later one"
        )
    if type(schema) is not int or schema != SCHEMA:
        raise Damaged(damage(path, f"expected a record of schema {SCHEMA}"))
    try:
        check(found, RECORD_FORM if path == RECORD else LEDGER_FORM, path)
    except WrongForm as error:
        raise Damaged(damage(path, f"{error.place}: {error.why}"))
    if path == LEDGER and found["run"] and found["before"] is None:
        raise Damaged(damage(path, "before: a run has begun, and nothing says from where"))
    return found


def damage(path: str, why: object) -> str:
    return (
        f"{path}, from which an uninstallation puts this node back, is damaged: {why}. Nothing was changed. Put it "
        f"back from a backup, or, move the record away (sudo mv {RECORD} {RECORD}.damaged): the next run then "
        "records the node as one that was provisioned before"
    )


def save(path: str, record: Mapping[str, Any], root: str = "/") -> None:
    text = json.dumps(record, sort_keys=True, separators=(",", ":")) + "\n"
    write_whole(below(root, path), text.encode("utf-8", "surrogateescape"), MODE, (os.geteuid(), os.getegid()))


def make_record(root: str = "/", look: Look = look) -> Dict[str, Any]:
    """The node as it is now; one that was provisioned before, without what only the toolkit can have made. OSError."""
    family = read_family(root)
    late = [path for path in TRACES if os.path.lexists(below(root, path))] + _kept_before(root)
    state = look(family, root)
    record: Dict[str, Any] = {
        "schema": SCHEMA,
        "time": now_utc(),
        "family": family,
        "late": late,
        "contents": read_contents(root, state["files"]),
        **{kind: dict(state[kind]) for kind in KINDS},
        "stamp": state["stamp"],
        "own": {},
    }
    if late:
        ours = {path: line for path, line in state["files"].items() if is_own(path)}
        users = {name: line for name, line in state["users"].items() if ACCOUNT in line.split(":")}
        record["own"] = {"files": ours, "users": users}
        for kind, names in record["own"].items():
            record[kind] = {name: line for name, line in record[kind].items() if name not in names}
    return record


def new_ledger(record: Mapping[str, Any]) -> Dict[str, Any]:
    ours = {kind: {} for kind in KINDS}  # type: Dict[str, Dict[str, Any]]
    for kind, lines in record["own"].items():
        ours[kind] = {name: [line, True] for name, line in lines.items()}
    return {"schema": SCHEMA, "run": "", "before": None, "after": None, "ours": ours, "foreign": {}}


def begin(
    run: str,
    root: str = "/",
    look: Look = look,
    by_hand: ByHand = installed_by_hand,
    names: Optional[Iterable[str]] = None,
) -> bool:
    """With the lock of `run`: make the record if there is none (True), and remember from where this run starts.

    names  what variables name, where this run may have nothing to do and has to see that: a wide look
    OSError, `Damaged`: then nothing has changed, and the run must not go on.
    """
    new = not os.path.lexists(below(root, RECORD))
    ledger = None if new else load(LEDGER, root)
    if new:
        record = make_record(root, look)
        ledger = new_ledger(record)
        now = {**{kind: {**record[kind], **record["own"].get(kind, {})} for kind in KINDS}, "stamp": record["stamp"]}
    elif ledger is None:
        raise Damaged(damage(LEDGER, "it is missing"))
    elif ledger["run"] == run:
        return False
    else:
        now = look(read_family(root), root, ledger["after"] or ledger["before"], **_wide(names))
        if ledger["run"]:
            names = by_hand(read_family(root), root)
            attribute(ledger, ledger["before"], only_own(ledger["before"], now, names, ledger.get("taken", ())))
        elif ledger["after"]:
            notice(ledger, now)
    ledger.update(run=run, before=now, after=None)
    _make_folder(root)
    save(LEDGER, ledger, root)
    if new:
        # Last, since a ledger without it counts for nothing.
        save(RECORD, record, root)
    return new


def end(run: str, root: str = "/", look: Look = look) -> None:
    """Before the lock is given back: what changed since `begin` is this run's. OSError, `Damaged`."""
    if not os.path.lexists(below(root, RECORD)):
        # It has been put back to its first record.
        return
    ledger = load(LEDGER, root)
    if ledger is None or ledger["run"] != run:
        return
    now = look(read_family(root), root, ledger["before"], **_wide(ledger["before"].get("names")))
    attribute(ledger, ledger["before"], now)
    ledger.update(run="", before=None, after=now)
    save(LEDGER, ledger, root)


def _wide(names: Optional[Iterable[str]]) -> Dict[str, Any]:
    return {} if names is None else {"names": list(names)}


def attribute(ledger: Dict[str, Any], before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Take the differences of two looks for the toolkit's: `ours` gets [line, whether we made it]."""
    for kind in KINDS:
        ours, old, new = ledger["ours"][kind], before[kind], now[kind]
        for name in sorted(set(old) | set(new)):
            if old.get(name) == new.get(name):
                continue
            made = ours[name][1] if name in ours else name not in old
            if made and name not in new:
                ours.pop(name, None)
            else:
                ours[name] = [new.get(name, ""), made]
            if made:
                # Whatever somebody wrote into it, the run has replaced.
                ledger["foreign"].pop(f"{kind} {name}", None)


def notice(ledger: Dict[str, Any], now: Mapping[str, Any]) -> None:
    """What changed between two runs is not the toolkit's: `foreign` gets it, and it is not overwritten."""
    for kind in KINDS:
        old, new = ledger["after"][kind], now[kind]
        for name in sorted(set(old) | set(new)):
            if old.get(name) == new.get(name):
                continue
            if kind == "packages" and name not in new:
                ledger["ours"][kind].pop(name, None)
            elif kind != "packages" and new.get(name, "") == ledger["ours"][kind].get(name, [None])[0]:
                # Somebody has put it back to what a run of ours had left.
                ledger["foreign"].pop(f"{kind} {name}", None)
            elif kind != "packages":
                ledger["foreign"][f"{kind} {name}"] = new.get(name, "")


def only_own(
    before: Mapping[str, Any], now: Mapping[str, Any], by_hand: Collection[str], taken: Collection[str] = ()
) -> Dict[str, Any]:
    """`now`, in which all is as before that a killed run cannot have made: others may have worked here since.

    taken  files whose sources of packages it has taken over
    """
    judge = {
        "files": lambda name: is_own(name) or bool(SHARED.fullmatch(name)) or name in taken,
        "packages": lambda name: name not in by_hand,
        # What packages make, and the training user.
        "users": lambda name: _is_system(now["users"].get(name, "")),
        "groups": lambda name: _is_system(now["groups"].get(name, "")),
    }
    found: Dict[str, Any] = {}
    for kind, may_be in judge.items():
        found[kind] = dict(before[kind])
        for name in set(before[kind]) | set(now[kind]):
            if may_be(name):
                found[kind].pop(name, None)
                found[kind].update({name: now[kind][name]} if name in now[kind] else {})
    return found


def _is_system(line: str) -> bool:
    number = line.partition(":")[0]
    return number.isdecimal() and int(number) < FIRST_PERSON


def _kept_before(root: str) -> List[str]:
    """Records of the toolkit that are no part of a first record which was begun and not finished."""
    names = [name for name in names_in(root, FOLDER) if not name.startswith(".")]
    return [f"{FOLDER}/{name}" for name in names if f"{FOLDER}/{name}" != LEDGER]


def _make_folder(root: str) -> None:
    folder = below(root, FOLDER)
    make_folders(folder)
