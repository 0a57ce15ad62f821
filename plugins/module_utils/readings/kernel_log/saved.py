# SPDX-License-Identifier: Apache-2.0
"""A saved text, in which a kernel's log may be: its messages, and what is left.

Only a line that begins at column 0 is a message of its own, or at the margin of a text that is indented as a whole.
journalctl and dmesg indent the further lines of a message, and these lines may hold anything that a user chose, also
what looks like another message.
"""

import re
from typing import List, NamedTuple, Optional, Tuple, Union

from .lines import Mark, Reader, mark, picked
from .records import KERNEL, OTHER, Line
from .wrappers import without_verbose

COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
QUOTES = re.compile(r"(?:> ?)+")
# cat -n, nl and less -N write a number and a tab before each line of a file.
NUMBERED = re.compile(r" *([0-9]+)\t")
# NVIDIA's driver writes its name before each line of a message.
DRIVER = "NVRM: "
OWN_MESSAGE = re.compile(r"NVRM: Xid\b")
# The further lines of a message without times go on in a sentence.
GOES_ON = re.compile(r"NVRM: [a-z(]")
# printk writes 1 KiB at most; anything longer is not a kernel message.
LONGEST_MESSAGE = 2048
# A page or a mail indents a log by some blanks; journalctl and dmesg indent by the width of what stands before it.
WIDEST_MARGIN = 12

Row = Tuple[str, Union[Line, Mark, None]]


class Saved(NamedTuple):
    """What is in a text.

    lines   messages of the kernel and journald, and journalctl's marks, in their order
    others  number of lines that programs wrote, in the form of a log
    rest    lines in no form of a log, without blank ones; None where a log is between them
    """

    lines: List[Union[Line, Mark]]
    others: int
    rest: List[Optional[str]]

    def messages(self) -> int:
        """How many messages of the kernel there are."""
        return sum(1 for line in self.lines if isinstance(line, Line) and line.speaker == KERNEL)


class _Text(object):
    """Collects while the rows come in. A run is what is between two lines at column 0 that are in no form of a log."""

    def __init__(self, bare: bool) -> None:
        self.reader = Reader()
        self.bare = bare
        self.lines: List[Union[Line, Mark]] = []
        self.rest: List[Optional[str]] = []
        self.others = 0
        self.run: List[Row] = []
        self.run_begins_at_0 = False
        # The last line of the run that is in the form of a log.
        self.last: Union[Line, Mark, None] = None
        self.pending: Optional[Line] = None

    def row(self, text: str) -> None:
        if text[:1] in ("", " ", "\t"):
            self.run.append((text, None))
            return
        found = mark(text) or self.reader.read(text)
        if found is None and self.bare:
            found = picked(text)
            if found is None and not GOES_ON.match(text):
                self.last = None
        if found is None and not (text.startswith(DRIVER) and not OWN_MESSAGE.match(text) and self._follows()):
            self.end_run()
            self.rest.append(text)
            return
        self.run_begins_at_0 = True
        self.last = found or self.last
        self.run.append((text, found))

    def _follows(self) -> bool:
        """Whether the last row at column 0 is a message of the driver."""
        return isinstance(self.last, Line) and self.last.text.startswith(DRIVER)

    def end_run(self) -> None:
        run, self.run, self.last = self.run, [], None
        margin = 0 if self.run_begins_at_0 else self._margin(run)
        self.run_begins_at_0 = blank = False
        for text, found in run:
            if not text:
                blank = True
                continue
            indent = len(text) - len(text.lstrip())
            if blank and 0 < indent <= WIDEST_MARGIN and indent > (margin or 0):
                # Another text begins here; the further lines of a message are indented by more.
                self._flush()
            blank = False
            if indent and indent == margin:
                body = text.strip()
                found = mark(body) or self.reader.read(body) or (picked(body) if self.bare else None)
            if found is not None:
                self._message(found)
            elif self.pending is not None and (indent > (margin or 0) or text.startswith(DRIVER)):
                self._continue(text.strip())
            else:
                self.rest.append(text)
        self._flush()

    def _margin(self, run: List[Row]) -> Optional[int]:
        """By how much a run is indented in which nothing begins at column 0; None if nothing in it is a log's."""
        found = None
        for text, _found in run:
            body = text.lstrip()
            indent = len(text) - len(body)
            if (
                body
                and indent <= WIDEST_MARGIN
                and (found is None or indent < found)
                and self.reader.read(body) is not None
            ):
                found = indent
        return found

    def _message(self, line: Union[Line, Mark]) -> None:
        self._flush()
        if self.rest and self.rest[-1] is not None:
            self.rest.append(None)
        if isinstance(line, Mark):
            self.lines.append(line)
            return
        self.others += line.speaker == OTHER
        self.pending = line

    def _continue(self, text: str) -> None:
        line = self.pending
        if line is not None and len(line.text) < LONGEST_MESSAGE:
            self.pending = line._replace(text=f"{line.text}\n{text}")

    def _flush(self) -> None:
        if self.pending is not None and self.pending.speaker != OTHER:
            self.lines.append(self.pending)
        self.pending = None


def _without_numbers(text: str) -> str:
    """The text without the number of each line; unchanged if one has none, or another than the next."""
    rows = text.rstrip("\n").split("\n")
    found = [NUMBERED.match(row) for row in rows]
    ends = [number.end() for number in found if number is not None]
    counted = [int(number.group(1)) for number in found if number is not None]
    if len(counted) != len(rows) or counted != list(range(counted[0], counted[0] + len(rows))):
        return text
    return "\n".join(row[ends[at] :] for at, row in enumerate(rows))


def read_saved(text: str, bare: bool = False) -> Saved:
    """The messages of the kernel and of journald in `text`, in the order in which they stand there.

    bare  the driver's lines without any time count, too, as people pick and paste them
    """
    found = _Text(bare)
    # Not splitlines(): other characters that end a line may stand in a message.
    for raw in _without_numbers(without_verbose(text)).split("\n"):
        row = COLOUR.sub("", raw) if "\x1b" in raw else raw
        if row[:1] == ">":
            row = QUOTES.sub("", row, 1)
        row = row.rstrip()
        found.row(row)
    found.end_run()
    return Saved(found.lines, found.others, found.rest)
