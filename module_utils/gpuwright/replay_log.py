# SPDX-License-Identifier: Apache-2.0
"""Kernel logs as people save them: dmesg in its forms, journalctl, syslog, /dev/kmsg; brought to the form of dmesg."""

import re
from typing import NamedTuple

PRIORITY = re.compile(r"<[0-9]{1,3}>|kern *:[a-z]+ *: ?")
MONOTONIC = re.compile(r"\[ *([0-9]{1,12}\.[0-9]+)\] ?(?:\[ *[TC][0-9]+\] ?)?(?:(\S+) kernel: )?(.*)")
CALENDAR = re.compile(r"\[[A-Z][a-z]{2} [A-Z][a-z]{2} +[0-9]{1,2} [0-9:]{8} [0-9]{4}\] ?(.*)")
STAMP = (
    r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:]{8}(?:[.,][0-9]+)?(?:Z| ?[+-][0-9:]{4,5})?"
    r"|[A-Z][a-z]{2} +[0-9]{1,2} [0-9:]{8}(?:\.[0-9]+)?)"
)
SYSLOG = re.compile(STAMP + r" \S+ kernel: ?(.*)")
# dmesg --time-format iso: nothing but the message tells it from a program's log.
BARE = re.compile(STAMP + r" (.*)")
KERNELS_OWN = re.compile(
    r"NVRM: |nvidia|pcieport |mce: |EDAC |Linux version |NMI |watchdog: |Out of memory|AER: |INFO: task "
)
# What somebody has picked out of a log with grep and pasted without its time.
PICKED = re.compile(
    r"(?:kernel: )?((?:"
    r"NVRM: (?:Xid \(PCI|GPU |The NVIDIA |loading NVIDIA|Rm[A-Z]|[a-z]+[A-Z])"
    r"|nvidia-nvswitch[0-9]+: |pcieport [0-9a-f]{4}:"
    r").*)|kernel: (.*)"
)
KMSG = re.compile(r"[0-9]+,[0-9]+,([0-9]+),[^;]{1,40};(.*)")
# Less than this is a text that quotes a log.
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
    """The kernel's lines in the text. Lines without a time since the boot keep their order: they get their number."""
    found, count = [], 0
    for line in text.splitlines():
        line = line.strip()
        if not line:
            continue
        count += 1
        pair = one_line(line)
        if pair is not None:
            second, message = pair
            found.append("[{}] {}".format(second or "{:5d}.000000".format(len(found)), message))
    return Log(text, "\n".join(found) + "\n", len(found), count)


def one_line(line: str):
    """(seconds since the boot as text or "", message) of a kernel's line, None for any other line."""
    head = PRIORITY.match(line)
    line = line[head.end() :] if head else line
    match = MONOTONIC.match(line)
    if match:
        return match.group(1).rjust(12), match.group(3)
    match = KMSG.match(line)
    if match:
        return "{:12.6f}".format(int(match.group(1)[:15]) / 1e6), match.group(2)
    match = CALENDAR.match(line)
    if match:
        return "", match.group(1)
    match = SYSLOG.match(line)
    if match:
        inner = MONOTONIC.match(match.group(1))
        return (inner.group(1).rjust(12), inner.group(3)) if inner else ("", match.group(1))
    match = BARE.match(line)
    if match and (head or KERNELS_OWN.match(match.group(1))):
        return "", match.group(1)
    match = PICKED.match(line)
    return ("", match.group(1) or match.group(2)) if match else None
