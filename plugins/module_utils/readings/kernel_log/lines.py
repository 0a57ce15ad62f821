# SPDX-License-Identifier: Apache-2.0
"""Lines of a kernel's log, from whatever program printed them, as (seconds since boot, message, who wrote it).

Supported are journalctl's short-monotonic, short, short-precise, short-iso, short-full and short-unix, dmesg with and
without -T, -x, -r and --time-format iso, and files of a syslog daemon with or without the kernel's own clock in them.
For a log without the kernel's clock, time counts from its first line, the best that can be known.
"""

import re
from typing import Iterator, NamedTuple, Optional

MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MONTHS = {name: number for number, name in enumerate(MONTH_NAMES, 1)}
DAYS_BEFORE = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
DAY = 24 * 3600
HALF_A_YEAR = 182 * DAY
CLOCK_WORD = r"[0-9]{2}:[0-9]{2}:[0-9]{2}"
# What dmesg -x and dmesg -r write before a line: facility and level.
LEVEL = r"(?:<[0-9]{1,3}>|[a-z0-9]+ *:[a-z]+ *: )?"
# Two clocks look alike: journald's is followed by a host and a program, the kernel's own by the message.
MONOTONIC = re.compile(LEVEL + r"\[ *([0-9]{1,12})\.[0-9]+\](?:\[ *[TC][0-9]+\])? ?(.*)", re.S)
CTIME = re.compile(
    LEVEL + r"\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([A-Z][a-z]{2}) +([0-9]{1,2}) (" + CLOCK_WORD + r") ([0-9]{4})\] ?(.*)",
    re.S,
)
SYSLOG = re.compile(r"([A-Z][a-z]{2}) +([0-9]{1,2}) (" + CLOCK_WORD + r")(?:\.[0-9]+)? (.*)", re.S)
ISO = re.compile(
    LEVEL + r"(?:[A-Z][a-z]{2} )?([0-9]{4})-([0-9]{2})-([0-9]{2})[T ](" + CLOCK_WORD + r")(?:[.,][0-9]+)?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2}| [A-Z]{3,5}(?= \S+ \S+?:))? (.*)",
    re.S,
)
UNIX = re.compile(r"([0-9]{9,11})\.[0-9]+ (.*)", re.S)
# "name kernel: text" and "name program[pid]: text", as journald and syslog daemons write the host and the sender.
SPEAKER = re.compile(r"(\S+) ([A-Za-z0-9_./@-]+)(?:\[[0-9]+\])?: ?(.*)", re.S)
# The format that this project asks journalctl for, in one pattern; a log may have a million lines.
USUAL = re.compile(r"\[ *([0-9]{1,12})\.[0-9]+\] \S+ kernel: (?!\[)(.*)", re.S)
# printk writes 1 KiB at most; anything longer is not a kernel message.
LONGEST_MESSAGE = 2048
# No host has such a name; the kernel's own lines begin like this.
KERNEL = "kernel"
JOURNALD = "systemd-journald"


class Line(NamedTuple):
    """One message: seconds since the boot (or the log's first line), its text, "kernel" or "systemd-journald"."""

    second: int
    text: str
    speaker: str


def read_lines(text: str) -> Iterator[Line]:
    """The messages of the kernel and of journald in `text`; what other programs wrote is skipped.

    A message with line breaks is one message: journalctl and dmesg indent its further lines.
    """
    clock = Clock()
    pending = None
    for raw in text.splitlines():
        line = raw.rstrip()
        found = _read(line.lstrip(), clock)
        if found is None:
            # An indented line belongs to the message before it, even if that message is not the kernel's.
            if pending is not None and raw[:1] in (" ", "\t") and line and len(pending.text) < LONGEST_MESSAGE:
                pending = pending._replace(text=f"{pending.text}\n{line.strip()}")
            continue
        if pending is not None:
            yield pending
        pending = found if found.speaker in (KERNEL, JOURNALD) else None
    if pending is not None:
        yield pending


class Clock(object):
    """Turns dates into seconds since the log's first date."""

    def __init__(self) -> None:
        self.first: Optional[int] = None
        self.last = 0
        self.year = 2000  # for logs that do not name the year; a leap year, so that February 29 exists

    def seconds(self, year: Optional[int], month: int, day: int, clock: str) -> int:
        """Seconds since the first date; a date without a year that jumps back by months is in the next year."""
        absolute = _absolute(year or self.year, month, day, clock)
        if year is None and self.first is not None and self.last - absolute > HALF_A_YEAR:
            self.year += 1
            absolute = _absolute(self.year, month, day, clock)
        return self.since_first(absolute)

    def since_first(self, absolute: int) -> int:
        if self.first is None:
            self.first = absolute
        self.last = absolute
        return max(0, absolute - self.first)


def _absolute(year: int, month: int, day: int, clock: str) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    past = year - 1
    days = past * 365 + past // 4 - past // 100 + past // 400
    days += DAYS_BEFORE[month - 1] + day + (1 if leap and month > 2 else 0)
    return days * DAY + int(clock[:2]) * 3600 + int(clock[3:5]) * 60 + int(clock[6:8])


def _read(line: str, clock: Clock) -> Optional[Line]:
    match = USUAL.match(line)
    if match:
        return Line(int(match.group(1)), match.group(2), KERNEL)
    match = MONOTONIC.match(line)
    if match:
        return _spoken(int(match.group(1)), match.group(2), bare=True)
    match = CTIME.match(line)
    if match and match.group(1) in MONTHS:
        month, day, time, year, rest = match.groups()
        return Line(clock.seconds(int(year), MONTHS[month], int(day), time), rest, KERNEL)
    match = SYSLOG.match(line)
    if match and match.group(1) in MONTHS:
        month, day, time, rest = match.groups()
        return _dated(clock.seconds(None, MONTHS[month], int(day), time), rest)
    match = ISO.match(line)
    if match and 1 <= int(match.group(2)) <= 12:
        year, month, day, time, rest = match.groups()
        return _spoken(clock.seconds(int(year), int(month), int(day), time), rest, bare=True)
    match = UNIX.match(line)
    if match:
        return _dated(clock.since_first(int(match.group(1))), match.group(2))
    return None


def _dated(second: int, rest: str) -> Optional[Line]:
    """A line of a syslog file, whose kernel lines may also carry the kernel's own clock."""
    line = _spoken(second, rest, bare=False)
    inner = MONOTONIC.match(line.text) if line is not None and line.speaker == KERNEL else None
    return Line(int(inner.group(1)), inner.group(2), KERNEL) if inner else line


def _spoken(second: int, rest: str, bare: bool) -> Optional[Line]:
    """`bare`: the message may be without host and program, as dmesg writes it."""
    match = SPEAKER.match(rest)
    if match and match.group(2) in (KERNEL, JOURNALD):
        text = match.group(3)
        inner = MONOTONIC.match(text) if text.startswith("[") else None
        if inner:
            return Line(int(inner.group(1)), inner.group(2), match.group(2))
        return Line(second, text, match.group(2))
    if rest.startswith(JOURNALD + "["):
        # Before its socket exists, journald writes into the kernel's buffer.
        return Line(second, rest.partition(": ")[2], JOURNALD)
    if bare:
        return Line(second, rest, KERNEL)
    return Line(second, rest, match.group(2) if match else "unknown")
