# SPDX-License-Identifier: Apache-2.0
"""Lines of a kernel's log as people save them, from whatever program printed them: dmesg, journalctl, syslog files.

Read are journalctl's short-monotonic, short, short-precise, short-iso, short-full, short-unix and json, dmesg with and
without -T, -H, -d, -x, -r and --time-format iso, /dev/kmsg, files of a syslog daemon, with or without the kernel's own
clock, host and facility, and lines picked with grep. What grep and pdsh write first is left out.
"""

import re
from typing import Any, NamedTuple, Optional

from .dates import LOCAL, NO_YEAR, UTC, Dates
from .records import JOURNALD, KERNEL, OTHER, Line, journal_record, kmsg_record
from .wrappers import Wrapped, unwrapped

# grep -n, grep of several files, both; pdsh and the like write a host.
GATHERED = re.compile(r"([a-z0-9][a-z0-9.-]*): (?=\[)|(?:[^\s:\[\]]+:)?(?:[0-9]+[:-])?(?=\S)")
FACILITY = r"kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local[0-7]|res[0-5]"
LEVEL = r"emerg|alert|crit|err|error|warn|warning|notice|info|debug"
# What dmesg -r and -x, and RFC 5424, write before a line: priority, or facility and level.
HEAD = re.compile(r"<([0-9]{1,3})>(?:1 (?=[0-9]{4}-))?|(" + FACILITY + r") *:(?:" + LEVEL + r") *: ?")
# The usual line of journalctl -o short-monotonic, in one pattern.
USUAL = re.compile(r"\[ *([0-9]{1,12})\.([0-9]{1,9})\] (\S+) kernel: (?!\[)(.*)", re.S)
# dmesg -d also writes the time since the previous line.
SINCE = r"(?: <[ 0-9.+]*>)?"
MONOTONIC = re.compile(r"\[ *([0-9]{1,12})\.([0-9]{1,9})" + SINCE + r"\](?: ?\[ *[TC][0-9]+\])? ?(.*)", re.S)
# dmesg -T, in any language, and dmesg -H, which writes the date with the first line of a minute.
CALENDAR = re.compile(
    r"\[\w{1,4}\.? (\w{2,6})\.? +([0-9]{1,2}) ([0-9]{2}:[0-9]{2}:[0-9]{2}) ([0-9]{4})" + SINCE + r"\] ?(.*)", re.S
)
HUMAN = re.compile(r"\[(?: *\+[0-9]+\.[0-9]+|\w{2,6}\.? ?[0-9]{1,2} [0-9]{2}:[0-9]{2})\] ?(.*)", re.S)
ISO = re.compile(
    r"(?:\w{1,4}\.? )?([0-9]{4})-([0-9]{2})-([0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,][0-9]+)?"
    r"(Z| ?[+-][0-9]{2}:?[0-9]{2})?(?: [A-Z]{3,5}(?= \S+ \S+?:))? (.*)",
    re.S,
)
# dmesg --time-format iso; no other program writes a comma.
DMESG_ISO = re.compile(r"[0-9-]{10}T[0-9:]{8},[0-9]{6}[+-]")
SYSLOG = re.compile(
    r"(?:([0-9]{4}) )?(\w{2,6})\.? +([0-9]{1,2}) ([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]+)?"
    r"(?: [A-Z]{3,5}(?= \S+ \S+?:))? (.*)",
    re.S,
)
UNIX = re.compile(r"([0-9]{9,11})\.[0-9]+ (.*)", re.S)
# Host and facility may be missing; kernel lines have no number behind the name, so one with a number is a program's.
SPEAKER = re.compile(
    r"(?:(?!kernel:|(?:" + FACILITY + r")\.(?:" + LEVEL + r") )(\S+) )?(?:(" + FACILITY + r")\.(?:" + LEVEL + r") )?"
    r"([A-Za-z0-9_./@-]+)(\[[0-9]+\])?(?:: ?| - - - ?)(.*)",
    re.S,
)
# A line with a date and without a sender: only the message distinguishes it from a program's log.
KERNELS_OWN = re.compile(
    r"NVRM: |nvidia|pcieport |mce: |EDAC |Linux version |NMI |watchdog: |Out of memory|AER: |INFO: task "
)
DRIVER = "NVRM"
# Lines picked from a log with grep and pasted without their times.
PICKED = re.compile(
    r"(?:kernel: )?((?:"
    r"NVRM: (?:Xid \(PCI|GPU[ 0-9]|The NVIDIA |loading NVIDIA|Rm[A-Z]|_?[a-z]+[A-Z]|API mismatch: |No NVIDIA "
    r"|A GPU crash dump |None of the NVIDIA |Can't find an IRQ|FATAL: |This PCI |failed to initialize "
    r"|NV(?:Link|Switch|IDIA) )"
    r"|nvidia-nvswitch[0-9]+: |(?:pcieport|nvidia|mlx5_core) [0-9a-f]{4}:|nvme nvme[0-9]+: |mce: \[Hardware Error\]"
    r"|EDAC \w+: |INFO: task |watchdog: BUG: |Out of memory: Kill|Memory cgroup out of memory: Kill"
    r").*)|kernel: (?=\S)(.*)",
    re.S,
)
BOOT_MARK = re.compile(r"-- (?:Reboot|Boot ([0-9a-f]{32})) --")
JOURNAL_BEGINS = re.compile(r"-- (?:Logs begin|Journal begins|No entries)\b")


class Mark(NamedTuple):
    """journalctl's own lines: `boot` that the next boot begins; else another of its outputs begins."""

    boot: bool


class Reader(object):
    """Reads lines one by one; what one line says of the year counts for the next."""

    def __init__(self) -> None:
        self.dates = Dates()

    def read(self, line: str) -> Optional[Line]:
        """The message of a line that begins where this text begins; None for a line that is in no form of a log."""
        match = USUAL.match(line)
        if match:
            return Line(match.group(4), KERNEL, _clock(match.group(1), match.group(2)), host=match.group(3))
        wrapped = unwrapped(line)
        if wrapped is not None:
            found = self._inside(wrapped)
            if found is not None:
                return found
        first = line[:1]
        if first == "{":
            return journal_record(line)
        head = HEAD.match(line) if first == "<" or first.isalpha() else None
        facility = _facility(head)
        rest = line[head.end() :] if head else line
        found = self._with_time(rest, facility)
        if found is None and head is None:
            gathered = GATHERED.match(rest)
            if gathered and gathered.end():
                found = self._with_time(rest[gathered.end() :], facility)
                if found is not None and gathered.group(1) and not found.host:
                    found = found._replace(host=gathered.group(1))
        return found

    def _inside(self, wrapped: Wrapped) -> Optional[Line]:
        """What a collector has written around: a line of a log, or a message of the kernel."""
        date = None
        if wrapped.date:
            match = ISO.match(wrapped.date + " ")
            if match is not None:
                year, month, day, clock, zone, _rest = match.groups()
                date = self.dates.read(year, month, day, clock, zone)
        line = None if wrapped.is_kernel else self.read(wrapped.text) or picked(wrapped.text)
        if wrapped.is_kernel:
            clock = _clock(*wrapped.clock.split(".")) if wrapped.clock else None
            line = Line(wrapped.text, KERNEL, clock)
        if line is None:
            return None
        if date is not None and line.date is None:
            line = line._replace(date=date, scale=UTC)
        return line._replace(host=wrapped.host) if wrapped.host and not line.host else line

    def _with_time(self, line: str, facility: str) -> Optional[Line]:
        match = MONOTONIC.match(line)
        if match:
            clock = _clock(match.group(1), match.group(2))
            return _spoken(match.group(3), facility, Line("", KERNEL, clock), bare=True)
        if line[:1].isdecimal() and ";" in line:
            found = kmsg_record(line.encode("utf-8", "surrogateescape"))
            if found is not None:
                return found
        match = CALENDAR.match(line)
        if match:
            month, day, clock_word, year, rest = match.groups()
            date = self.dates.read(year, month, day, clock_word)
            return Line(rest, _of(facility), date=date, scale=LOCAL)
        match = HUMAN.match(line)
        if match:
            return Line(match.group(1), _of(facility))
        return self._with_date(line, facility)

    def _with_date(self, line: str, facility: str) -> Optional[Line]:
        match = ISO.match(line)
        if match:
            year, month, day, clock_word, zone, rest = match.groups()
            date = self.dates.read(year, month, day, clock_word, zone)
            stamp = Line("", KERNEL, date=date, scale=UTC if zone else LOCAL)
            return _spoken(rest, facility, stamp, bare=bool(DMESG_ISO.match(line)))
        match = SYSLOG.match(line)
        if match:
            year, month, day, clock_word, rest = match.groups()
            if year:
                stamp = Line("", KERNEL, date=self.dates.read(year, month, day, clock_word), scale=LOCAL)
            else:
                date = self.dates.read_without_year(month, day, clock_word)
                stamp = Line("", KERNEL, date=date, scale=NO_YEAR)
            return _spoken(rest, facility, stamp, bare=False)
        match = UNIX.match(line)
        if match:
            stamp = Line("", KERNEL, date=self.dates.of_unix(match.group(1)), scale=UTC)
            return _spoken(match.group(2), facility, stamp, bare=False)
        return None


def picked(line: str) -> Optional[Line]:
    """A kernel's line without its time."""
    match = PICKED.match(line)
    return _inner(Line(match.group(1) or match.group(2), KERNEL)) if match else None


def mark(line: str) -> Optional[Mark]:
    """What journalctl writes between boots and before its output."""
    if not line.startswith("-- "):
        return None
    if BOOT_MARK.match(line):
        return Mark(True)
    return Mark(False) if JOURNAL_BEGINS.match(line) else None


def _clock(seconds: str, fraction: str) -> int:
    return int(seconds) * 1000000 + int((fraction + "000000")[:6])


def _facility(head: Any) -> str:
    """ "kern", the name of another facility, or "" if the line names none."""
    if head is None:
        return ""
    if head.group(2):
        return head.group(2)
    return "kern" if int(head.group(1)) < 8 else "other"


def _of(facility: str) -> str:
    return KERNEL if facility in ("", "kern") else OTHER


def _spoken(rest: str, facility: str, stamp: Line, bare: bool) -> Optional[Line]:
    """`bare`: the message may be without host and sender, as dmesg writes it.

    None for the driver's words behind something that is no sender: who wrote them is not known.
    """
    match = SPEAKER.match(rest)
    if match and match.group(3) != DRIVER:
        host, own, name, number, text = match.groups()
        if name == KERNEL and not number:
            return _inner(stamp._replace(text=text, speaker=_of(own or facility), host=host or ""))
        if name == JOURNALD:
            return stamp._replace(text=text, speaker=JOURNALD, host=host or "")
        if number and host:
            return stamp._replace(text=text, speaker=OTHER, host=host)
    if bare or facility == "kern" or (not facility and KERNELS_OWN.match(rest)):
        return stamp._replace(text=rest, speaker=_of(facility))
    if DRIVER + ": " in rest and (not match or match.group(3) == DRIVER):
        return None
    return stamp._replace(text=rest, speaker=OTHER, host=(match.group(1) or "") if match else "")


def _inner(line: Line) -> Line:
    """The kernel's own clock, if a syslog daemon kept it."""
    match = MONOTONIC.match(line.text) if line.text[:1] == "[" else None
    return line._replace(text=match.group(3), clock=_clock(match.group(1), match.group(2))) if match else line
