# SPDX-License-Identifier: Apache-2.0
"""Records of a kernel's log, as journald and the kernel's own buffer keep them: where one ends is never guessed.

A program's name, a file's name and much else that a user chooses are in the kernel's messages as they are, line breaks
included. In a record such text stays inside; as lines of text, it would look like another message.
"""

import errno
import json
import os
import re
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ...host.patterns import lazily

# No host has such a name; the kernel's own lines begin like this.
KERNEL = "kernel"
JOURNALD = "systemd-journald"
# What any other program wrote, to its daemon or into the kernel's buffer.
OTHER = ""
# Priority (facility * 8 + level), number, microseconds since the boot, flags; message. Further fields are indented.
KMSG = lazily(rb"([0-9]{1,9}),[0-9]+,([0-9]{1,15}),[^;]{0,60};(.*)", re.S)
ESCAPED = lazily(rb"\\x([0-9a-fA-F]{2})")
MICROSECONDS = 1000000
# More than the longest record of the buffer; a shorter read fails.
RECORD_BYTES = 16384
NEWLINE = b"\n"


class Line(NamedTuple):
    """One message.

    text     without what stands before it; further lines behind line breaks
    speaker  KERNEL, JOURNALD or OTHER
    clock    microseconds since the boot by the kernel's clock, None if that is not known
    date     seconds since the year 0, None if there is no date; `scale` says in what time, see `dates`
    host     the machine's name, "" if the line has none
    boot     the boot's id, "" if the line has none
    """

    text: str
    speaker: str
    clock: Optional[int] = None
    date: Optional[int] = None
    scale: str = ""
    host: str = ""
    boot: str = ""


def journal_record(row: str) -> Optional[Line]:
    """A line of journalctl -o json; None if it is no such record.

    Fields that begin with "_" come from journald itself, and no program can write them. What userspace writes into the
    kernel's buffer has the transport of the kernel, too, but never its facility 0.
    """
    try:
        entry = json.loads(row)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or "_TRANSPORT" not in entry:
        return None
    text, transport = _text(entry.get("MESSAGE")), entry["_TRANSPORT"]
    if text is None:
        return None
    is_kernels = transport == "kernel" and entry.get("SYSLOG_FACILITY", "0") == "0"
    speaker = KERNEL if is_kernels else JOURNALD if transport == "driver" else OTHER
    clock = _number(entry, "_SOURCE_MONOTONIC_TIMESTAMP")
    clock = _number(entry, "__MONOTONIC_TIMESTAMP") if clock is None else clock
    moment = _number(entry, "__REALTIME_TIMESTAMP")
    date = None if moment is None else moment // MICROSECONDS + UNIX_BEGIN
    return Line(text, speaker, clock, date, "utc", str(entry.get("_HOSTNAME", "")), str(entry.get("_BOOT_ID", "")))


# From the year 0 of `lines` to 1970, in days of 24 hours.
UNIX_BEGIN = 719163 * 24 * 3600


def _text(message: Any) -> Optional[str]:
    """The message; journald gives one with control characters, or that is not UTF-8, as a list of bytes."""
    if isinstance(message, str):
        return message
    try:
        return bytes(message).decode("utf-8", "replace") if isinstance(message, list) else None
    except (TypeError, ValueError):
        return None


def _number(entry: Dict[str, Any], name: str) -> Optional[int]:
    value = entry.get(name)
    return int(value[:18]) if isinstance(value, str) and value.isdecimal() else None


def kmsg_record(row: bytes) -> Optional[Line]:
    """A record of /dev/kmsg, which writes line breaks inside a message as \\x0a; None for anything else."""
    match = KMSG.match(row)
    if match is None:
        return None
    text = ESCAPED.sub(lambda found: bytes([int(found.group(1), 16)]), match.group(3)).decode("utf-8", "replace")
    speaker = KERNEL if int(match.group(1)) < 8 else OTHER
    if speaker == OTHER and text.startswith(JOURNALD + "["):
        # Before its socket exists, journald writes into the kernel's buffer.
        speaker, text = JOURNALD, text.partition(": ")[2]
    return Line(text, speaker, int(match.group(2)))


def read_kmsg(path: str, seconds: float, limit_bytes: int) -> Tuple[List[Line], bool]:
    """(what is in the kernel's buffer, whether that is all), from the oldest record on; OSError if it is refused."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        data, whole = _drained(file, time.monotonic() + seconds, limit_bytes)
    finally:
        os.close(file)
    return list(_kmsg_lines(data)), whole


def _drained(file: int, deadline: float, limit_bytes: int) -> Tuple[bytes, bool]:
    found, whole = bytearray(), True
    while len(found) < limit_bytes and time.monotonic() < deadline:
        try:
            part = os.read(file, RECORD_BYTES)
        except BlockingIOError:
            return bytes(found), whole
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise
            # The oldest records were overwritten; in the midst of reading, some are missing.
            whole = not found
            continue
        if not part:
            return bytes(found), whole
        found += part
    return bytes(found), False


def _kmsg_lines(data: bytes) -> Iterator[Line]:
    for row in data.split(NEWLINE):
        line = kmsg_record(row)
        if line is not None:
            yield line
