# SPDX-License-Identifier: Apache-2.0
"""Checks of the kernel's log of this boot: what it said about the GPUs, the switches between them, and the host."""

from . import xid_catalog
from .verdict import (
    CONTACT_SUPPORT,
    FAIL,
    POWER_CYCLE,
    QUICK,
    REBOOT,
    RESET,
    WARN,
    Check,
    Outcome,
    failed,
    passed,
    skipped,
    unknown,
    warned,
)

NO_LOG = "this node is a container and its host shows it no kernel log; look there: journalctl -k -b"
FATAL = ", Fatal,"
XID_TABLE = "https://docs.nvidia.com/deploy/xid-errors"
LOOK = "Read it: journalctl -k -b | grep -iE 'xid|nvrm'"


def events_of(readings, name):
    """The plain events of one kind, each value looked at."""
    return [
        {
            "code": event.number("code"),
            "pci_id": event.text("pci_id"),
            "count": event.number("count"),
            "text": event.text("text"),
        }
        for event in readings.each("kernel_log", name)
    ]


def xid(readings, expected):
    """No Xid of this boot asks for an action, by NVIDIA's catalogue; programs' errors and unknown codes are warned of.

    The log must be readable and reach back to the boot. 27 codes need a reset, a reboot or hands; 154 carries its own
    action. Source: NVIDIA's Xid catalogue.
    """
    if readings.absent("kernel_log"):
        return skipped(NO_LOG)
    by_class = {}
    for event in events_of(readings, "xids"):
        kind, meaning, action = xid_catalog.classify(event["code"], event["text"])
        by_class.setdefault(kind, []).append((event, meaning, action.replace("{gpu}", event["pci_id"])))
    bad = by_class.get(xid_catalog.FAIL_CLASS, [])
    if bad:
        return failed(_codes(bad), "none", _sentence(bad), bad[0][2])
    odd = by_class.get(xid_catalog.UNKNOWN_CLASS, []) + by_class.get(xid_catalog.WARN_CLASS, [])
    notes = by_class.get(xid_catalog.PASS_CLASS, [])
    return _rest(readings, odd, "no Xid that needs an action" if notes else "no Xid since the boot")


def sxid(readings, expected):
    """No fatal SXid (error of an NVSwitch) in this boot; one that is not fatal, or does not say, is warned of."""
    if readings.absent("kernel_log"):
        return skipped(NO_LOG)
    events = [(event, "error of an NVSwitch", "") for event in events_of(readings, "sxids")]
    bad = [event for event in events if FATAL in event[0]["text"]]
    if bad:
        return failed(_codes(bad), "none", _sentence(bad))
    return _rest(readings, events, "no SXid since the boot")


def _rest(readings, odd, words):
    """What remains when nothing failed: a log that is cut off, events to know of, a log that begins late."""
    if not readings.flag("kernel_log", "whole"):
        return unknown("the kernel's log is longer than what is read of it", expected="none", action=LOOK)
    if odd:
        return warned(_codes(odd), "none", _sentence(odd))
    return _complete(readings, words)


def _complete(readings, words):
    if not readings.number("kernel_log", "lines"):
        return unknown("the kernel's log is empty", expected="none", action=LOOK)
    if not readings.flag("kernel_log", "from_boot"):
        action = "Keep the log: Storage=persistent in /etc/systemd/journald.conf; the next boot is then seen whole."
        return warned("late", "none", "{}, but the log does not reach back to the boot".format(words), action)
    return passed("none", "none", words)


def _codes(events):
    return ", ".join(sorted({str(event["code"]) for event, _meaning, _action in events}))


def _sentence(events):
    event, meaning, _action = events[0]
    more = "; {} more".format(len(events) - 1) if len(events) > 1 else ""
    return "{} on {}: {} ({} times; {}){}".format(
        event["code"], event["pci_id"], meaning, event["count"], event["text"], more
    )


def finding(doc, bad_kind, odd_kind, quiet):
    """A check function over `kernel_log.findings`: one of `bad_kind` fails, one of `odd_kind` is a warning."""

    def look(readings, expected):
        if readings.absent("kernel_log"):
            return skipped(NO_LOG)
        seen = {}
        for record in readings.each("kernel_log", "findings"):
            seen[record.text("kind")] = (record.number("count"), record.text("text"))
        for kind, status in ((bad_kind, "FAIL"), (odd_kind, "WARN")):
            if kind in seen:
                if status == "WARN" and not readings.flag("kernel_log", "whole"):
                    break
                return Outcome(status, seen[kind][0], 0, "{} times: {}".format(*seen[kind]))
        if not readings.flag("kernel_log", "whole"):
            return unknown("the kernel's log is longer than what is read of it", expected=0, action=LOOK)
        return _complete(readings, quiet)

    look.__doc__ = doc
    return look


CHECKS = (
    Check(
        id="kernel.xid",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=RESET,
        question="Did a GPU report an error since the boot?",
        judge=xid,
        action=LOOK + " ; what a code means: " + XID_TABLE,
    ),
    Check(
        id="kernel.sxid",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=REBOOT,
        question="Did a switch between GPUs report an error since the boot?",
        judge=sxid,
        action=(
            "Restart nvidia-fabricmanager when no GPU is in use; a fatal one needs a reboot: journalctl -k -b | grep "
            "SXid"
        ),
    ),
    Check(
        id="kernel.lockups",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=REBOOT,
        question="Did a processor or a task hang since the boot?",
        judge=finding(
            "No processor locked up (FAIL), no task hung for minutes (WARN). Source: the kernel's own watchdogs.",
            "lockup",
            "blocked",
            "nothing hung since the boot",
        ),
        needs_gpu=False,
        action=(
            "Read it: journalctl -k -b | grep -iE 'lockup|blocked for more' ; a hung NVIDIA task goes only with a "
            "reboot."
        ),
    ),
    Check(
        id="kernel.out_of_memory",
        layer="system",
        level=QUICK,
        severity=WARN,
        question="Did the kernel kill programs for want of memory?",
        judge=finding(
            "The kernel killed no program for want of memory since the boot (WARN): a training may be the next one.",
            "",
            "out_of_memory",
            "no program was killed for want of memory",
        ),
        needs_gpu=False,
        action=(
            "See who: journalctl -k -b | grep -i 'out of memory' ; lower the batch size or the number of loader "
            "workers."
        ),
    ),
    Check(
        id="kernel.hardware_errors",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=CONTACT_SUPPORT,
        question="Did processor or memory report an error?",
        judge=finding(
            "No uncorrected machine check or memory error (FAIL), and no corrected one (WARN), since the boot.",
            "hardware",
            "hardware_corrected",
            "no hardware error since the boot",
        ),
        needs_gpu=False,
        action="Read it: journalctl -k -b | grep -i 'hardware error' ; then the server's event log: ipmitool sel list",
    ),
    Check(
        id="kernel.pcie_errors",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=POWER_CYCLE,
        question="Did the PCIe bus report an error?",
        judge=finding(
            "No uncorrected PCIe error (FAIL), and no corrected one (WARN), since the boot (AER in the kernel's log).",
            "pcie",
            "pcie_corrected",
            "no PCIe error since the boot",
        ),
        needs_gpu=False,
        action="Read it: journalctl -k -b | grep -i aer ; reseat the card or its riser, or try another slot.",
    ),
)
