# SPDX-License-Identifier: Apache-2.0
"""What log collectors and other systems write around a kernel message, as a table of formats.

Each row takes a line and gives what is inside, which is read as a line of a log by itself; a row with `kernel` holds
only messages of the kernel. What no row knows is read as it is.
"""

import json
import re
from typing import Any, Dict, List, NamedTuple, Optional, Pattern

ISO = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?:Z|[+-][0-9]{2}:?[0-9]{2})"
LEVEL = r"(?:emerg|alert|crit|err|error|warn|warning|notice|info|debug)"
QUOTED = r'"(?P<quoted>(?:[^"\\]|\\.)*)"'


class Wrapped(NamedTuple):
    """What is inside a line; `date` in ISO form, `host` and `clock` (seconds since the boot) are "" if not given."""

    text: str
    is_kernel: bool
    date: str = ""
    host: str = ""
    clock: str = ""


class Format(NamedTuple):
    """One way to wrap a message: groups text or quoted, and perhaps date, host, clock."""

    name: str
    pattern: Pattern[str]
    kernel: bool


FORMATS = tuple(
    Format(name, re.compile(pattern, re.S), kernel)
    for name, pattern, kernel in (
        # talosctl dmesg, of one node or several.
        (
            "Talos",
            r"(?:(?P<host>[0-9A-Za-z][0-9A-Za-z.:-]*): +)?kern: +"
            + LEVEL
            + r": \[(?P<date>"
            + ISO
            + r")\]: (?P<text>.*)",
            True,
        ),
        (
            "ESXi",
            r"(?P<date>" + ISO + r") (?:\w+\([0-9]+\) )?(?:vmkernel: )?cpu[0-9]+:[0-9]+(?: opID=\S+)?\)(?P<text>.*)",
            True,
        ),
        (
            "dmesg --json",
            r'\{\s*"pri":\s*[0-7],\s*"time":\s*(?P<clock>[0-9]+\.[0-9]+),.*?"msg":\s*' + QUOTED + r"\s*\},?\s*",
            True,
        ),
        # Containers: the runtime's own files, kubectl logs --timestamps, docker logs -t.
        ("CRI", r"(?P<date>" + ISO + r") std(?:out|err) [FP] (?P<text>.*)", False),
        ("docker json-file", r'\{"log":' + QUOTED + r',"stream":"std(?:out|err)".*\}', False),
        (
            "stamp of a container",
            r"(?P<date>" + ISO + r") (?P<text>(?:\[ *[0-9]+\.[0-9]+\] |<[0-9]+>|kernel: ).*)",
            False,
        ),
        ("logfmt", r"(?:[A-Za-z_.]+=(?:\S+|\"[^\"]*\") )*(?:msg|message)=" + QUOTED + r"(?: .*)?", False),
        # What syslogd writes to all terminals.
        ("wall", r"kernel: ?(?P<text>\[ *[0-9]+\.[0-9]+\] .*)", False),
    )
)
FIRST = re.compile(r"[0-9]{4}-|\{|[A-Za-z0-9.:-]+(?:: +kern:|: |=)|kern: |kernel:")


def unwrapped(line: str) -> Optional[Wrapped]:
    """What is inside the line; None if it is in none of these formats."""
    if not FIRST.match(line):
        return None
    for form in FORMATS:
        match = form.pattern.fullmatch(line)
        if match is None:
            continue
        found = match.groupdict()
        text = found.get("text")
        if text is None:
            text = _unquoted(found.get("quoted") or "")
        if text is None:
            continue
        names = ("date", "host", "clock")
        return Wrapped(text.rstrip("\n"), form.kernel, *[found.get(name) or "" for name in names])
    return None


def _unquoted(text: str) -> Optional[str]:
    try:
        value = json.loads(f'"{text}"')
    except ValueError:
        return None
    return value if isinstance(value, str) else None


# journalctl -o verbose: a line with date and cursor, then a field on each line.
VERBOSE = re.compile(r"^\w{3} [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.]+ \S+ \[s=[^\]]*\]$", re.M)
FIELD = re.compile(r" {4}([A-Z_][A-Z0-9_]*)=(.*)$")


def without_verbose(text: str) -> str:
    """The text with each record of journalctl -o verbose as one of -o json."""
    if not VERBOSE.search(text):
        return text
    lines: List[str] = []
    entry: Optional[Dict[str, Any]] = None
    last = ""
    for line in text.split("\n"):
        field = FIELD.match(line) if entry is not None else None
        if VERBOSE.match(line):
            lines += _record(entry)
            entry = {}
        elif field is not None and entry is not None:
            last = field.group(1)
            entry[last] = field.group(2)
        elif entry is not None and line.startswith("     ") and last:
            entry[last] += "\n" + line.strip()
        else:
            lines += _record(entry)
            entry = None
            lines.append(line)
    return "\n".join(lines + _record(entry))


def _record(entry: Optional[Dict[str, Any]]) -> List[str]:
    return [json.dumps(entry)] if entry else []
