# SPDX-License-Identifier: Apache-2.0
"""How an Xid or SXid is judged: by the table's row, by the words of its line, by an administrator's override."""

import re
from typing import Any, Dict, NamedTuple, Sequence, Tuple

from ...host.patterns import lazily
from ...verdict.check import RESET
from .sxid_table import NOT_FATAL as NOT_FATAL_SXID
from .sxid_table import SWITCH, SXID
from .table import (
    COMPANION,
    FAIL,
    GPU_LOST,
    HARMLESS,
    RECOVERY,
    RECOVERY_ACTION_CHANGED,
    RESET_GPU,
    WARN,
    WATCH,
    XID,
    Row,
)

# A code that is newer than the catalogue is judged by its words, as far as these are the driver's own.
UNKNOWN_XID = Row(WARN, "not in the catalogue of this version", "", WATCH, "")
UNKNOWN_FATAL = Row(
    FAIL, "not in the catalogue of this version, and its text says that it is fatal", RESET, RESET_GPU, ""
)
FATAL_TEXT = lazily(
    r"(?<!non)(?<!non-)(?<!non )\bfatal\b|\btime(?:d )?out\b.*\bGSP\b|\bGSP\b.*\btime(?:d )?out\b", re.IGNORECASE
)
# A program's name has at most 15 bytes, and may hold commas and any words.
PROGRAM = lazily(r"\bname=[\s\S]{1,15}, ")
# Xid 45 of newer drivers names the error after which a program's work was removed.
CAUSED_BY = lazily(r"\bcaused by previous Xid ([0-9]{1,4})\b")
UNKNOWN_SXID = Row(WARN, "error of an NVSwitch that is not in this version's list", "", SWITCH, "")
# "changed from 0x0 (None) to 0x2 (Node Reboot Required)"; newer drivers write (OS Reboot) and (PF FLR).
WANTED = lazily(r"\bchanged\b.*\bto (?:0x[0-9a-f]+ )?\(?([A-Za-z][A-Za-z0-9 ]*)\)?", re.IGNORECASE)
NOT_FATAL = lazily(r"\bnon-?fatal\b", re.IGNORECASE)
FATAL_WORD = lazily(r"\bfatal\b", re.IGNORECASE)
# The second line of an SXid carries the severity as a number; 1 is fatal.
SEVERITY_NUMBER = lazily(r"\bSeverity ([0-9]+)\b")
LOST_WORDS = lazily(r"fallen off the bus", re.IGNORECASE)


# Address to use for an event whose line names none.
UNNAMED = "unnamed"


class Judged(NamedTuple):
    """Judgement of one event: class, meaning, action with the card's address in it, remedy, reason of an override."""

    kind: str
    meaning: str
    action: str
    remedy: str
    reason: str = ""


def severity_word(text: str) -> str:
    """ "nonfatal", "fatal" or "" by the words of an Xid's or SXid's line; an SXid's second line has it as a number."""
    if NOT_FATAL.search(text):
        return "nonfatal"
    if FATAL_WORD.search(text):
        return "fatal"
    number = SEVERITY_NUMBER.search(text)
    return ("fatal" if int(number.group(1)) else "nonfatal") if number else ""


def wanted_action(text: str) -> str:
    """The recovery action that an Xid 154 asks for from now on, in the driver's words; "" if it names none."""
    match = WANTED.search(text)
    return match.group(1).strip() if match else ""


def previous(text: str) -> int:
    """The Xid that an Xid 45 names as its cause; 0 if it names none."""
    match = CAUSED_BY.search(PROGRAM.sub("", text, 1))
    return int(match.group(1)) if match else 0


def variant(kind: str, code: int, text: str) -> str:
    """What distinguishes events of one code and card: those that are judged differently are counted separately."""
    if kind == "sxid":
        return severity_word(text)
    if code == RECOVERY_ACTION_CHANGED:
        return _recovery_row(text)[0]
    row = XID.get(code)
    if row is None or row.kind == COMPANION:
        earlier = previous(text)
        return f"after {earlier}" if earlier else "fatal" if FATAL_TEXT.search(PROGRAM.sub("", text, 1)) else ""
    for number, other in enumerate(row.variants if row else ()):
        if re.search(other.words, text):
            return str(number)
    return "lost" if code != GPU_LOST and LOST_WORDS.search(text) else ""


def judge_xid(code: int, text: str, count: int = 1, overrides: Sequence[Dict[str, Any]] = ()) -> Judged:
    """What one Xid asks for; `text` is its line, `count` how often it occurred."""
    if code == GPU_LOST or LOST_WORDS.search(text):
        row = XID[GPU_LOST]
        return Judged(FAIL, row.meaning, row.action, row.remedy)
    if code == RECOVERY_ACTION_CHANGED:
        found = _recovery(text)
    else:
        row = XID.get(code) or (UNKNOWN_FATAL if FATAL_TEXT.search(PROGRAM.sub("", text, 1)) else UNKNOWN_XID)
        found = Judged(row.kind, row.meaning, row.action, row.remedy)
        for other in row.variants:
            if re.search(other.words, text):
                found = Judged(other.kind, other.meaning, row.action, other.remedy)
        if row.repeat and count >= row.repeat:
            found = found._replace(kind=FAIL, meaning=f"{row.meaning}, repeatedly")
    return _overridden(found, "xid", code, overrides)


def judge_sxid(code: int, text: str, overrides: Sequence[Dict[str, Any]] = ()) -> Judged:
    """What one SXid asks for: the line's own word decides; if it has none, the table does."""
    row = SXID.get(code, UNKNOWN_SXID)
    mild = HARMLESS if row.kind == HARMLESS else WARN
    kind = {"fatal": FAIL, "nonfatal": mild}.get(severity_word(text), row.kind)
    remedy = row.remedy or (RESET if kind == FAIL else "")
    action = row.action if kind == FAIL else NOT_FATAL_SXID
    return _overridden(Judged(kind, row.meaning, action, remedy), "sxid", code, overrides)


def _recovery_row(text: str) -> Tuple[str, str, str, str]:
    return recovery_row(wanted_action(text))


def recovery_row(wanted: str) -> Tuple[str, str, str, str]:
    """(pattern, class, remedy, what to do) for a recovery action in the driver's words, of the log or of nvidia-smi."""
    if not wanted:
        return RECOVERY[-1]
    return next(row for row in RECOVERY if re.search(row[0], wanted.lower()))


def _recovery(text: str) -> Judged:
    pattern, kind, remedy, action = _recovery_row(text)
    if kind == HARMLESS:
        return Judged(kind, "the driver no longer asks for a recovery", "", "")
    wanted = wanted_action(text) or "a recovery action that its text does not name"
    return Judged(kind, f"the driver asks for: {wanted}", action, remedy)


def _overridden(found: Judged, kind: str, code: int, overrides: Sequence[Dict[str, Any]]) -> Judged:
    for row in overrides:
        if (row["kind"], row["code"]) == (kind, code):
            remedy = row["remedy"] or found.remedy or RESET
            return Judged(
                row["class"],
                found.meaning,
                row["action"] or found.action or WATCH,
                remedy if row["class"] == FAIL else "",
                row["reason"],
            )
    return found


def reload_repairs(kind: str, code: int, text: str) -> bool:
    """Whether reloading the driver is as good as the reset that this event asks for.

    It is not if the card is gone, if a power cycle or a repair is asked for, or if the driver itself asks for a reboot.
    """
    found = judge_xid(code, text, 2) if kind == "xid" else judge_sxid(code, text)
    return found.kind != FAIL or found.remedy == RESET
