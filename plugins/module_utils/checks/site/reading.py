# SPDX-License-Identifier: Apache-2.0
"""A site's own checks: programs of root's in /etc/gpuwright/checks.d, each of which prints one line of JSON.

    {"status": "FAIL", "message": "/scratch is not mounted", "remedy": "drain", "action": "Run: mount /scratch"}

None may decide anything by not answering: a program that may not be run, ends with an error, is late, or prints
anything but such a line is a reading that says why, and its row in the report is UNKNOWN.
"""

import os
import re
import stat
import time
from typing import Any, Dict, Iterable, List, NamedTuple, Optional

from ...host.files import below
from ...host.in_child import examine_each
from ...host.program_path import is_roots_alone
from ...host.written.state_file import Damaged, parsed
from ...host.written.told import told
from ...verdict.check import FAIL, PASS, REMEDIES, SKIP, UNKNOWN, WARN

FOLDER = "/etc/gpuwright/checks.d"
FAMILY = "site"
# For one program and for all; the unit that runs them in the background ends after 180 s.
SECONDS = 10
ALL_SECONDS = 60
MOST_PROGRAMS = 32
LIMIT_BYTES = 16 * 1024
LONGEST_TEXT = 300
LONGEST_NAME = 60
SCALAR = (str, int, float, bool, None)
FORM = {
    "status": {PASS, WARN, FAIL, UNKNOWN, SKIP},
    "message": str,
    "action?": str,
    "remedy?": {*REMEDIES},
    "id?": str,
    "value?": SCALAR,
    "expected?": SCALAR,
}
# Why there is no answer, as words for programs.
LINK, NO_FILE, NOT_ROOTS, NO_PROGRAM, OURS = "link", "no-file", "not-roots", "not-executable", "id-of-ours"
TOO_MANY, NO_TIME, HUNG, NOT_STARTED, LATE = "too-many", "no-time-left", "hung", "not-started", "late"
TOO_LONG, CRASHED, LEFT, NOTHING, NO_TEXT = "too-long", "crashed", "left-behind", "no-answer", "no-text"
NO_FORM, OTHER_ID = "no-form", "other-id"


class Program(NamedTuple):
    """One entry of the folder: its path on the host, the id of its row, and its path for this process."""

    path: str
    id: str
    file: str


def read_site_checks(root: str, own_ids: Iterable[str]) -> Optional[List[Dict[str, Any]]]:
    """`[{"id": "site.scratch", "path": ..., "answer": {...}}]` in the order of the names; None without a folder.

    answer   what the program said: status, message and, if given, action, remedy, value, expected; or
             {"unreadable": why, "code": one of the words above}
    own_ids  those of the toolkit's checks, which no program may have
    """
    folder = below(root, FOLDER)
    try:
        state = os.lstat(folder)
    except FileNotFoundError:
        return None
    why = "" if stat.S_ISDIR(state.st_mode) else f"{FOLDER} is no folder"
    if not why and not is_roots_alone(folder):
        why = f"{FOLDER}, or a folder above it, belongs to another user than root, or others can write there"
    if why:
        return [{"id": f"{FAMILY}.folder", "path": FOLDER, "answer": _silent(NOT_ROOTS, why)}]
    only_root = {"unreadable": "programs of the site run as root", "only_root": True}
    try:
        programs = named(sorted(os.listdir(folder)), folder)
    except PermissionError:
        if os.geteuid() == 0:
            raise
        return [{"id": f"{FAMILY}.folder", "path": FOLDER, "answer": only_root}]
    if os.geteuid() != 0:
        return [{"id": one.id, "path": one.path, "answer": only_root} for one in programs]
    refused = {one.id: _refused(one, own_ids) for one in programs}
    run = [one for one in programs if not refused[one.id]]
    begin = time.monotonic()

    def examine(path: str) -> Dict[str, Any]:
        if time.monotonic() - begin > ALL_SECONDS:
            return _silent(NO_TIME, f"it was not started, since the others took more than {ALL_SECONDS} s")
        return _answer_of(path)

    found = examine_each(examine, [one.file for one in run[:MOST_PROGRAMS]], SECONDS * 2)
    hung = _silent(HUNG, f"it cannot be ended {SECONDS} s after it should have been")
    answers = {run[at].id: answer or hung for at, answer in enumerate(found)}
    many = _silent(TOO_MANY, f"it was not started, since {FOLDER} has more than {MOST_PROGRAMS} programs")
    return [
        {"id": one.id, "path": one.path, "answer": refused[one.id] or _of_own_id(answers.get(one.id, many), one.id)}
        for one in programs
    ]


def named(names: Iterable[str], folder: str) -> List[Program]:
    """The entries of the folder with an id for each, without hidden ones such as an editor's."""
    found: Dict[str, Program] = {}
    for name in names:
        if name.startswith("."):
            continue
        word = re.sub(r"\.+", ".", re.sub(r"[^a-z0-9_.]+", "_", name.lower())).strip(".")[:LONGEST_NAME].rstrip(".")
        id_ = own = f"{FAMILY}.{word or '_'}"
        number = 1
        while id_ in found:
            number += 1
            id_ = f"{own}_{number}"
        # A name that is no text must be told, too.
        shown = name.encode("utf-8", "replace").decode("utf-8", "replace")
        found[id_] = Program(f"{FOLDER}/{shown}", id_, os.path.join(folder, name))
    return list(found.values())


def _silent(code: str, why: str) -> Dict[str, Any]:
    return {"unreadable": why, "code": code}


def _refused(program: Program, own_ids: Iterable[str]) -> Optional[Dict[str, Any]]:
    """Why the entry is not run, None if it may be."""
    try:
        state = os.lstat(program.file)
    except OSError as error:
        # Somebody has taken it away since the folder was listed.
        return _silent(NO_FILE, f"{program.path} cannot be looked at: {error.strerror}")
    if stat.S_ISLNK(state.st_mode):
        return _silent(LINK, f"{program.path} is a link; expected the program itself")
    if not stat.S_ISREG(state.st_mode):
        return _silent(NO_FILE, f"{program.path} is no regular file")
    if state.st_uid != 0 or state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return _silent(NOT_ROOTS, f"{program.path} belongs to another user than root, or others can write to it")
    if not state.st_mode & stat.S_IXUSR:
        return _silent(NO_PROGRAM, f"{program.path} is not executable")
    if program.id.partition(".")[2] in own_ids:
        return _silent(OURS, f"{program.path} has the name of a check of gpuwright")
    return None


def _answer_of(path: str) -> Dict[str, Any]:
    """In a child of its own: what one program says."""
    # Only here, since it takes as long to load as the answer of a small program.
    from .leaving_none import run_leaving_none

    done = run_leaving_none([path], SECONDS, LIMIT_BYTES)
    if done["timed_out"]:
        return _silent(LATE, f"it did not end within {SECONDS} s")
    if done["truncated"]:
        return _silent(TOO_LONG, f"it printed more than {LIMIT_BYTES} bytes")
    if done["rc"] is None:
        return _silent(NOT_STARTED, told(done["problem"], LONGEST_TEXT))
    if done["rc"] != 0:
        how = f"signal {-done['rc']}" if done["rc"] < 0 else f"exit status {done['rc']}"
        last = (done["stderr"].strip().splitlines() or [""])[-1]
        return _silent(CRASHED, told(f"it ended with {how}{': ' + last if last else ''}", LONGEST_TEXT))
    if done["left"]:
        return _silent(
            LEFT, told(f"it left processes behind, which were ended: {', '.join(done['left'])}", LONGEST_TEXT)
        )
    return answer_in(done["stdout"])


def answer_in(text: str) -> Dict[str, Any]:
    """The answer that a program printed, with its texts made fit to be shown."""
    if not text.strip():
        return _silent(NOTHING, "it printed nothing")
    if "\ufffd" in text or "\0" in text:
        return _silent(NO_TEXT, "it printed bytes that are no text in UTF-8")
    if len(text.strip().splitlines()) > 1:
        return _silent(NO_FORM, "it printed more than one line")
    try:
        answer = parsed(text.encode("utf-8"), FORM, "its line")
    except Damaged as error:
        return _silent(NO_FORM, told(error, LONGEST_TEXT))
    answer = {name: told(one, LONGEST_TEXT) if isinstance(one, str) else one for name, one in answer.items()}
    if not answer["message"].strip():
        return _silent(NO_FORM, "its line has an empty message")
    return answer


def _of_own_id(answer: Dict[str, Any], own: str) -> Dict[str, Any]:
    """The answer, unless it calls itself another check than its file's."""
    called = answer.get("id", own)
    if called not in (own, own.partition(".")[2]):
        return _silent(OTHER_ID, f"it calls itself {called}; expected {own}, or no id")
    return {name: one for name, one in answer.items() if name != "id"}
