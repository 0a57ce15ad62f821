# SPDX-License-Identifier: Apache-2.0
"""Kernel logs as people save them: dmesg in its formats, journalctl, syslog, /dev/kmsg; converted to dmesg's format.

Colours, quotation marks of mail, and what grep and pdsh write before a line are removed; months may be in any language.
"""

import json
import re
from typing import List, NamedTuple, Optional, Tuple

COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
QUOTES = re.compile(r"(?:> ?)+")
# grep -n, grep of several files, both; pdsh and the like write a host.
GATHERED = re.compile(r"[a-z0-9][a-z0-9.-]*: (?=\[)|(?:[^\s:\[\]]+:)?(?:[0-9]+[:-])?(?=\S)")
PRIORITY = re.compile(r"<[0-9]{1,3}>(?:1 (?=[0-9]{4}-))?|kern *:[a-z]+ *: ?")
# dmesg -d also writes the time since the previous line.
SINCE = r"(?: <[ 0-9.+]*>)?"
MONOTONIC = re.compile(
    r"\[ *([0-9]{1,12}\.[0-9]+)" + SINCE + r"\] ?(?:\[ *[TC][0-9]+\] ?)?(?:(\S+) kernel: )?(.*)", re.S
)
# dmesg -H writes the date with the first line of a minute, and seconds since then.
HUMAN = re.compile(r"\[(?: *\+[0-9]+\.[0-9]+|\w{2,6}\.? ?[0-9]{1,2} [0-9]{2}:[0-9]{2})\] ?(.*)", re.S)
CALENDAR = re.compile(r"\[\w{1,4}\.? \w{2,6}\.? +[0-9]{1,2} [0-9:]{8} [0-9]{4}" + SINCE + r"\] ?(.*)", re.S)
STAMP = (
    r"(?:(?:\w{1,4}\.? )?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:]{8}(?:[.,][0-9]+)?(?:Z| ?[+-][0-9:]{4,6})?"
    r"|(?:[0-9]{4} )?\w{2,6}\.? +[0-9]{1,2} [0-9:]{8}(?:\.[0-9]+)?)"
)
SYSLOG = re.compile(STAMP + r"(?: [A-Z]{3,5})? \S+ (?:kern\.[a-z]+ )?kernel(?:: ?| - - - ?)(.*)", re.S)
# dmesg --time-format iso: only the message distinguishes it from a program's log.
BARE = re.compile(STAMP + r" (.*)", re.S)
KERNELS_OWN = re.compile(
    r"NVRM: |nvidia|pcieport |mce: |EDAC |Linux version |NMI |watchdog: |Out of memory|AER: |INFO: task "
)
# Lines picked from a log with grep and pasted without their times.
PICKED = re.compile(
    r"(?:kernel: )?((?:"
    r"NVRM: (?:Xid \(PCI|GPU |The NVIDIA |loading NVIDIA|Rm[A-Z]|[a-z]+[A-Z])"
    r"|nvidia-nvswitch[0-9]+: |pcieport [0-9a-f]{4}:"
    r").*)|kernel: (.*)",
    re.S,
)
KMSG = re.compile(r"[0-9]+,[0-9]+,([0-9]+),[^;]{1,40};(.*)", re.S)
# With a smaller share, it is a text that quotes a log.
LEAST_SHARE = 0.2
LEAST_LINES = 50


class Log(NamedTuple):
    """`raw` as it was saved, `text` as dmesg writes it; `lines` of the kernel among `of` lines that are not blank."""

    raw: str
    text: str
    lines: int
    of: int

    def is_log(self) -> bool:
        return self.lines >= LEAST_LINES or self.lines > 0 and self.lines >= LEAST_SHARE * self.of


def kernel_log(text: str) -> Log:
    """The kernel's lines in the text. Lines without a time since boot keep their order: their number is used."""
    found: List[str] = []
    count, follows = 0, False
    for raw in text.splitlines():
        line = QUOTES.sub("", COLOUR.sub("", raw), 1) if raw[:1] == ">" else COLOUR.sub("", raw)
        if not line.strip():
            continue
        pair = one_line(line.strip())
        # A message of several lines: tools indent the further ones, and NVIDIA's driver begins each with its name.
        if follows and (line[0] in " \t" and pair is None or line.startswith("NVRM: ")) and " NVRM: " in found[-1]:
            found[-1] += "\n    " + line.strip()
            continue
        count += 1
        follows = pair is not None
        if pair is not None:
            second, message = pair
            found.append("[{}] {}".format(second or f"{len(found):5d}.000000", message))
            follows = line.strip() != message
    return Log(text, "\n".join(found) + "\n", len(found), count)


def one_line(line: str) -> Optional[Tuple[str, str]]:
    """(seconds since the boot as text or "", message) of a kernel's line, None for any other line."""
    if line.startswith("{"):
        return _exported(line)
    head = PRIORITY.match(line)
    line = line[head.end() :] if head else line
    found = _with_time(line)
    if found is None:
        gathered = GATHERED.match(line)
        found = _with_time(line[gathered.end() :]) if gathered and gathered.end() else None
    if found is not None:
        return found
    match = BARE.match(line)
    if match and (head or KERNELS_OWN.match(match.group(1))):
        return "", match.group(1)
    match = PICKED.match(line)
    return _inner(match.group(1) or match.group(2)) if match else None


def _with_time(line: str) -> Optional[Tuple[str, str]]:
    match = MONOTONIC.match(line)
    if match:
        return match.group(1).rjust(12), match.group(3)
    match = KMSG.match(line)
    if match:
        return f"{int(match.group(1)[:15]) / 1e6:12.6f}", match.group(2)
    match = CALENDAR.match(line) or HUMAN.match(line)
    if match:
        return "", match.group(1)
    match = SYSLOG.match(line)
    return _inner(match.group(1)) if match else None


def _inner(message: str) -> Tuple[str, str]:
    """The kernel's own clock, if a syslog daemon kept it."""
    match = MONOTONIC.match(message)
    return (match.group(1).rjust(12), match.group(3)) if match else ("", message)


def _exported(line: str) -> Optional[Tuple[str, str]]:
    """A line of journalctl -o json; only the transport shows whether it is really the kernel's."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    message, clock = entry.get("MESSAGE"), entry.get("__MONOTONIC_TIMESTAMP")
    if entry.get("_TRANSPORT") != "kernel" or not isinstance(message, str):
        return None
    microseconds = clock[:15] if isinstance(clock, str) and clock.isdigit() else None
    return f"{int(microseconds) / 1e6:12.6f}" if microseconds else "", message.replace("\n", "\n    ")
