# SPDX-License-Identifier: Apache-2.0
"""What the kernel of this boot has said about GPUs and hardware, from its log.

The log comes from journald (only what the kernel itself wrote, only this boot) or, where that has nothing, from the
ring buffer through dmesg. What cannot be read raises OSError; an empty log is one that cannot be read.
"""

import collections
import re

from .bounded import run_bounded
from .hostfiles import exists, read_text

LOG_SECONDS = 10
# A healthy boot writes some 100 KiB; a card that repeats its errors for days some MiB.
LOG_LIMIT_BYTES = 16 * 1024 * 1024
SOURCES = (
    ["journalctl", "-k", "-b", "-q", "--no-pager", "-o", "short-monotonic"],
    ["dmesg"],
)
# "[    5.123456] name kernel: text" from journald, "[    5.123456] text" from dmesg.
LINE = re.compile(r"\[ *([0-9]{1,12})\.[0-9]+\] (?:\S+ kernel: )?(.*)")
FIRST_WORDS = "Linux version "
ADDRESS = r"\(PCI:([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})(?:\.[0-7])?[^)]*\)"
XID = re.compile(r"NVRM: Xid\b(?: *" + ADDRESS + r": *([0-9]{1,6})\b)?")
SXID = re.compile(r"nvidia-nvswitch\S*: SXid\b(?: *" + ADDRESS + r": *([0-9]{1,6})\b)?")
LONGEST_TEXT = 200
# Far above the number of codes times GPUs; a log with more different errors counts as not read to its end.
MOST_EVENTS = 1000

# kind: what the kernel writes. Patterns begin where its message does, so that a name inside a message is no finding.
FINDINGS = (
    ("lockup", re.compile(r"(?:NMI )?watchdog: (?:BUG: soft lockup|Watchdog detected hard LOCKUP)|BUG: soft lockup")),
    ("blocked", re.compile(r"INFO: task \S+ blocked for more than [0-9]+ seconds")),
    ("out_of_memory", re.compile(r"(?:Out of memory|Memory cgroup out of memory): Kill")),
    (
        "hardware",
        re.compile(r"(?:mce: )?\[Hardware Error\]: (?!.*[Cc]orrected)|EDAC \S+: [0-9]+ UE\b|mce: .*[Uu]ncorrect"),
    ),
    ("hardware_corrected", re.compile(r"(?:mce: )?\[Hardware Error\]: .*[Cc]orrected|EDAC \S+: [0-9]+ CE\b")),
    ("pcie", re.compile(r"pcieport \S+: (?:PCIe Bus Error: severity=Uncorrected|AER: Uncorrected)|AER: Uncorrected")),
    ("pcie_corrected", re.compile(r"pcieport \S+: (?:PCIe Bus Error: severity=Corrected|AER: Corrected)")),
)


def read_container(root):
    """The name of the container manager, such as "podman", or None when the node is no container."""
    word = read_text(root, "/run/systemd/container")
    if word:
        return word
    environment = (read_text(root, "/proc/1/environ") or "").split("\0")
    for pair in environment:
        if pair.startswith("container=") and pair != "container=":
            return pair.partition("=")[2]
    marks = {"/run/.containerenv": "podman", "/.dockerenv": "docker"}
    return next((name for mark, name in sorted(marks.items()) if exists(root, mark)), None)


def read_kernel_log(root):
    """What `parse_log` finds, with `source`; None in a container that its host shows no kernel log.

    The kernel of a container is its host's, and so is the log: nothing is missing on such a node, it is elsewhere.
    """
    problems = []
    for command in SOURCES:
        done = run_bounded(command, LOG_SECONDS, LOG_LIMIT_BYTES)
        parsed = parse_log(done.stdout)
        if parsed["lines"] and (done.rc == 0 or done.truncated):
            return dict(parsed, source=" ".join(command), whole=parsed["whole"] and not done.truncated)
        said = (done.stderr.strip().splitlines() or ["said nothing"])[0]
        problems.append(done.problem or "{}: {}".format(command[0], said))
    if read_container(root) is not None:
        return None
    raise OSError("the kernel's log cannot be read: {}".format("; ".join(problems)))


def parse_log(text):
    """`{lines, from_boot, xids, sxids, findings}`: events with how often and when they came first and last.

    `from_boot` says that the log reaches back to the kernel's first line; otherwise older lines have been dropped.
    `whole` is False when there were more different events than are kept.
    """
    found = {"lines": 0, "from_boot": False, "whole": True}
    events = {"xids": collections.OrderedDict(), "sxids": collections.OrderedDict()}
    findings = collections.OrderedDict()
    for line in text.splitlines():
        match = LINE.match(line.strip())
        if not match:
            continue
        second, message = int(match.group(1)), match.group(2)
        found["lines"] += 1
        found["from_boot"] = found["from_boot"] or message.startswith(FIRST_WORDS)
        for name, pattern in (("xids", XID), ("sxids", SXID)):
            event = pattern.match(message)
            if event:
                # 0 stands for a code that cannot be read, and is in no catalogue.
                key = (int(event.group(2) or 0), _address(event.group(1)))
                found["whole"] = _count(events[name], key, second, message) and found["whole"]
        for kind, pattern in FINDINGS:
            if pattern.match(message):
                _count(findings, kind, second, message)
    for name in events:
        found[name] = [dict(record, code=code, pci_id=pci_id) for (code, pci_id), record in events[name].items()]
    found["findings"] = [dict(record, kind=kind) for kind, record in findings.items()]
    return found


def _address(text):
    """As sysfs writes it, without the function, which the kernel leaves out; "unnamed" when there is none."""
    if not text:
        return "unnamed"
    domain, rest = text.split(":", 1)
    return "{:04x}:{}".format(int(domain, 16), rest.lower())


def _count(table, key, second, message):
    """Count one event; False when there is no room for another kind of it."""
    if key not in table and len(table) >= MOST_EVENTS:
        return False
    record = table.setdefault(key, {"count": 0, "first_s": second, "text": ""})
    record["count"] += 1
    record["last_s"] = second
    record["text"] = "".join(c if c.isprintable() else " " for c in message)[:LONGEST_TEXT]
    return True
