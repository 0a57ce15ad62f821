# SPDX-License-Identifier: Apache-2.0
"""The text of a file that was given, as its program wrote it.

pdsh, srun -l, kubectl logs, docker compose, grep -n, a list of Ansible and others write something in front of each line
of an answer of nvidia-smi: a host, a container, a time, a number; of several hosts, line by line in turn. The answer of
each is found by what stands before its first line.
"""

import codecs
import json
import re
from collections import Counter
from typing import Dict, List, NamedTuple, Optional, Tuple

# An answer's first line; of the table, the second. What stands before it is a line's beginning.
STARTS = re.compile(
    r"^(?P<before>[^\n]{0,200}?)(?:(?<!=)=+NVSMI LOG=+|<\?xml version=[^\n>]{0,80}>|\| NVIDIA-SMI [0-9][^\n|]{0,200}\|)"
    r"(?P<behind>[^\n]{0,20})$",
    re.M,
)
# A program's line in a log, whose words anybody may choose; a value of nvidia-smi's own answer, which may be a name.
OF_OTHERS = re.compile(r"\S\[[0-9]+\]: | : |<|NVIDIA-SMI")
# What differs from line to line: a time, perhaps with its date, or the seconds since 1970.
TIME = re.compile(
    r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]|[A-Z][a-z]{2} [ 0-9][0-9] )?[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?![0-9:])"
    r"|(?<![0-9.])1[0-9]{9}(?:\.[0-9]+)?(?![0-9])"
)
NUMBER = re.compile(r" *[0-9]+(?=[:\t])")
# In place of each time, where beginnings are compared; so much of a line has one.
SOME_TIME = "\0"
MOST_BEFORE = 400
LEAST_LINES = 8
# Answers whose lines have the same words before them differ by a blank or two, no more; a line is compared with each.
MOST_BLANKS = 4


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


class Beginning(NamedTuple):
    """What stands before each line of an answer, and perhaps behind it.

    numbered  a number comes first       words   with SOME_TIME in place of each time
    blanks    so many come before a line's own text       behind  "" if nothing comes behind it
    """

    numbered: bool
    words: str
    blanks: int
    behind: str

    def own_text(self, rest: str) -> Optional[str]:
        """The answer's own part of what comes behind the words; None if the line is not one of this answer."""
        rest = rest.rstrip()
        if self.behind and rest.endswith(self.behind):
            rest = rest[: -len(self.behind)].rstrip(" ")
        if not rest.startswith(" " * self.blanks):
            return None if rest else ""
        return rest[self.blanks :]


def untangled(text: str) -> Optional[Found]:
    """None for a text in which no answer has such beginnings."""
    known: Dict[Tuple[bool, str], Dict[int, int]] = {}
    begun: List[Beginning] = []
    for match in STARTS.finditer(text):
        before = match.group("before")
        if not before.strip() or OF_OTHERS.search(before):
            continue
        following = text[match.end() + 1 : match.end() + 1 + MOST_BEFORE].partition("\n")[0]
        one = _beginning(before, match.group("behind").strip(), following)
        # Of two that differ in what comes behind a line, the first takes the lines of both.
        same = known.setdefault((one.numbered, one.words), {})
        if one.blanks not in same and len(same) < MOST_BLANKS:
            same[one.blanks] = len(begun)
            begun.append(one)
    lines = text.split("\n")
    lengths = {kind: sorted({len(words) for numbered, words in known if numbered == kind}) for kind in (False, True)}
    parts = [_parts_of(line, known, lengths, begun) for line in lines] if begun else []
    counts = Counter(at for found in parts for at, _own in found)
    texts: Dict[int, List[str]] = {at: [] for at in range(len(begun)) if counts[at] >= LEAST_LINES}
    rest: List[str] = []
    for number, found in enumerate(parts):
        line = lines[number]
        at, own = next((part for part in found if part[0] in texts), (-1, ""))
        if at < 0:
            rest.append(line)
        else:
            texts[at].append(_plain(own, line))
    return Found(["\n".join(texts[at]) + "\n" for at in texts], "\n".join(rest)) if texts else None


def _parts_of(
    line: str, known: Dict[Tuple[bool, str], Dict[int, int]], lengths: Dict[bool, List[int]], begun: List[Beginning]
) -> List[Tuple[int, str]]:
    """(place of a beginning, the line's own text) for all that the line has, the first of the text first."""
    found = []
    number = NUMBER.match(line) if lengths[True] else None
    for numbered, start in ((False, 0), (True, number.end() if number else -1)):
        if start < 0 or not lengths[numbered]:
            continue
        head, ends = _masked(line[start : start + MOST_BEFORE])
        for length in lengths[numbered]:
            for at in known.get((numbered, head[:length]), {}).values() if length <= len(head) else ():
                own = begun[at].own_text(line[start + ends[length] :])
                if own is not None:
                    found.append((at, own))
    return sorted(found)


def _masked(text: str) -> Tuple[str, List[int]]:
    """The text with SOME_TIME in place of each time, and for each of its lengths where that ends in the text."""
    head, ends, at = "", [0], 0
    for time in TIME.finditer(text):
        head += text[at : time.start()] + SOME_TIME
        ends += [*range(at + 1, time.start() + 1), time.end()]
        at = time.end()
    return head + text[at:], ends + list(range(at + 1, len(text) + 1))


def _beginning(before: str, behind: str, following: str) -> Beginning:
    number = None if following.startswith(before.rstrip()) or TIME.match(before) else NUMBER.match(before)
    rest = before[number.end() :] if number else before
    words = rest.rstrip(" ")
    return Beginning(bool(number), _masked(words)[0], len(rest) - len(words), behind)


def _plain(text: str, line: str) -> str:
    """The text, of a string in JSON what it stands for."""
    if not line.lstrip().startswith('"'):
        return text
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text
