# SPDX-License-Identifier: Apache-2.0
"""What log collectors and other systems write around a kernel message, as a table of formats.

Each row takes a line and gives what is inside, which is read as a line of a log by itself; a row with `kernel` holds
only messages of the kernel. What no row knows is read as it is.
"""

import json
import re
from typing import Any, Dict, List, NamedTuple, Optional, Pattern, Sequence

ISO = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?:Z|[+-][0-9]{2}:?[0-9]{2})"
LEVEL = r"(?:emerg|alert|crit|err|error|warn|warning|notice|info|debug)"
QUOTED = r'"(?P<quoted>(?:[^"\\]|\\.)*)"'
# How a line of a log begins that has a time.
TIMED = (
    r"(?:\[ *[0-9]+\.[0-9]+[\] <]|\[\w{1,4}\.? \w{2,6}\.? +[0-9]|<[0-9]+>|" + ISO + r"|\w{3} [ 0-9][0-9] [0-9:]{8} )"
)


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


# No part of a pattern may fit in two ways: a row of many columns would be tried in all combinations.
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
        (
            "stamp of a container",
            r"(?P<date>" + ISO + r") (?P<text>(?:\[ *[0-9]+\.[0-9]+\] |<[0-9]+>|kernel: ).*)",
            False,
        ),
        # CloudWatch and Loki, as their consoles copy a line; kubectl logs --prefix; stern; docker compose, and pssh.
        ("column of a console", r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,]{8,}Z?\t(?P<text>.*)", False),
        ("kubectl logs --prefix", r"\[pod/[^\]\s]+\] (?P<text>.*)", False),
        ("stern", r"[a-z0-9][a-z0-9.-]* [a-z0-9][a-z0-9-]* (?P<text>" + TIMED + r".*)", False),
        ("column of a host", r"(?P<host>[A-Za-z0-9][\w.-]*) *\| (?P<text>" + TIMED + r".*)", False),
        # LBNL's and Azure's node health check quotes the line that it found.
        ("NHC", r"(?P<host>\S+) \| ERROR: nhc: [^\[]*(?P<text>" + TIMED + r".*)", False),
        # Lists of strings, as Ansible and others print them; CSV of a log store.
        ("string of a list", r'(?="' + TIMED + r")" + QUOTED + r",?", False),
        ("CSV", r'"?(?P<date>' + ISO + r')"?(?:,(?:"(?:[^"]|"")*"|[^",]*))*?,' + QUOTED, False),
        # A page's or a mail's lists and tables.
        ("list", r"(?:[-*+•]|[0-9]+[.)]) (?P<code>`?)(?P<text>" + TIMED + r".*?)(?P=code)", False),
        ("table", r"\|(?: [^|]* \|)? `?(?P<text>" + TIMED + r"[^|]*[^|` ])`? *\|", False),
        (
            "logfmt",
            r"(?:[A-Za-z_.]+=(?:\"(?:[^\"\\]|\\.)*\"|[^\s\"]\S*) )*(?:msg|message)=" + QUOTED + r"(?: .*)?",
            False,
        ),
        # What syslogd writes to all terminals.
        ("wall", r"kernel: ?(?P<text>\[ *[0-9]+\.[0-9]+\] .*)", False),
    )
)
FIRST = re.compile(
    r"[0-9]{4}-|[{\"|]|\[pod/|(?:[-*+•]|[0-9]+[.)]) |kern: |kernel:|[\w.:-]+(?:: +kern:|: |=| *\|)"
    r"|[a-z0-9.-]+ [a-z0-9-]+ [\[<0-9A-Z]"
)
# JSON of a collector: what it may call the message, its sender, its time and its host.
MESSAGES = ("log", "message", "msg", "line")
SENDERS = (
    "SYSLOG_IDENTIFIER",
    "ident",
    "identifier",
    "appname",
    "app_name",
    "app",
    "program",
    "process",
    "tag",
    "unit",
)
TIMES = ("time", "timestamp", "@timestamp", "ts")
HOSTS = ("hostname", "host", "node")
KERNELS = ("kernel", "kern", "kmsg")
# journalctl's and dmesg's own records say who wrote them in another way.
OWN_FORM = ("_TRANSPORT", "pri")
WHOLE_ISO = re.compile(ISO)


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
    return _of_json(line) if line.startswith("{") else None


def _of_json(line: str) -> Optional[Wrapped]:
    """What is in a collector's object; None if another program than the kernel is named as who wrote it."""
    try:
        entry = json.loads(line.rstrip(", "))
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or any(name in entry for name in OWN_FORM):
        return None
    text, sender, date, host = (_first(entry, names) for names in (MESSAGES, SENDERS, TIMES, HOSTS))
    if not text or (sender and sender not in KERNELS):
        return None
    return Wrapped(text.rstrip("\n"), False, date if WHOLE_ISO.fullmatch(date) else "", host)


def _first(entry: Dict[str, Any], names: Sequence[str]) -> str:
    return next((entry[name] for name in names if isinstance(entry.get(name), str)), "")


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
