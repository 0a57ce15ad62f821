# SPDX-License-Identifier: Apache-2.0
"""What root's last check recorded for everybody: its verdict, when and how it was made, and whether it still counts."""

import os
import signal
import sys
from typing import Dict, NamedTuple, Optional, Sequence, Tuple

from ..host.files import below, read_text
from ..host.terminal import escape_output
from ..verdict.boot_check import BOOT_ID_PATH, CHECK_NOW, RECORD_PATH, UNIT_PATH, doubt, gate, read_uptime
from ..verdict.check import UNKNOWN
from ..verdict.report import age_words
from .metrics import NAGIOS_STATUS, nagios_line
from .root_result import read_roots

# A record counts for three periods of the timer (roles/system_monitor/vars); a monitor is told after two.
MOST_AGE = 2 / 3.0


class Recorded(NamedTuple):
    """Root's last record, None if there is none, and why it does not count, "" if it does."""

    record: Optional[Dict]
    problem: str


def is_watched(root: str = "/") -> bool:
    """Whether the node checks itself as root and has left a record, which then counts or is too old.

    Before the first record, there is only what an ordinary user can see.
    """
    return all(os.path.lexists(below(root, path)) for path in (UNIT_PATH, RECORD_PATH))


def read_recorded(root: str = "/") -> Recorded:
    """Root's last record; one of another boot, too old, damaged, or one others could have written does not count."""
    try:
        record = read_roots(below(root, RECORD_PATH))
    except OSError as error:
        return Recorded(None, f"{RECORD_PATH}: {error.strerror}")
    except ValueError as error:
        return Recorded(None, f"{RECORD_PATH} is damaged ({error})")
    problem = doubt(record, read_text(root, BOOT_ID_PATH), read_uptime(root))
    if not problem and not isinstance(record.get("checks"), list):
        problem = f"{RECORD_PATH} is from an older release and lists no checks"
    return Recorded(record, problem)


def recorded_words(found: Recorded, uptime_s: Optional[float]) -> str:
    """For example "PASS, 3 minutes ago (2026-01-05T10:00:00Z, level quick); it counts for 2700 s"."""
    record = found.record
    if found.problem or record is None or uptime_s is None:
        return f"none that counts: {found.problem or 'no uptime'}; for a new one: sudo {CHECK_NOW}"
    age = age_words(int(uptime_s - record["uptime_s"]))
    words = "{}, {} ({}, level {}, gpuwright-check.service); it is valid for {:.0f} s"
    return words.format(record["verdict"], age, record["time"], record.get("level"), record["holds_s"])


def nagios_of_recorded(root: str = "/") -> Tuple[str, int]:
    """The line and the exit status for Nagios from root's record; UNKNOWN if it does not count."""
    found = read_recorded(root)
    words = recorded_words(found, read_uptime(root))
    if found.problem or found.record is None:
        return f"GPU UNKNOWN: root's last check: {words}", NAGIOS_STATUS[UNKNOWN]
    age_s = (read_uptime(root) or 0) - found.record["uptime_s"]
    if age_s > found.record["holds_s"] * MOST_AGE:
        return f"GPU UNKNOWN: root's last check is older than two periods of its timer: {words}", NAGIOS_STATUS[UNKNOWN]
    line, verdict = nagios_line(found.record["checks"], found.record["verdict"]), found.record["verdict"]
    text, _bar, data = line.partition(" | ")
    return f"{text}; checked by root: {words} | {data}", NAGIOS_STATUS.get(verdict, NAGIOS_STATUS[UNKNOWN])


def answered(arguments: Sequence[str], root: str = "/") -> Optional[int]:
    """Answer --gate or --nagios, each alone, from the record; None if that is not what was asked, or there is none."""
    asked = list(arguments)
    if asked not in (["--gate"], ["--nagios"]) or (asked == ["--nagios"] and not is_watched(root)):
        return None
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    escape_output()
    if asked == ["--gate"]:
        is_open, sentence = gate(root)
        print("gpu-doctor: " + sentence, file=sys.stdout if is_open else sys.stderr)
        return 0 if is_open else 1
    line, status = nagios_of_recorded(root)
    print(line)
    return status
