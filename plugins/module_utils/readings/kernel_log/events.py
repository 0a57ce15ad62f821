# SPDX-License-Identifier: Apache-2.0
"""The events in a kernel's log, collected as its messages come in: how often, when, and what closed them.

An event is closed if the log itself shows that the action it required was done: the driver withdrew its request for a
recovery (Xid 154 to None), the card was reset, or the driver was reloaded. A lost GPU is never closed; it comes back
only after the node was off. Anything after that opens a new event.
"""

import collections
from typing import Any, Callable, Dict, Hashable, List, Optional, Sequence

from ...gpu.xid.policy import reload_repairs, variant, wanted_action
from ...gpu.xid.table import GPU_LOST, RECOVERY_ACTION_CHANGED
from ...host.patterns import lazily
from .hardware_records import HardwareRecords
from .places import address, place, printable
from .programs import begins_with_a_name
from .records import KERNEL
from .rows import HARMLESS, LOST
from .rows_start import BEGUN_AGAIN, RESET_ROWS
from .table import row_of

ADDRESS = r"\((?:PCI:)?((?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})(?:\.[0-7])?[^)]*\)"
XID = lazily(r"NVRM: Xid\b(?: *" + ADDRESS + r": *([0-9]{1,6})\b)?")
SXID = lazily(r"nvidia-nvswitch\S*: SXid\b(?: *" + ADDRESS + r": *([0-9]{1,6})\b)?")
# The second and third lines about one SXid.
SXID_DETAIL = lazily(r"nvidia-nvswitch\S*: SXid [^)]*\): *[0-9]+, *(?:Severity [0-9]+ |Data \{)")
LOAD_BEGINS = "nvidia-nvlink: Nvlink Core is being initialized"
LOADED = "NVRM: loading NVIDIA UNIX"
RESET_DONE = lazily(r"(?:nvidia|vfio-pci|pci) ([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})\.[0-7]: reset done")
# Messages that something works again: (kinds of findings that each closes, where its device is named, words).
WORKS_AGAIN = (
    (("nvme",), r"nvme (nvme[0-9]+): [0-9]+/[0-9]+/[0-9]+ default/read/poll queues", "the controller answered again"),
    (
        ("network",),
        r"mlx5_core ([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})\.[0-7][^:]*: (?:\w+:[0-9]+:\(pid [0-9]+\): )?"
        r"(?:health re[cv]overy succ|firmware version: )",
        "the adapter was started again",
    ),
    (
        ("remote_storage",),
        r"(?:nfs: server (\S+) OK|ceph: (mds[0-9]+) came back|Lustre: [^:]+: Connection restored to (\S+) )",
        "the server answered again",
    ),
)
WORKS = [(kinds, lazily(pattern), words) for kinds, pattern, words in WORKS_AGAIN]
# The driver breaks this sentence after the address, into two or three separate lines.
BROKEN_SENTENCE = lazily(
    r"NVRM: (?:(?:The NVIDIA GPU|GPU at) (?:PCI:)?[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}"
    r"|The NVIDIA .{1,80} installed in this system is$)"
)
FURTHER_LINES = 3
# The kernel's first words, in their whole form: a program's name is at most 15 bytes long, and other words follow it.
FIRST_WORDS = lazily(r"Linux version [0-9]+\.[0-9]+\S* \([^()@\s]*@[^()\s]*\)(?: \(|$)")
# Far above the number of codes times GPUs; a log with more different errors counts as not read to its end.
MOST_EVENTS = 1000
# A card that did not start is reported while the driver loads, some seconds before it says that it has loaded.
ONE_LOAD_SECONDS = 60

# What a reset of the card ends, of findings about one card.
RESET_ENDS = BEGUN_AGAIN | {row.name for row in RESET_ROWS} | {"iommu"}
# What a reload of the driver does besides starting again.
RELOAD_ENDS = {row.name for row in RESET_ROWS} | {"iommu"}

Event = Dict[str, Any]


class Table(object):
    """Events of one kind by their key, the open and the closed ones; each at most `MOST_EVENTS`."""

    def __init__(self) -> None:
        self.open: Dict[Hashable, Event] = collections.OrderedDict()
        self.closed: Dict[Hashable, Event] = collections.OrderedDict()
        self.whole = True

    def count(self, key: Hashable, fields: Event, second: int, number: int, text: str, times: int = 1) -> None:
        event = self.open.get(key)
        if event is None:
            if len(self.open) >= MOST_EVENTS:
                self.whole = False
                return
            event = self.open[key] = dict(fields, count=0, first_s=second, last_s=second, text="", closed_by="", _n=0)
        event["count"] += times
        event["last_s"] = second
        event["_n"] = number
        event["text"] = printable(text)

    def close(self, which: Callable[[Event], bool], words: str) -> None:
        for key in [key for key, event in self.open.items() if which(event)]:
            event = self.open.pop(key)
            earlier = self.closed.get(key)
            if earlier is not None:
                event["count"] += earlier["count"]
                event["first_s"] = earlier["first_s"]
            elif len(self.closed) >= MOST_EVENTS:
                self.whole = False
                continue
            event["closed_by"] = words
            self.closed[key] = event

    def state(self) -> List[Any]:
        parts = [[[key, event] for key, event in part.items()] for part in (self.open, self.closed)]
        return [*parts, self.whole]

    def restore(self, state: List[Any]) -> None:
        for part, kept in ((self.open, state[0]), (self.closed, state[1])):
            part.update((tuple(key), dict(event)) for key, event in kept)
        self.whole = state[2] is True

    def events(self) -> List[Event]:
        """Open events first, each in the format of the report."""
        found = list(self.open.values()) + list(self.closed.values())
        return [{name: value for name, value in event.items() if name != "_n"} for event in found]


# What a `KernelEvents` remembers from one message to the next.
TABLES = ("xids", "sxids", "findings")
OTHERS = ("lines", "from_boot", "early", "sentence", "further", "load_began")


class KernelEvents(object):
    """Feed it the messages of one boot in order, then call `result`."""

    def __init__(self) -> None:
        self.xids = Table()
        self.sxids = Table()
        self.findings = Table()
        self.hardware = HardwareRecords(self._hardware)
        self.lines = 0
        self.from_boot = False
        # Only what is written within the boot's first second can be the kernel's first words.
        self.early = True
        self.sentence = ""
        self.further = 0
        self.load_began: Optional[int] = None

    def state(self) -> Dict[str, Any]:
        """All that the next messages depend on, for `of_state`."""
        return {
            "tables": {name: getattr(self, name).state() for name in TABLES},
            "hardware": self.hardware.state(),
            "others": {name: getattr(self, name) for name in OTHERS},
        }

    @classmethod
    def of_state(cls, state: Dict[str, Any]) -> "KernelEvents":
        """As it was when `state` was called; ValueError, KeyError or TypeError for anything else."""
        found = cls()
        for name in TABLES:
            getattr(found, name).restore(state["tables"][name])
        found.hardware.restore(state["hardware"])
        for name in OTHERS:
            value = state["others"][name]
            if value is not None and not isinstance(value, type(getattr(found, name))) and name != "load_began":
                raise ValueError(f"{name} is {value!r}")
            setattr(found, name, value)
        return found

    def feed(self, second: int, text: str, speaker: str) -> None:
        """One message; `second` since the boot, `speaker` the kernel or journald."""
        message = _joined(text)
        if speaker != KERNEL:
            self._plain(second, message, only_lost=True)
            return
        self.lines += 1
        self.early = self.early and second == 0
        if begins_with_a_name(message):
            self._plain(second, message)
        elif message.startswith("NVRM: Xid"):
            self._xid(second, message)
        elif message.startswith("nvidia-nvswitch") and SXID.match(message):
            self._sxid(second, message)
        elif self.early and FIRST_WORDS.match(text):
            self.from_boot = True
        elif not (self._repaired(second, message) or self.hardware.feed(second, message)):
            self._nvrm_or_plain(second, message)

    def result(self) -> Dict[str, Any]:
        """See `log.parse_records`."""
        self.hardware.finish()
        return {
            "lines": self.lines,
            "from_boot": self.from_boot,
            "whole": self.xids.whole and self.sxids.whole and self.findings.whole,
            "xids": self.xids.events(),
            "sxids": self.sxids.events(),
            "findings": self.findings.events(),
        }

    def _xid(self, second: int, message: str) -> None:
        match = XID.match(message)
        if not match:
            return
        # 0 means a code that cannot be read; it is in no catalogue.
        code, card = int(match.group(2) or 0), address(match.group(1))
        kind = variant("xid", code, message)
        if code == RECOVERY_ACTION_CHANGED and wanted_action(message).lower() == "none":
            self._close_card(card, f"the driver no longer asks for a recovery of {card} at {second} s")
        self.xids.count((code, card, kind), {"code": code, "pci_id": card}, second, self.lines, message)

    def _sxid(self, second: int, message: str) -> None:
        match = SXID.match(message)
        if match is None:
            return
        code, card = int(match.group(2) or 0), address(match.group(1))
        if SXID_DETAIL.match(message) and any(
            (code, card, kind) in self.sxids.open for kind in ("fatal", "nonfatal", "")
        ):
            return
        kind = variant("sxid", code, message)
        self.sxids.count((code, card, kind), {"code": code, "pci_id": card}, second, self.lines, message)

    def _repaired(self, second: int, message: str) -> bool:
        """A line which says that something was done about earlier events."""
        if message.startswith(LOAD_BEGINS):
            self.load_began = self.lines
        elif message.startswith(LOADED):
            self._close_reloaded(second)
        else:
            match = RESET_DONE.match(message)
            if match:
                self._close_card(match.group(1), f"reset at {second} s")
                return True
            return self._works_again(second, message)
        return True

    def _works_again(self, second: int, message: str) -> bool:
        for kinds, pattern, words in WORKS:
            match = pattern.match(message)
            if match:
                name = next(group for group in match.groups() if group)
                self.findings.close(_stands_at(kinds, name), f"{words} at {second} s")
                return True
        return False

    def _close_card(self, card: str, words: str) -> None:
        self.xids.close(lambda event: event["pci_id"] == card and not _lost(event), words)
        self.findings.close(lambda event: event["pci_id"] == card and event["kind"] in RESET_ENDS, words)

    def _close_reloaded(self, second: int) -> None:
        began = self.load_began
        self.load_began = None
        number = self.lines if began is None else began
        words = f"the driver was reloaded at {second} s"
        self.xids.close(lambda e: e["_n"] < number and reload_repairs("xid", e["code"], e["text"]), words)
        self.sxids.close(lambda e: e["_n"] < number and reload_repairs("sxid", e["code"], e["text"]), words)
        self.findings.close(lambda e: e["_n"] < number and e["kind"] in RELOAD_ENDS, words)
        self.findings.close(
            lambda e: (
                e["kind"] in BEGUN_AGAIN
                and e["_n"] < number
                and (began is not None or e["last_s"] + ONE_LOAD_SECONDS < second)
            ),
            words,
        )

    def _nvrm_or_plain(self, second: int, message: str) -> None:
        if not message.startswith("NVRM: "):
            self._plain(second, message)
            return
        if BROKEN_SENTENCE.match(message):
            self.sentence, self.further = message, FURTHER_LINES
            if self._plain(second, message):
                self.sentence = ""
            return
        if self.sentence:
            whole = f"{self.sentence} {message[len('NVRM: ') :]}"
            self.further -= 1
            if self._plain(second, whole):
                self.sentence = ""
                return
            self.sentence = whole if self.further else ""
        self._plain(second, message)

    def _plain(self, second: int, message: str, only_lost: bool = False) -> bool:
        found = row_of(message)
        if found is None or found[0].kind == HARMLESS or (only_lost and found[0].kind != LOST):
            return False
        row, times = found
        where = place(row, message)
        self.findings.count((row.name, where), {"kind": row.name, "pci_id": where}, second, self.lines, message, times)
        return True

    def _hardware(self, kind: str, second: int, text: str, times: int) -> None:
        self.findings.count((kind, "host"), {"kind": kind, "pci_id": "host"}, second, self.lines, text, times)


def _stands_at(kinds: Sequence[str], name: str) -> Callable[[Event], bool]:
    return lambda event: event["kind"] in kinds and event["pci_id"] == name


def _lost(event: Event) -> bool:
    return event["code"] == GPU_LOST or "fallen off the bus" in event["text"]


def _joined(text: str) -> str:
    """Make one line of a message that has several; NVIDIA's driver repeats its name in each."""
    if "\n" not in text:
        return text
    first, *rest = text.split("\n")
    return " ".join([first] + [part[6:] if part.startswith("NVRM: ") else part for part in rest])
