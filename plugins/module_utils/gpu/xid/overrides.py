# SPDX-License-Identifier: Apache-2.0
"""Read /etc/gpuwright/xid.yml, in which an administrator judges Xid and SXid codes differently from the table.

    xid:
      63:
        class: fail
        remedy: reset
        action: "Reset the card tonight."
        reason: our vendor asks for it
    sxid:
      20034: ...

There is no YAML library on the nodes, so this reads the part of YAML that such a file needs: two levels of block
mappings below `xid` and `sxid`, comments, plain and quoted texts on one line. What it accepts, it reads as YAML does;
everything else is an error with its line number. `policy` applies the rows.
"""

import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ...host.files import read_text
from ...host.patterns import lazily
from ...verdict.check import REMEDIES
from .table import CLASSES, FAIL, GPU_LOST

PATH = "/etc/gpuwright/xid.yml"
KINDS = ("xid", "sxid")
FIELDS = ("class", "action", "remedy", "reason")
NEEDED = ("class", "reason")
HIGHEST = {"xid": 999, "sxid": 99999}
LONGEST_FILE = 256 * 1024
CODE = lazily(r"[1-9][0-9]{0,5}")
KEY = lazily(r"""("(?:[^"\\])*"|'[^']*'|[A-Za-z_][A-Za-z0-9_]*|[1-9][0-9]*)\s*:(?: +(.*)|)""")
DOUBLE = lazily(r'"((?:[^"\\]|\\["\\])*)"')
SINGLE = lazily(r"'((?:[^']|'')*)'")
# A plain text begins with a letter and has no YAML mark in it; words that YAML would not read as text need quotes.
PLAIN = lazily(r"[A-Za-z](?:[^#:]|:(?=[^\s])|(?<=[^\s])#)*")
NO_TEXT = lazily(r"(?:y|n|yes|no|on|off|true|false|null)", re.IGNORECASE)
COMMENT = lazily(r"(?:\s+#.*)?")


class Entry(NamedTuple):
    """One line with its key: indentation in spaces, key, value (None if the line has none), its number."""

    indent: int
    key: str
    value: Optional[str]
    line: int


def read_overrides(root: str) -> List[Dict[str, Any]]:
    """The rows of the file, [] if there is no file; ValueError names the file, the line and what is wrong."""
    text = read_text(root, PATH)
    return [] if text is None else parse_overrides(text)


def parse_overrides(text: str) -> List[Dict[str, Any]]:
    """Rows `{kind, code, class, action, remedy, reason, line}`; kind is xid or sxid, action and remedy may be ""."""
    rows = []
    for kind, codes in _tree(_entries(text)):
        if kind.key not in KINDS:
            raise _error(kind.line, f"{kind.key!r} is not one of {', '.join(KINDS)}")
        rows += [_row(kind.key, code, fields) for code, fields in codes]
    return rows


def parse_mapping(text: str) -> Dict[str, Dict[str, Dict[str, Optional[str]]]]:
    """The file as nested mappings of texts, before they are interpreted."""
    return {
        kind.key: {code.key: {field.key: field.value for field in fields} for code, fields in codes}
        for kind, codes in _tree(_entries(text))
    }


def _error(line: int, words: str) -> ValueError:
    return ValueError(f"{PATH}, line {line}: {words}")


def _entries(text: str) -> List[Entry]:
    if len(text) > LONGEST_FILE:
        raise _error(1, f"the file is longer than {LONGEST_FILE} bytes")
    entries: List[Entry] = []
    started = False
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw[:-1] if raw.endswith("\r") else raw
        if not all(c.isprintable() for c in line):
            raise _error(number, "a tab or another control character; use spaces")
        words = line.strip(" ")
        if not words or words.startswith("#"):
            continue
        if line.rstrip(" ") == "---" and not started:
            started = True
            continue
        started = True
        entries.append(_entry(number, line, words))
    return entries


def _entry(number: int, line: str, words: str) -> Entry:
    match = KEY.fullmatch(words)
    if not match:
        raise _error(number, f"expected 'name: value', found {words[:60]!r}")
    key, rest = match.group(1), (match.group(2) or "").strip(" ")
    quoted = key[0] in "\"'"
    if not quoted and NO_TEXT.fullmatch(key):
        raise _error(number, f"the name {key!r} is not text in YAML; put it in quotes")
    value = None if not rest or rest.startswith("#") else _value(number, rest)
    return Entry(len(line) - len(line.lstrip(" ")), key[1:-1] if quoted else key, value, number)


def _value(number: int, rest: str) -> str:
    for pattern in (DOUBLE, SINGLE):
        match = pattern.match(rest)
        if match:
            if not COMMENT.fullmatch(rest[match.end() :]):
                raise _error(number, "text after the closing quote")
            inner = match.group(1)
            return inner.replace("''", "'") if pattern is SINGLE else re.sub(r"\\(.)", r"\1", inner)
    match = PLAIN.match(rest)
    text = match.group(0).rstrip(" ") if match else ""
    if not match or not COMMENT.fullmatch(rest[len(text) :]) or NO_TEXT.fullmatch(text):
        raise _error(number, f"{rest[:60]!r} is not plain text; put it in double quotes")
    return text


def _tree(entries: List[Entry]) -> List[Tuple[Entry, List[Tuple[Entry, List[Entry]]]]]:
    """Kinds with their codes and these with their fields; the first entry of each level sets its indentation."""
    tree: List[Tuple[Entry, List[Tuple[Entry, List[Entry]]]]] = []
    depths = [0, 0, 0]
    for entry in entries:
        if entry.indent == 0:
            level = 0
        elif not tree:
            raise _error(entry.line, "expected no indentation here")
        elif not tree[-1][1] or entry.indent <= depths[1]:
            level = 1
        else:
            level = 2
        if level == 0:
            above = [kind.key for kind, _codes in tree]
        elif level == 1:
            above = [code.key for code, _fields in tree[-1][1]]
        else:
            above = [field.key for field in tree[-1][1][-1][1]]
        if above and entry.indent != depths[level]:
            raise _error(entry.line, f"{entry.indent} spaces where {depths[level]} were used before")
        if level < 2 and entry.value is not None:
            raise _error(entry.line, f"{entry.key!r} takes no value on its line")
        if entry.key in above:
            raise _error(entry.line, f"a second {entry.key!r}")
        depths[level] = entry.indent
        if level == 0:
            tree.append((entry, []))
        elif level == 1:
            tree[-1][1].append((entry, []))
        else:
            tree[-1][1][-1][1].append(entry)
    return tree


def _row(kind: str, code: Entry, fields: List[Entry]) -> Dict[str, Any]:
    if not CODE.fullmatch(code.key) or int(code.key) > HIGHEST[kind]:
        raise _error(code.line, f"{code.key!r} is not a valid {kind} code, 1 to {HIGHEST[kind]}")
    row = {"kind": kind, "code": int(code.key), "action": "", "remedy": "", "line": code.line}
    for field in fields:
        if field.key not in FIELDS:
            raise _error(field.line, f"{field.key!r} is not one of {', '.join(FIELDS)}")
        if not field.value:
            raise _error(field.line, f"{field.key} has no value")
        row[field.key] = field.value
        if field.key == "class" and field.value not in CLASSES:
            raise _error(field.line, f"class {field.value!r} is not one of {', '.join(CLASSES)}")
        if field.key == "remedy" and field.value not in REMEDIES:
            raise _error(field.line, f"remedy {field.value!r} is not one of {', '.join(REMEDIES)}")
    for name in NEEDED:
        if name not in row:
            raise _error(code.line, f"{kind} {code.key} has no {name}")
    if row["remedy"] and row["class"] != FAIL:
        raise _error(code.line, "a remedy is allowed only with class fail")
    return row


def without_effect(row: Dict[str, Any]) -> bool:
    """Whether the row asks for something that no override can do: a lost GPU stays a failure."""
    return bool(row["kind"] == "xid" and row["code"] == GPU_LOST and row["class"] != FAIL)
