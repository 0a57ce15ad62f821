# SPDX-License-Identifier: Apache-2.0
"""Checks of the errors that GPUs and NVSwitches report in the kernel's log of this boot: Xid, SXid, a lost GPU."""

from typing import Any, Dict, List, Optional, Tuple

from ...gpu.xid.overrides import PATH, without_effect
from ...gpu.xid.policy import Judged, judge_sxid, judge_xid, previous
from ...gpu.xid.table import COMPANION, GPU_LOST, HARMLESS, WARN
from ...gpu.xid.table import FAIL as FAIL_CLASS
from ...verdict.by_hand import ERRORS_END, MACHINE, NODE, Hand
from ...verdict.check import FAIL, POWER_CYCLE, QUICK, RESET, Check, Judge, Outcome, failed, skipped, warned
from ...verdict.evidence import Evidence, Unreadable
from .event_names import Event, event_id, filled
from .evidence import ACKNOWLEDGED, LOOK, NO_LOG, closed_words, cut, events_of, places, quiet, worst

XID_TABLE = "https://docs.nvidia.com/deploy/xid-errors"
FABRIC = "Restart nvidia-fabricmanager when no GPU is in use: systemctl restart nvidia-fabricmanager"
MISSING = (
    "Read the log of the time before, also that of the previous boot: journalctl -k -b | grep -i xid ; journalctl -k -b"
    " -1 | grep -i xid ; do what the missing Xid asks for"
)
LOST_WORDS = "fallen off the bus"

Pair = Tuple[Event, Judged]
Rows = Optional[List[Dict[str, Any]]]


def xid(readings: Evidence, expected: Evidence) -> Outcome:
    """No Xid of this boot asks for an action, by NVIDIA's catalogue; programs' errors and unknown codes are warnings.

    The log must be readable and reach back to the boot. The words of the line decide where they say more than the code
    (144 to 150, 154, codes that are not in the catalogue); 109 fails when it repeats; 45 never fails, and warns if the
    Xid that it names as its cause is missing. What a reset, a reload of the driver or Xid 154 to
    None has closed is only counted. /etc/gpuwright/xid.yml overrides rows, not that of a lost GPU.
    """
    if readings.absent("kernel_log"):
        return skipped("no-log", NO_LOG)
    overrides = overrides_of(readings)
    pairs = [(event, judge_xid(event.code, event.text, event.times, overrides or ())) for event in xids_of(readings)]
    return _outcome(readings, "xid", _companions(readings, pairs), overrides, "no Xid since the boot")


def sxid(readings: Evidence, expected: Evidence) -> Outcome:
    """No fatal SXid (error of an NVSwitch) in this boot; one that is not fatal, or does not say, is a warning.

    The severity in the line itself decides. A reload of the driver closes it.
    """
    if readings.absent("kernel_log"):
        return skipped("no-log", NO_LOG)
    overrides = overrides_of(readings)
    pairs = [(event, judge_sxid(event.code, event.text, overrides or ())) for event in events_of(readings, "sxids")]
    return _outcome(readings, "sxid", pairs, overrides, "no SXid since the boot")


def gpu_lost(readings: Evidence, expected: Evidence) -> Outcome:
    """No GPU has fallen off the bus in this boot, reported by an Xid 79 or only by the driver's own message.

    Nothing closes it before the next boot: no reset, no reload of the driver, no override, no acknowledgement.
    """
    if readings.absent("kernel_log"):
        return skipped("no-log", NO_LOG)
    xids = [event for event in xids_of(readings) if _is_lost(event)]
    said = [event for event in events_of(readings, "findings") if event.kind == "gpu_lost"]
    lost = [(event, event_id("kernel.xid", event)) for event in xids]
    lost += [(event, event_id("kernel.gpu_lost", event)) for event in said]
    if not lost:
        return quiet(readings, "no GPU was lost since the boot")
    event, name = lost[0]
    cards = ", ".join(sorted({event.pci_id for event, _name in lost}))
    message = f"{cards} fell off the bus ({event.times} times; {event.text}; event {name})"
    return failed("lost", cards, "none", message, items=places([event for event, _name in lost]))


def xids_of(readings: Evidence) -> List[Event]:
    return events_of(readings, "xids")


def overrides_of(readings: Evidence) -> Rows:
    """The rows of the administrator's file; None if it was not looked for, as with a log without its node."""
    if "xid_policy" not in readings.names():
        return None
    return [row.value for row in readings.each("xid_policy")]


def _companions(readings: Evidence, pairs: List[Pair]) -> List[Pair]:
    """Xid 45 judged by what else its card reported: with another Xid, it says nothing; alone, what the node shows."""
    return [(event, _companion(readings, event, found, pairs)) for event, found in pairs]


def _companion(readings: Evidence, event: Event, found: Judged, pairs: List[Pair]) -> Judged:
    if found.kind != COMPANION:
        return found
    cause = previous(event.text)
    if cause and not any(other.code == cause for other, _judged in pairs):
        meaning = f"{found.meaning} after an Xid {cause}, and Xid {cause} itself is missing from the log"
        return found._replace(kind=WARN, meaning=meaning, action=MISSING)
    beside = any(
        other.pci_id == event.pci_id and judged.kind in (FAIL_CLASS, WARN) and not other.closed_by
        for other, judged in pairs
    )
    if beside or "switches" not in readings.names() or not readings.number("switches"):
        return found._replace(kind=HARMLESS)
    meaning = found.meaning + "; on a node with NVSwitch, nvidia-fabricmanager may also have caused it"
    return found._replace(kind=WARN, meaning=meaning, action=FABRIC)


def _outcome(readings: Evidence, kind: str, pairs: List[Pair], overrides: Rows, nothing: str) -> Outcome:
    standing = [(event, found) for event, found in pairs if not event.closed_by]
    ended = [event for event, found in pairs if event.closed_by and found.kind in (FAIL_CLASS, WARN)]
    rest = closed_words([(event_id("kernel." + kind, event), event.closed_by) for event in ended])
    bad = [pair for pair in standing if pair[1].kind == FAIL_CLASS]
    if bad:
        event, found = bad[worst([judged.remedy for _event, judged in bad])]
        message = _sentence(kind, (event, found), len(bad)) + _refused(kind, bad, overrides) + rest
        return failed(
            code_of(bad),
            _codes(bad),
            "none",
            message,
            filled(found.action, "kernel." + kind, event),
            found.remedy,
            items=places([event for event, _found in bad]),
        )
    if not readings.flag("kernel_log", "whole"):
        return cut()
    odd = [pair for pair in standing if pair[1].kind == WARN]
    if odd:
        return warned(
            code_of(odd),
            _codes(odd),
            "none",
            _sentence(kind, odd[0], len(odd)) + rest,
            filled(odd[0][1].action, "kernel." + kind, odd[0][0]),
            items=places([event for event, _found in odd]),
        )
    if overrides is None:
        raise Unreadable("readings.xid_policy was not read", "readings.xid_policy")
    remarks = [pair for pair in standing if pair[1].kind == HARMLESS]
    words = f"no event that needs an action ({_short(remarks[0])})" if remarks else nothing
    acknowledged = [event for event in ended if event.closed_by.startswith(ACKNOWLEDGED)]
    return quiet(readings, words + rest, acknowledged)


def code_of(pairs: List[Pair]) -> str:
    """ "lost" if each of these events says that a card has fallen off the bus, "asks" if one asks for anything else."""
    return "lost" if all(_is_lost(event) for event, _found in pairs) else "asks"


def _is_lost(event: Event) -> bool:
    return event.code == GPU_LOST or LOST_WORDS in event.text


def _codes(pairs: List[Pair]) -> str:
    return ", ".join(str(code) for code in sorted({event.code for event, _found in pairs}))


def _short(pair: Pair) -> str:
    event, found = pair
    return f"{event.code} on {event.pci_id}: {found.meaning}"


def _sentence(kind: str, pair: Pair, number: int) -> str:
    """About the first of `number` events."""
    event, found = pair
    more = f"; {number - 1} more" if number != 1 else ""
    why = f"; judged by {PATH}: {found.reason}" if found.reason else ""
    return "{} ({} times; {}; event {}){}{}".format(
        _short(pair), event.times, event.text, event_id("kernel." + kind, event), why, more
    )


def _refused(kind: str, bad: List[Pair], overrides: Rows) -> str:
    """An override's request that cannot be granted: a lost GPU stays a failure."""
    codes = {(kind, event.code) for event, _found in bad}
    rows = [row["code"] for row in overrides or () if (row["kind"], row["code"]) in codes if without_effect(row)]
    return "".join(f"; the row for {n} in {PATH} has no effect: a lost GPU stays a failure" for n in rows)


def _check(name: str, remedy: str, question: str, judge: Judge, action: str, firm_because: str = "") -> Check:
    return Check(
        id=name,
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=remedy,
        question=question,
        judge=judge,
        action=action,
        firm_because=firm_because,
        source="NVIDIA's Xid catalogue, docs.nvidia.com/deploy/xid-errors; overrides: " + PATH,
    )


CHECKS = (
    _check(
        "kernel.xid",
        RESET,
        "Did a GPU report an error since the boot?",
        xid,
        LOOK + " | grep -iE 'xid|nvrm' ; what a code means: " + XID_TABLE,
    ),
    _check(
        "kernel.sxid",
        RESET,
        "Did a switch between GPUs report an error since the boot?",
        sxid,
        LOOK + " | grep SXid ; reset all GPUs of the node together when none is in use, or reboot.",
    ),
    _check(
        "kernel.gpu_lost",
        POWER_CYCLE,
        "Did a GPU fall off the bus since the boot?",
        gpu_lost,
        "Power the node off and on (a warm reboot may not bring the card back). If it comes back: reseat the card, run"
        " nvidia-bug-report.sh and have it examined.",
        firm_because="a card that has fallen off the bus is lost, and nothing closes that before the next boot",
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "kernel.xid": Hand(NODE, ERRORS_END),
    "kernel.sxid": Hand(NODE, ERRORS_END),
    "kernel.gpu_lost": Hand(MACHINE, "nvidia-smi -L lists the card after the power cycle, and " + ERRORS_END),
}
