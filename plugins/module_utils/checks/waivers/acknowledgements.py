# SPDX-License-Identifier: Apache-2.0
"""Acknowledgements: findings on this node that root has accepted for a limited time, who did so, and why.

An entry is `{id, user, uid, when, until, reason, boot_id, uptime_s, message, remedy, value, expected, unit, cards,
last_s, count}`: the finding as it was at that moment. `last_s` (s since the boot) and `count` are those of an event of
the kernel's log, and null for a check; `cards` are the PCI addresses in `message`, without the function.
"""

import datetime
from typing import Any, Dict, List, Tuple

from ...host.files import below
from ...host.patterns import lazily
from ...host.written.aside import begin_anew
from ...verdict.evidence import LARGEST
from ...verdict.kept_file import DamagedRecord, damaged, read_kept, write_kept
from ...verdict.report import TIME_FORMAT, age_seconds

PATH = "/var/lib/gpuwright/acknowledgements.json"
SCHEMA = 1
MOST_ENTRIES = 200
LONGEST_REASON = 200
LONGEST_MESSAGE = 2000
LONGEST_DAYS = 90
DEFAULT_FOR = "7d"
SECONDS = {"m": 60, "h": 3600, "d": 86400}
DURATION = lazily(r"([1-9][0-9]{0,5})([mhd])")
# A check ("gpu.sram"), or an event of the kernel's log ("kernel.xid:48@0000:3b:00", "kernel.lockups:lockup").
ID = lazily(r"[a-z_]+(?:\.[a-z0-9_]+)*(?::[a-z0-9_]{1,64})?(?:@[A-Za-z0-9:._/-]{1,80})?")
CARD = lazily(
    r"(?<![0-9a-fA-F])(?<![0-9a-fA-F]:)[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?"
    r"(?![0-9a-fA-F]|:[0-9a-fA-F])"
)

# An acknowledgement: the keys of `FORM`.
Entry = Dict[str, Any]


def parse_duration(text: str) -> int:
    """Seconds of "30m", "12h" or "7d"; ValueError for anything else and for more than 90 days."""
    match = DURATION.fullmatch(text)
    if not match:
        raise ValueError(f'{text!r} is not a duration; expected minutes, hours or days such as "30m", "12h", "7d"')
    seconds = int(match.group(1)) * SECONDS[match.group(2)]
    if seconds > LONGEST_DAYS * SECONDS["d"]:
        raise ValueError(f"{text} is too long; expected at most {LONGEST_DAYS}d")
    return seconds


def parse_reason(text: str) -> str:
    """The reason without surrounding blanks; ValueError if it is empty, too long, or would repaint a terminal."""
    words = text.strip()
    if not words:
        raise ValueError(f"expected a reason of 1 to {LONGEST_REASON} characters")
    if len(words) > LONGEST_REASON:
        raise ValueError(f"it has {len(words)} characters; expected at most {LONGEST_REASON}")
    if not words.isprintable():
        raise ValueError("expected one line of printable characters")
    return words


def cards_in(text: str) -> List[str]:
    """The PCI addresses in a text, sorted, as the kernel's log writes them: "0000:3b:00", without the function."""
    return sorted({card_of(address) for address in CARD.findall(text)})


def card_of(pci_id: str) -> str:
    """One spelling for the address of a card: nvidia-smi, sysfs and the kernel differ in domain, case and function."""
    domain, _colon, rest = pci_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest.partition('.')[0]}"


def later(time: str, seconds: int) -> str:
    """`time` in the report's format, so many seconds later."""
    moment = datetime.datetime.strptime(time, TIME_FORMAT) + datetime.timedelta(seconds=seconds)
    return moment.strftime(TIME_FORMAT)


# name: whether the value is valid for an entry.
FORM = {
    "id": lambda value: _text(value, 200) and ID.fullmatch(value),
    "user": lambda value: _text(value, 200) and value,
    "uid": lambda value: _number(value) and value == int(value),
    "when": lambda value: _time(value),
    "until": lambda value: _time(value),
    "reason": lambda value: _text(value, LONGEST_REASON) and value.strip(),
    "boot_id": lambda value: _text(value, 100),
    "uptime_s": lambda value: value is None or _number(value),
    "message": lambda value: _text(value, LONGEST_MESSAGE),
    "remedy": lambda value: _text(value, 100),
    "value": lambda value: True,
    "expected": lambda value: True,
    "unit": lambda value: _text(value, 100),
    "cards": lambda value: isinstance(value, list) and all(_text(card, 20) for card in value),
    "last_s": lambda value: value is None or _number(value),
    "count": lambda value: value is None or _number(value),
}


def parse_entries(entries: Any) -> List[Entry]:
    """The entries if each of them is valid; ValueError otherwise: whatever damaged one may have damaged any."""
    if not isinstance(entries, list) or len(entries) > MOST_ENTRIES:
        raise ValueError(f"expected a list of at most {MOST_ENTRIES} acknowledgements")
    for entry in entries:
        if not isinstance(entry, dict):
            raise ValueError(f"an acknowledgement is {entry!r}; expected a record")
        for name in sorted(FORM):
            if name not in entry or not FORM[name](entry[name]):
                raise ValueError(f"an acknowledgement has {name} {entry.get(name)!r}")
        if not 0 < age_seconds(entry["when"], entry["until"]) <= LONGEST_DAYS * SECONDS["d"]:
            raise ValueError("an acknowledgement is valid from {when} to {until}".format(**entry))
    if len({entry["id"] for entry in entries}) != len(entries):
        raise ValueError("the same thing is acknowledged twice")
    return entries


def read_acknowledgements(root: str) -> List[Entry]:
    """The node's acknowledgements, [] without a file; OSError or ValueError if they cannot be trusted."""
    record = read_kept(root, PATH, SCHEMA)
    try:
        return [] if record is None else parse_entries(record.get("acknowledgements"))
    except ValueError as error:
        raise damaged(PATH, error)


def read_to_add(root: str) -> Tuple[List[Entry], str]:
    """The same for who is about to write the file: a damaged one is set aside, with a sentence on that, else ""."""
    try:
        return read_acknowledgements(root), ""
    except DamagedRecord as error:
        return [], begin_anew(below(root, PATH), error.what, "what was acknowledged before counts as a finding again")


def write_acknowledgements(root: str, entries: List[Entry]) -> None:
    """Replace the file; OSError if that fails, ValueError if it would become too large."""
    write_kept(root, PATH, {"schema": SCHEMA, "acknowledgements": parse_entries(entries)})


def with_entries(entries: List[Entry], added: List[Entry], now: str) -> List[Entry]:
    """The entries with `added` replacing those of the same ids; those that expired 90 or more days ago are dropped."""
    ids = {entry["id"] for entry in added}
    kept = [entry for entry in entries if entry["id"] not in ids]
    recent = [entry for entry in kept if age_seconds(entry["until"], now) < LONGEST_DAYS * SECONDS["d"]]
    return sorted(recent + added, key=lambda entry: entry["id"])


def is_event(entry: Entry) -> bool:
    """Whether it acknowledges an event of the kernel's log rather than a check."""
    return entry["last_s"] is not None


def of_this_boot_only(entry: Entry) -> bool:
    """Whether it applies to this boot only: the kernel's log begins again with each boot."""
    return is_event(entry) or entry["id"].startswith("kernel.")


def why_not_now(entry: Entry, moment: Any) -> str:
    """Why the entry does not count at this moment, "" if it does; `moment` as in `readings.moment`."""
    now = moment.get("time") if isinstance(moment, dict) else None
    if now is None or not _time(now):
        return "the time of this check is not known"
    if age_seconds(entry["when"], now) < 0:
        return (
            f"the clock ({now}) is earlier than the time when it was given ({entry['when']}): set the clock: chronyc "
            "makestep"
        )
    if age_seconds(entry["until"], now) >= 0:
        return f"it expired at {entry['until']}"
    if of_this_boot_only(entry) and (not entry["boot_id"] or entry["boot_id"] != moment.get("boot_id")):
        return "it was given in another boot"
    return ""


def in_words(entry: Entry) -> str:
    """For example "acknowledged until 2026-01-12T10:00:00Z by alice: ordered a new card"."""
    return "acknowledged until {until} by {user}: {reason}".format(**entry)


def _text(value: Any, longest: int) -> bool:
    return isinstance(value, str) and len(value) <= longest and (value.isprintable() or not value)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < LARGEST


def _time(value: Any) -> bool:
    try:
        age_seconds(value, value)
    except (TypeError, ValueError):
        return False
    return True
