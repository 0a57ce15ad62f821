"""What the readings say of the kernel's log and the policy of Xids where every check passes."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from gpuwright.readings.kernel_log.log import JOURNAL
from node_names import KERNEL

KERNEL_LOG = f"""\
[    0.000000] a5-01 kernel: Linux version {KERNEL} (mockbuild@x86-vm) (gcc version 8.5.0)
[    5.123456] a5-01 kernel: NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23
"""

READINGS: dict[str, Any] = {
    "kernel_log": {
        "source": " ".join(JOURNAL),
        "lines": 2,
        "from_boot": True,
        "whole": True,
        "xids": [],
        "sxids": [],
        "findings": [],
    },
    "xid_policy": [],
}

LINE = re.compile(r"\[ *([0-9]+)\.([0-9]+)\] (\S+) ([^\s:\[]+)(?:\[[0-9]+\])?: (.*)")
BOOT_ID = "0123456789abcdef0123456789abcdef"


def record(message: str, microseconds: int = 0, **fields: Any) -> str:
    """A message of the kernel as journalctl -o json prints it; `fields` replace those of a kernel's."""
    entry = {
        "__CURSOR": "s=1;i=1",
        "__REALTIME_TIMESTAMP": str(1767607200000000 + microseconds),
        "__MONOTONIC_TIMESTAMP": str(microseconds + 4000),
        "_BOOT_ID": BOOT_ID,
        "_TRANSPORT": "kernel",
        "SYSLOG_FACILITY": "0",
        "_SOURCE_MONOTONIC_TIMESTAMP": str(microseconds),
        "MESSAGE": message,
        **fields,
    }
    return json.dumps(entry, ensure_ascii=False)


def records(text: str) -> str:
    """Lines of journalctl -o short-monotonic, an indented one to the message before it, as -o json prints them."""
    found: list[tuple[str, int, dict[str, str]]] = []
    for line in text.splitlines():
        match = LINE.match(line)
        if match is None:
            if line.strip():
                message, moment, fields = found[-1]
                found[-1] = (f"{message}\n{line.strip()}", moment, fields)
            continue
        seconds, fraction, _host, speaker, message = match.groups()
        fields = {"kernel": {}, "systemd-journald": {"_TRANSPORT": "driver"}}.get(speaker, {"SYSLOG_FACILITY": "3"})
        found.append((message, int(seconds) * 1000000 + int((fraction + "000000")[:6]), fields))
    return "".join(record(message, moment, **fields) + "\n" for message, moment, fields in found)


def journalctl(text: str) -> str:
    """A script that prints this log of short-monotonic, or its records where it is asked for JSON."""
    one, other = shlex.quote(records(text)), shlex.quote(text)
    asked = f"case \"$*\" in *'-o json'*) printf %s {one};; *) printf %s {other};; esac"
    return f"#!/bin/sh\n{asked}\n"
