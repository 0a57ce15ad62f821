# SPDX-License-Identifier: Apache-2.0
"""Machine checks and memory errors, which are groups of lines; each is judged once: corrected or not.

Firmware (APEI, lines marked {n}), the machine check handlers of Intel and AMD and the EDAC drivers write several lines
about one event, and words such as "error" or "Uncorrected" also appear in the details of corrected ones. What decides
is the line that carries the severity: "event severity:", AMD's first line and its STATUS[...|CE|...] flags, bit 61 (UC)
of Intel's status word, "n CE" or "n UE" of EDAC.

Sources: drivers/firmware/efi/cper.c, drivers/acpi/apei, arch/x86/kernel/cpu/mce/core.c, drivers/edac/mce_amd.c,
drivers/edac/edac_mc.c, skx_common.c; bit 61: Intel SDM volume 3B, 16.3.2.2; AMD APM volume 2, 9.3.2.
"""

import re
from typing import Any, Callable, Dict, Optional, Tuple

from ...host.patterns import lazily

UNCORRECTED = "hardware"
CORRECTED = "hardware_corrected"
UNDECIDED = "hardware_undecided"
# Records that firmware kept from the previous boot: they show why that one ended, and say nothing about this one.
BEFORE = "hardware_before"
HARMLESS = ""
WORST_FIRST = (UNCORRECTED, CORRECTED, HARMLESS)

LINE = lazily(r"(?:\w+: )?(?:\{([0-9]+)\})?\[Hardware Error\]: *(.*)", re.S)
EDAC = lazily(r"EDAC ([A-Za-z0-9_-]+(?: [A-Za-z0-9_-]+)?): *(.*)", re.S)
PREVIOUS_BOOT = "BERT: Error records from previous boot"
SEVERITY = {
    "fatal": UNCORRECTED,
    "panic": UNCORRECTED,
    "recoverable": UNCORRECTED,
    "corrected": CORRECTED,
    "info": HARMLESS,
    "informational": HARMLESS,
}
FIRMWARE = lazily(r"(?:event severity|Error [0-9]+, type|section: [0-9]+, severity): *(\w+)")
FIRST_LINES = (
    (lazily(r"Corrected error, no action required"), CORRECTED),
    (lazily(r"(?:System )?[Ff]atal error|Uncorrected,|Deferred error|Uncorrected error"), UNCORRECTED),
    (lazily(r"It has been corrected by h/w"), CORRECTED),
    (lazily(r"Machine check: |Fatal machine check|Fatal Machine check|Some CPUs didn't answer"), UNCORRECTED),
)
HEADS = lazily(
    r"Hardware error from APEI|Machine check events logged|CPU ?[0-9]+: Machine Check|HANDLING (?:MCE|IBECC) MEMORY"
)
FLAGS = lazily(r"STATUS\[([^\]]*)\]")
STATUS = lazily(r"Machine Check(?: Event| Exception)?: *\S+ Bank [0-9]+: *(?:0x)?([0-9a-fA-F]{9,16})\b")
UNCORRECTED_BIT = 1 << 61
COUNTED = lazily(r"([0-9]+) (CE|UE)\b|(CE|UE)(?::| (?:page|row|-|error|on ))")
WEAK = (
    (lazily(r"\b[Uu]ncorrect(?:ed|able)\b|\b[Ff]atal\b"), UNCORRECTED),
    (lazily(r"\b[Cc]orrect(?:ed|able)\b"), CORRECTED),
)
# The lines of one event come together.
GROUP_SECONDS = 2

Emit = Callable[[str, int, str, int], None]


class Record(object):
    """One event while its lines come in."""

    def __init__(self, second: int, text: str, before: bool) -> None:
        self.begin = self.last = second
        self.text = text
        self.kind: Optional[str] = None
        self.weak = True
        self.count = 1
        self.before = before

    def add(self, second: int, text: str, kind: Optional[str], weak: bool) -> None:
        self.last = second
        if kind is None or (weak and not self.weak):
            return
        if self.kind is None or (self.weak and not weak) or WORST_FIRST.index(kind) < WORST_FIRST.index(self.kind):
            self.kind, self.text = kind, text
        self.weak = self.weak and weak


class HardwareRecords(object):
    """Feed it every message in order, then `finish`; `emit(kind, second, text, count)` gets each event once."""

    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self.open: Dict[str, Record] = {}
        self.previous_boot = False

    def state(self) -> Dict[str, Any]:
        return {"open": {tag: vars(record) for tag, record in self.open.items()}, "previous_boot": self.previous_boot}

    def restore(self, state: Dict[str, Any]) -> None:
        for tag, kept in state["open"].items():
            record = self.open[tag] = Record(kept["begin"], kept["text"], kept["before"])
            record.last, record.kind, record.weak, record.count = (
                kept[name] for name in ("last", "kind", "weak", "count")
            )
        self.previous_boot = state["previous_boot"] is True

    def feed(self, second: int, message: str) -> bool:
        """True if the line belongs to such a group."""
        if message.startswith(PREVIOUS_BOOT):
            self.previous_boot = True
            return True
        match = LINE.match(message)
        if match:
            self._hardware(second, match.group(1) or "", match.group(2), message)
            return True
        self.previous_boot = False
        match = EDAC.match(message)
        return match is not None and self._memory(second, match.group(2), message)

    def finish(self) -> None:
        for tag in list(self.open):
            self._close(tag)

    def _hardware(self, second: int, tag: str, words: str, message: str) -> None:
        kind, weak, head = _decide(words)
        record = self.open.get(tag)
        over = record is not None and not tag and second - record.last > GROUP_SECONDS
        # A first line opens a new event, unless only "events logged" comes before it.
        if record is None or over or (head and not tag and record.kind is not None):
            self._close(tag)
            if len(self.open) > 16:
                self._close(next(iter(self.open)))
            record = self.open[tag] = Record(second, message, self.previous_boot)
        record.add(second, message, kind, weak)

    def _memory(self, second: int, words: str, message: str) -> bool:
        counted = COUNTED.match(words)
        if counted:
            kind = UNCORRECTED if "UE" in (counted.group(2), counted.group(3)) else CORRECTED
            record = self.open.get("")
            if record is None or second - record.last > GROUP_SECONDS:
                self._close("")
                record = self.open[""] = Record(second, message, False)
            record.add(second, message, kind, False)
            record.count = max(1, int(counted.group(1) or 1))
            self._close("")
            return True
        if HEADS.match(words) or STATUS.search(words):
            self._hardware(second, "", words, message)
            return True
        return False

    def _close(self, tag: str) -> None:
        record = self.open.pop(tag, None)
        if record is None or record.kind == HARMLESS:
            return
        kind = record.kind or UNDECIDED
        self.emit(BEFORE if record.before else kind, record.begin, record.text, record.count)


def _decide(words: str) -> Tuple[Optional[str], bool, bool]:
    """(kind or None, whether that is only a guess from words, whether an event begins here) for one line."""
    head = bool(HEADS.match(words))
    found = FIRMWARE.match(words)
    if found:
        return SEVERITY.get(found.group(1).lower(), UNCORRECTED), False, False
    found = STATUS.search(words)
    if found:
        uncorrected = int(found.group(1), 16) & UNCORRECTED_BIT or "Exception" in words
        return UNCORRECTED if uncorrected else CORRECTED, False, head
    found = FLAGS.search(words)
    if found:
        flags = found.group(1).split("|")
        if "UE" in flags or "Deferred" in flags or "UC" in flags:
            return UNCORRECTED, False, False
        return (CORRECTED if "CE" in flags else None), False, False
    for pattern, kind in FIRST_LINES:
        if pattern.match(words):
            return kind, False, True
    for pattern, kind in WEAK:
        if pattern.search(words):
            return kind, True, head
    return None, True, head
