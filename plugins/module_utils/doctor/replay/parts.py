# SPDX-License-Identifier: Apache-2.0
"""The parts of a text: answers of nvidia-smi, a kernel's log, outputs that are known and not judged, and what is left.

A capture may hold all of them, in any order. Each line is in one part, so that no verdict is about less than was given
without saying so.
"""

import re
from typing import Callable, List, NamedTuple, Optional, Tuple, Union

from ...gpu.nvidia_smi import other_forms, table_form
from ...gpu.nvidia_smi.other_forms import Form
from ...readings.kernel_log.boots import Machine, machines
from ...readings.kernel_log.saved import Saved, read_saved
from . import bug_report

XML_BEGIN, XML_END = "<nvidia_smi_log", "</nvidia_smi_log>"
# A fleet in one file; each is judged by itself.
MOST_ANSWERS = 1000
# What stands this near behind an answer may belong to it.
NEAR = 2000
# Between two parts, so that no part goes on in the next.
APART = "\n```\n"
PROLOG = re.compile(r"(?:\s*<\?xml[^>]*\?>|\s*<!DOCTYPE nvidia_smi_log[^>]*>)*\s*$")
# nvidia-smi's XML is indented but for its first and last lines.
FOREIGN = re.compile(r"^[^<>\s].*$", re.M)
WARNING = re.compile(r"\s*warning\b", re.IGNORECASE)
# How nvidia-smi begins if it prints a sentence instead of an answer, and how such a sentence goes on.
SENTENCE = re.compile(
    r"\s*(?:NVIDIA-SMI has failed|NVIDIA-SMI couldn't|Failed to initialize NVML|No devices (?:were )?found|"
    r"Unable to determine the device handle|GPU is lost|Insufficient Permissions)"
)
SENTENCE_GOES_ON = re.compile(r"\s*(?:NVML library version|Make sure |Also make sure|Reboot the system|running\.)")
# Outputs that tell of a card's health, and that are not judged: (name, how one begins).
KNOWN = [
    (name, re.compile(pattern))
    for name, pattern in (
        (
            "CSV of nvidia-smi without its first line, so that nobody can tell what its columns are",
            r"(?:[0-9]+, )?(?:GPU-[0-9a-f-]{36}|[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])(?:,|$)",
        ),
        (
            "nvidia-smi nvlink",
            r"\s*Link [0-9]+: (?:<inactive>|[0-9.]+ GB/s|(?:Replay|Recovery|CRC|ECC|Error|Effective)\b)",
        ),
        (
            "nvidia-smi -q without its beginning, so that nobody can tell of which card it is",
            r"\s*(?:Remapping Failure Occurred|Pending Page Blacklist|Channel Repair Pending|TPC Repair Pending"
            r"|Unrepairable Memory|GPU Recovery Action|Performance State|[SD]RAM Uncorrectable(?: [\w-]+)?) +:",
        ),
        ("nvidia-smi dmon", r"#\s?gpu +(?:pwr|pid|sm|temp|idx)\b"),
        ("dcgmi", r"\s*(?:Successfully ran diagnostic|\| Health Monitor Report|Health Monitor Report|\| Diagnostic )"),
        ("a warning of nvidia-smi", r"(?i)\s*warning: .*(?:inforom|gpu|power)"),
        ("the server's event log", r" *[0-9a-f]{1,4} \| [0-9]{2}/[0-9]{2}/[0-9]{2,4} \| [0-9:]{8}"),
    )
]
# The driver's own words in a form of a log that is not known.
DRIVERS_WORDS = re.compile(r"\bNVRM: |\bS?Xid \((?:PCI|[0-9a-fA-F]{4,8}:)")
UNKNOWN_FORM = "lines that quote the driver's messages, in no form of a log that is known"
# Prompts with what was typed, fences and rulers, times and other lines that say nothing of a machine.
NOISE = re.compile(
    r"\s*(?:(?:\[?[\w.-]+@[\w.-]+[^\]$#%]*\]? ?)?[$#%](?: .*)?|```.*|~~~.*|[-=_+*~| .:]+|-- .*--|\+ .*|</?[a-z]+[^>]*>"
    r"|\w{3},? \w{3} +[0-9]{1,2} [0-9:]{8} (?:[AP]M )?(?:[A-Z]{3,5} )?[0-9]{4}|Script (?:started|done)\b.*)$"
)
# With a smaller share of lines of a log, it is a text that quotes one.
LEAST_SHARE = 0.2
LEAST_LINES = 50
SHOWN = 100
LONGEST_LINE = 512
# All columns of --query-gpu are some 9,000 characters.
LONGEST_ROW = 65536


class Parts(NamedTuple):
    """What is in a text.

    answers   nvidia-smi's, each with the warnings beside it
    forms     nvidia-smi's answers that are no XML: (name of the form, what is in it, or why it cannot be read)
    sentences what nvidia-smi said instead of an answer
    machines  of the kernel's log
    of        number of all lines of the log's form, and of those in no part
    known     outputs that are known and not judged, with their number of lines
    rest      what is to be said of the lines in no known form
    quoted    number of the kernel's lines in a text that only quotes them
    """

    answers: List[str]
    forms: List[Tuple[str, Union[Form, str]]]
    sentences: List[str]
    machines: List[Machine]
    of: int
    known: List[str]
    rest: List[str]
    quoted: int


def parts_of(text: str) -> Parts:
    """Every part of the text."""
    answers, more, inside, left = _answers(text)
    saved = read_saved(left, bare=True)
    forms, others = _forms(saved.rest)
    sentences, known, rest = _sorted(others)
    rest += inside
    if more:
        known.append(f"{more} more answers of nvidia-smi, after the first {MOST_ANSWERS}")
    number = saved.messages()
    of = number + saved.others + len(rest)
    is_log = bool(number) and (
        number >= LEAST_LINES
        or number + saved.others >= LEAST_SHARE * of
        or bool(answers or forms or sentences or known)
    )
    found = machines(saved.lines) if is_log else []
    if answers or forms or sentences or found:
        quoting = [line for line in rest if DRIVERS_WORDS.search(line)]
        if quoting:
            known.append(f"{_lines(quoting)}: {UNKNOWN_FORM}")
            rest = [line for line in rest if not DRIVERS_WORDS.search(line)]
    said = bug_report.words(text, _is_judged) if bug_report.is_report(text) else _rest_words(saved, rest, is_log)
    return Parts(answers, forms, sentences, found, of, known, said, 0 if is_log else number)


def _is_judged(text: str) -> bool:
    """Whether there is an answer of nvidia-smi or a message of the kernel in the text."""
    saved = read_saved(text)
    return XML_BEGIN in text or bool(saved.messages()) or bool(_forms(saved.rest)[0])


def _answers(text: str) -> Tuple[List[str], int, List[str], str]:
    """(answers, number of those beyond the limit, lines inside them that are not XML, the text without all of them).

    An answer has the lines next to it that warn of something. What stands inside one may be the name of a
    process, which a user chose: it is no line of a log.
    """
    starts = [match.start() for match in re.finditer(XML_BEGIN, text)]
    found: List[str] = []
    inside: List[str] = []
    left: List[str] = []
    at = 0
    for index, start in enumerate(starts):
        limit = starts[index + 1] if index + 1 < len(starts) else len(text)
        end = text.find(XML_END, start, limit)
        foreign = FOREIGN.search(text, start + 1, limit) if end < 0 else None
        stop = end + len(XML_END) if end >= 0 else foreign.start() if foreign else limit
        before, kept = _warnings(PROLOG.sub("", text[at:start]), last=True) if not found else ("", text[at:start])
        left.append(PROLOG.sub("", kept))
        inside += FOREIGN.findall(text[start:stop].partition("\n")[2].rpartition("\n")[0])
        behind, at = "", stop
        if end >= 0:
            newline = text.find("\n", stop + NEAR, limit)
            near = text[stop : newline if newline >= 0 else limit]
            behind, kept = _warnings(near, last=False)
            if behind:
                left.append(kept)
                at = stop + len(near)
        if len(found) < MOST_ANSWERS:
            found.append(before + text[start:stop] + "\n" + behind)
    left.append(text[at:])
    return found, max(0, len(starts) - MOST_ANSWERS), inside, APART.join(left)


def _warnings(text: str, last: bool) -> Tuple[str, str]:
    """(the lines that warn of something among the first or the last ten, the text without them)."""
    lines = text.split("\n")
    near = range(max(0, len(lines) - 10), len(lines)) if last else range(min(10, len(lines)))
    taken = {index for index in near if WARNING.match(lines[index])}
    rest = "\n".join(line for index, line in enumerate(lines) if index not in taken)
    return "".join(lines[index] + "\n" for index in sorted(taken)), rest


TEXT_FORM, CSV_FORM, TABLE_FORM = "nvidia-smi -q", "nvidia-smi as CSV", "nvidia-smi's table"


def _forms(rest: List[Optional[str]]) -> Tuple[List[Tuple[str, Union[Form, str]]], List[Optional[str]]]:
    """(answers in other forms than XML, the other lines) of the lines that no log has."""
    found: List[Tuple[str, Union[Form, str]]] = []
    others: List[Optional[str]] = []
    at = 0
    while at < len(rest):
        line = rest[at]
        begun = _form_begins(line) if line is not None else None
        if begun is None:
            others.append(line)
            at += 1
            continue
        name, goes_on, parse = begun
        end = at + 1
        while end < len(rest):
            following = rest[end]
            if following is None or not goes_on(following[:LONGEST_ROW]):
                break
            end += 1
        if name == CSV_FORM and end == at + 1:
            # A list of words; a table has a line behind its head.
            others.append(line)
            at = end
            continue
        try:
            found.append((name, parse([line or "" for line in rest[at:end]])))
        except ValueError as error:
            found.append((name, str(error)))
        at = end
    return found[:MOST_ANSWERS], others


FormBegun = Tuple[str, Callable[[str], bool], Callable[[List[str]], Form]]


def _form_begins(line: str) -> Optional[FormBegun]:
    """(name, whether a line belongs to it, its reader) of the form that begins with this line."""
    if other_forms.is_text(line):
        return TEXT_FORM, other_forms.belongs_to_text, other_forms.parse_text
    if table_form.is_table(line):
        return TABLE_FORM, table_form.belongs_to_table, table_form.parse_table
    head = other_forms.csv_head(line[:LONGEST_ROW])
    if head:
        return CSV_FORM, lambda row: other_forms.belongs_to_csv(head, row), other_forms.parse_csv_answer
    return None


def _sorted(rest: List[Optional[str]]) -> Tuple[List[str], List[str], List[str]]:
    """(sentences of nvidia-smi, known outputs with their size, lines of neither) of the lines that no log has."""
    sentences: List[str] = []
    known: List[Tuple[str, List[str]]] = []
    left: List[str] = []
    block, said = False, False
    for line in rest:
        if line is None:
            block = said = False
            continue
        # A pattern must not search a whole page that has no line break.
        line = line[:LONGEST_LINE]
        name = next((name for name, pattern in KNOWN if pattern.match(line)), None)
        if SENTENCE.match(line):
            sentences.append(line + "\n")
            block, said = False, True
        elif said and SENTENCE_GOES_ON.match(line):
            sentences[-1] += line + "\n"
        elif name is not None:
            if not block or known[-1][0] != name:
                known.append((name, []))
            known[-1][1].append(line)
            block, said = True, False
        elif _is_prompt(line):
            block = said = False
        elif block:
            known[-1][1].append(line)
        elif not NOISE.match(line):
            left.append(line)
    return sentences, [f"{_lines(lines)}: {name}" for name, lines in known], left


def _is_prompt(line: str) -> bool:
    return line[:1] not in " \t-=_+*|" and NOISE.match(line) is not None


def _lines(lines: List[str]) -> str:
    return _number(len(lines))


def _number(number: int) -> str:
    return "1 line" if number == 1 else f"{number} lines"


def _rest_words(saved: Saved, rest: List[str], is_log: bool) -> List[str]:
    found = []
    if saved.others and is_log:
        found.append(f"{_number(saved.others)} of other programs than the kernel")
    if rest:
        found.append(f"{_lines(rest)} in no known form, the first: {rest[0].strip()[:SHOWN]}")
    return found
