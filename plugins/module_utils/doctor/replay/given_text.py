# SPDX-License-Identifier: Apache-2.0
"""The text of a file that was given, as its program wrote it.

pdsh, srun -l, kubectl logs, docker compose, grep -n, a list of Ansible and others write something in front of each line
of an answer of nvidia-smi: a host, a container, a time, a number; of several hosts, line by line in turn. The answer of
each is found by what stands before its first line.
"""

import codecs
import json
import re
from typing import List, NamedTuple, Optional, Pattern

# An answer's first line; of the table, the second. What stands before it is a line's beginning.
STARTS = re.compile(
    r"^(?P<before>[^\n]{0,200}?)(?:(?<!=)=+NVSMI LOG=+|<\?xml version=[^\n>]{0,80}>|\| NVIDIA-SMI [0-9][^\n|]{0,200}\|)"
    r"(?P<behind>[^\n]{0,20})$",
    re.M,
)
# A program's line in a log, whose words anybody may choose; a value of nvidia-smi's own answer, which may be a name.
OF_OTHERS = re.compile(r"\S\[[0-9]+\]: | : |<|NVIDIA-SMI")
# What differs from line to line: a time.
TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?|[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?"
)
NUMBER = re.compile(r" *[0-9]+(?=[:\t])")
LEAST_LINES = 8


def decoded(data: bytes) -> Optional[str]:
    """The text, None for a binary file. Windows shells save UTF-16; after a crash, a log has blocks of null bytes."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    head = data[:8192]
    if b"\0" in head[:4]:
        wide = "utf-16-be" if head[:1] == b"\0" else "utf-16-le"
        half = head[1::2] if wide == "utf-16-be" else head[::2]
        if head.count(b"\0") * 2 >= len(head) - 2 and b"\0" not in half:
            return data.decode(wide, "replace")
    plain = data.replace(b"\0", b"")
    if not plain or not _is_text(plain[:8192]):
        return None
    # Pages and mails put a blank that does not break in place of one.
    text = plain.decode("utf-8-sig", "replace").replace("\u00a0", " ")
    # Old systems, and consoles that were saved, end a line otherwise.
    return text if "\n" in text.strip() else text.replace("\r", "\n")


def _is_text(head: bytes) -> bool:
    """Whether there is hardly any control character that no text has."""
    control = sum(1 for byte in head if byte < 32 and byte not in b"\t\n\r\x0c\x1b\x08")
    return control * 100 <= len(head)


class Found(NamedTuple):
    """The answers' texts, and the lines that belong to none of them."""

    texts: List[str]
    rest: str


def untangled(text: str) -> Optional[Found]:
    """None for a text in which no answer has such beginnings."""
    patterns: List[Pattern[str]] = []
    for match in STARTS.finditer(text):
        before = match.group("before")
        if not before.strip() or OF_OTHERS.search(before):
            continue
        pattern = _pattern(before, match.group("behind").strip(), text[match.end() + 1 :].partition("\n")[0])
        if pattern not in patterns:
            patterns.append(pattern)
    lines_of_text = text.split("\n")
    patterns = [one for one in patterns if sum(1 for line in lines_of_text if one.match(line)) >= LEAST_LINES]
    if not patterns:
        return None
    texts: List[List[str]] = [[] for _pattern in patterns]
    rest: List[str] = []
    for line in lines_of_text:
        for at, pattern in enumerate(patterns):
            match_of_line = pattern.match(line)
            if match_of_line:
                texts[at].append(_plain(match_of_line.group(1) or "", line))
                break
        else:
            rest.append(line)
    return Found(["\n".join(lines) + "\n" for lines in texts], "\n".join(rest))


def _pattern(before: str, behind: str, following: str) -> Pattern[str]:
    """What a line of this answer looks like; its own text is the group."""
    number = None if following.startswith(before.rstrip()) else NUMBER.match(before)
    head = r" *[0-9]+" if number else ""
    rest = before[number.end() :] if number else before
    words = rest.rstrip(" ")
    at = 0
    for time in TIME.finditer(words):
        head += re.escape(words[at : time.start()]) + r"[0-9:.,T -]+"
        at = time.end()
    head += re.escape(words[at:])
    blanks = len(rest) - len(words)
    tail = "(?: *" + re.escape(behind) + ")?" if behind else ""
    return re.compile(head + (r"(?: {%d}(.*?))?" % blanks if blanks else "(.*?)") + tail + r"\s*$")


def _plain(text: str, line: str) -> str:
    """The text, of a string in JSON what it stands for."""
    if not line.lstrip().startswith('"'):
        return text
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text
