# SPDX-License-Identifier: Apache-2.0
"""The machines and boots in a saved log, and which boot of each machine is judged: the newest by its dates.

A boot is left out only if it certainly ended before another one of the same machine began. Where that is not certain,
all are judged. A boot begins with the kernel's first words, at journalctl's mark, with another boot id, or where the
kernel's clock goes back; copies of one boot, from two programs that saved it, are one boot.
"""

import re
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple, Union

from . import dates
from .events import FIRST_WORDS, KernelEvents
from .lines import Mark
from .records import KERNEL, MICROSECONDS, Line

# On Arm this comes before the first words.
FIRST_WORDS_OF_ARM = re.compile(r"Booting Linux on physical CPU ")
# The processors' clocks differ, and lines of two of them may change places.
STEP_BACK = 2 * MICROSECONDS
# Two programs save a boot's first lines with the times at which they themselves started.
SAME_BOOT_SECONDS = 60
# More than a clock is corrected by while a machine runs.
BACK_SECONDS = 600
# Local times of one place and UTC are at most so far apart, with some room.
ANY_ZONE_SECONDS = 26 * 3600
MOST_BOOTS = 200
# A machine has such a name before its own is set.
NAMES_OF_NOBODY = ("localhost", "(none)", "linux", "ubuntu", "debian", "fedora", "rocky", "almalinux", "centos", "-")


class Machine(NamedTuple):
    """One machine's log.

    name      "" where the lines name none; is_one_of_several: the log has lines of others, too
    parsed    the events of the boots that are judged, as `log.parse_records` returns them
    begins    whether these boots are there from their beginning
    left_out  sentences about boots that are not judged; remarks: about those that are
    """

    name: str
    parsed: Dict[str, Any]
    begins: bool
    left_out: List[str]
    remarks: List[str]
    is_one_of_several: bool = False


class Boot(object):
    """Lines of one boot, as one program saved them."""

    def __init__(self, place: int, marked: bool) -> None:
        self.place = place
        # The log says that a boot began here, by journalctl's mark or by the kernel's first words.
        self.marked = marked
        self.begins = marked
        self.first_words = False
        # What makes it uncertain that this is one boot.
        self.doubts: List[str] = []
        self.lines: List[Line] = []
        self.clock: Optional[int] = None
        self.id = ""
        self.output = 0
        self.now: Dict[str, int] = {}
        self.first: Dict[str, int] = {}
        self.last: Dict[str, int] = {}
        self.moment: Dict[str, int] = {}
        # Two boots say the same in the first second, and never again in the same microsecond.
        self.late: Set[Tuple[int, str]] = set()

    def add(self, line: Line) -> None:
        self.lines.append(line)
        self.id = self.id or line.boot
        if line.clock is not None:
            self.clock = line.clock
            if line.clock >= MICROSECONDS and line.clock % MICROSECONDS:
                self.late.add((line.clock, line.text))
        if line.date is None:
            return
        scale = line.scale
        if line.clock is None and line.date + BACK_SECONDS < self.now.get(scale, line.date):
            self._doubt("the dates go back, so that lines of another boot may be among them: all are judged")
        self.now[scale] = line.date
        self.first[scale] = min(self.first.get(scale, line.date), line.date)
        self.last[scale] = max(self.last.get(scale, line.date), line.date)
        if line.clock is not None:
            # When the kernel's clock was 0; what a daemon read late only seems to be later.
            moment = line.date - line.clock // MICROSECONDS
            self.moment[scale] = min(self.moment.get(scale, moment), moment)
        elif self.first_words and scale not in self.moment:
            self.moment[scale] = line.date

    def begin(self) -> None:
        """The kernel's first words come next."""
        if self.first_words and not is_first(self.lines[-1]):
            self._doubt("the kernel's first words are there twice within a minute: taken for one boot")
        self.begins = self.first_words = True

    def _doubt(self, words: str) -> None:
        if words not in self.doubts:
            self.doubts.append(words)

    def is_next(self, line: Line) -> bool:
        """Whether another boot, or another copy of this one, begins with the line."""
        if line.boot and self.id:
            return line.boot != self.id
        if not self.lines:
            return False
        if line.clock is not None and self.clock is not None and line.clock + STEP_BACK < self.clock:
            return True
        if not is_first(line):
            return False
        before = self.lines[-1]
        if line.clock is not None:
            # Arm's own first words, or a second time the same ones.
            return (self.clock or 0) >= MICROSECONDS
        if line.date is None or self.first_words is False:
            return not is_first(before)
        begun = self.moment.get(line.scale)
        return begun is None or abs(line.date - begun) >= SAME_BOOT_SECONDS

    def same(self, other: "Boot") -> bool:
        """Whether both are copies of one boot."""
        if self.id and other.id:
            return self.id == other.id
        apart = [abs(self.moment[scale] - other.moment[scale]) for scale in self.moment if scale in other.moment]
        return min(apart) < SAME_BOOT_SECONDS if apart else bool(self.late & other.late)

    def is_over_before(self, other: "Boot") -> bool:
        """Whether this boot ended before the other one, which is certainly another boot, began."""
        if self.same(other):
            return False
        marked = other.marked and self.output == other.output and self.place < other.place
        others = {scale: date for scale, date in other.first.items() if scale != dates.NO_YEAR}
        gaps = [other.first[scale] - last for scale, last in self.last.items() if scale in other.first]
        if not gaps and others:
            gaps = [
                date - last - ANY_ZONE_SECONDS
                for date in others.values()
                for scale, last in self.last.items()
                if scale != dates.NO_YEAR
            ]
        if not gaps:
            # Of one output of journalctl, which is in the order of time.
            return marked and not self.last and not other.first
        known = bool(self.id and other.id) or any(scale in other.moment for scale in self.moment)
        return min(gaps) >= 0 and (known or (other.begins and (self.begins or self.place < other.place)))

    def words(self) -> str:
        """From when to when, and how much."""
        number = sum(1 for line in self.lines if line.speaker == KERNEL)
        for scale, first in self.first.items():
            begin, end = dates.words(first, scale), dates.words(self.last[scale], scale)
            return f"{begin} to {end}, {number} lines"
        return f"without dates, {number} lines"


def is_first(line: Line) -> bool:
    """Whether these are the kernel's first words in a boot."""
    if line.speaker != KERNEL or (line.clock or 0) >= MICROSECONDS:
        return False
    return FIRST_WORDS.match(line.text) is not None or FIRST_WORDS_OF_ARM.match(line.text) is not None


def machines(lines: List[Union[Line, Mark]]) -> List[Machine]:
    """What each machine in the log reports, in the order in which they appear."""
    named: Dict[str, List[Union[Line, Mark]]] = {}
    names = {_name(line) for line in lines if isinstance(line, Line)}
    only = next(iter(names - set(NAMES_OF_NOBODY) - {""}), None) if _one_name(names) else None
    for line in lines:
        if isinstance(line, Mark):
            for found in named.values():
                found.append(line)
            continue
        name = _name(line)
        named.setdefault(only if name and only else name, []).append(line)
    judged = [_judged(name, found) for name, found in named.items()]
    judged = [machine for machine in judged if machine.parsed["lines"] or machine.parsed["findings"]]
    return [machine._replace(is_one_of_several=len(judged) > 1) for machine in judged]


def joined(results: List[Dict[str, Any]]) -> Dict[str, Any]:
    """One reading from several logs, of machines or of boots, which were each judged by themselves."""
    found: Dict[str, Any] = {"lines": 0, "from_boot": True, "whole": True, "xids": [], "sxids": [], "findings": []}
    for result in results:
        found["lines"] += result["lines"]
        for name in ("from_boot", "whole"):
            found[name] = found[name] and result[name]
        for name in ("xids", "sxids", "findings"):
            found[name].extend(result[name])
    return found


def parse_saved(lines: List[Union[Line, Mark]]) -> Dict[str, Any]:
    """The events of all machines together, as `log.parse_records` returns them."""
    return joined([machine.parsed for machine in machines(lines)])


def _name(line: Line) -> str:
    name = line.host.lower()
    # A full name and its first part are one machine; the parts of an address are not.
    return name if name[:1].isdecimal() else name.partition(".")[0]


def _one_name(names: Set[str]) -> bool:
    return len(names - set(NAMES_OF_NOBODY) - {""}) == 1


def _judged(name: str, lines: List[Union[Line, Mark]]) -> Machine:
    boots = _boots(lines)
    # Two clocks in one text look like a boot for every line; then none is compared with all others.
    boots = boots if len(boots) > MOST_BOOTS else _one_of_each(boots)
    compared = [] if len(boots) > MOST_BOOTS else boots
    over = [boot for boot in boots if any(boot.is_over_before(other) for other in compared if other is not boot)]
    rest = [boot for boot in boots if boot not in over]
    apart = [
        boot for index, boot in enumerate(rest) if not compared or not any(boot.same(other) for other in rest[:index])
    ]
    remarks = [f"{len(apart)} boots whose order no date tells: all are judged"] if len(apart) > 1 else []
    remarks += [words for boot in rest for words in boot.doubts if words not in remarks]
    return Machine(
        name,
        joined([_events(boot) for boot in rest]),
        all(boot.first_words for boot in rest),
        [f"an earlier boot is not judged: {boot.words()}" for boot in over],
        remarks,
    )


def _boots(lines: List[Union[Line, Mark]]) -> List[Boot]:
    """The boots and copies of boots in the order of the text."""
    lines = _oldest_first(lines)
    found: List[Boot] = []
    marked, output = False, 0
    for line in lines:
        if isinstance(line, Mark):
            marked, output = line.boot, output + (0 if line.boot else 1)
            continue
        if not found or marked or found[-1].output != output or found[-1].is_next(line):
            found.append(Boot(len(found), marked))
            found[-1].output = output
        marked = False
        boot = found[-1]
        if is_first(line):
            boot.begin()
        boot.add(line)
    return found


def _oldest_first(lines: List[Union[Line, Mark]]) -> List[Union[Line, Mark]]:
    """journalctl -r writes the newest line first."""
    times: List[Tuple[int, str]] = []
    for line in lines:
        if isinstance(line, Line) and (line.clock is not None or line.date is not None):
            times.append((line.date or 0, "") if line.clock is None else (line.clock // MICROSECONDS, "clock"))
    pairs = [times[at][0] - times[at - 1][0] for at in range(1, len(times)) if times[at][1] == times[at - 1][1]]
    back, forth = sum(1 for pair in pairs if pair < 0), sum(1 for pair in pairs if pair > 0)
    return lines[::-1] if back > 1 and back > 2 * forth else lines


def _one_of_each(boots: List[Boot]) -> List[Boot]:
    """Copies of a boot that have the kernel's clock become one, in which no message is twice."""
    found: List[Boot] = []
    for boot in boots:
        twin = next((other for other in found if other.same(boot)), None)
        if twin is None or None in (twin.clock, boot.clock):
            found.append(boot)
            continue
        seen = {(line.clock, line.text) for line in twin.lines}
        lines = twin.lines + [line for line in boot.lines if (line.clock, line.text) not in seen]
        both = Boot(min(twin.place, boot.place), twin.marked or boot.marked)
        both.first_words, both.output = twin.first_words or boot.first_words, twin.output
        both.begins = twin.begins or boot.begins
        both.doubts = twin.doubts + boot.doubts
        for line in sorted(lines, key=lambda line: line.clock or 0):
            both.add(line)
        found[found.index(twin)] = both
    return found


def _events(boot: Boot) -> Dict[str, Any]:
    """Lines without any time keep their order: their number takes its place."""
    events = KernelEvents()
    begin = boot.lines[0].date
    for number, line in enumerate(boot.lines):
        if line.clock is not None:
            second = line.clock // MICROSECONDS
        else:
            second = number if line.date is None or begin is None else max(0, line.date - begin)
        events.feed(second, line.text, line.speaker)
    return events.result()
