# SPDX-License-Identifier: Apache-2.0
"""What the kernel of this boot has said about GPUs and hardware, from its log.

The log comes from journald (only what the kernel itself wrote, only this boot) or, if that has nothing, from the
kernel's buffer. Both are read as records. What cannot be read raises OSError; an empty log counts as unreadable.
"""

import time
from typing import Any, Dict, Iterable, Iterator, NamedTuple, Optional, Tuple

from ...host.bounded import run_bounded
from ...host.files import below, exists, read_text
from ...host.patterns import lazily
from .events import KernelEvents
from .position import BOOT_ID_PATH, Position, keep_position, read_position
from .records import JOURNALD, KERNEL, MICROSECONDS, OTHER, Line, journal_record, read_kmsg

LOG_SECONDS = 10
# So much of the journal is in memory at once; a record takes five times the room of its message.
CHUNK_BYTES = 4 * 1024 * 1024
# The kernel's own buffer is smaller than this.
KMSG_LIMIT_BYTES = 80 * 1024 * 1024
# Of the boot that runs, which journald knows by its id. -a: a message with control characters, which a program's name
# may have, is not left out. journald's own messages, which no program can forge, either, say how many it missed.
FIELDS = "--output-fields=MESSAGE,SYSLOG_FACILITY,_TRANSPORT,_SOURCE_MONOTONIC_TIMESTAMP"
JOURNAL = (
    f"journalctl -b -q -a --no-pager -o json {FIELDS} _TRANSPORT=kernel SYSLOG_FACILITY=0 + _TRANSPORT=driver"
).split()
# Before systemd 236, journalctl prints all fields.
ALL_FIELDS = [word for word in JOURNAL if word != FIELDS]
KMSG_PATH = "/dev/kmsg"
MOMENT = 0.2
CURSOR_OF = lazily(r'"__CURSOR" ?: ?"([A-Za-z0-9=;._-]{1,400})"')
# For lines that stand in no record.
UNREADABLE = Line("", OTHER)


def read_container(root: str) -> Optional[str]:
    """The name of the container manager, such as "podman", or None if the node is not a container."""
    word = read_text(root, "/run/systemd/container")
    if word:
        return word
    environment = (read_text(root, "/proc/1/environ") or "").split("\0")
    for pair in environment:
        if pair.startswith("container=") and pair != "container=":
            return pair.partition("=")[2]
    marks = {"/run/.containerenv": "podman", "/.dockerenv": "docker"}
    return next((name for mark, name in sorted(marks.items()) if exists(root, mark)), None)


def read_kernel_log(root: str) -> Optional[Dict[str, Any]]:
    """What `parse_records` finds, with `source`; None in a container to which the host shows no kernel log.

    A container's kernel is its host's, and so is the log: such a node lacks nothing, its log is elsewhere. Root keeps
    on the node what was found and how far the journal was read, so that the next reading only reads what is new.
    """
    events, whole, problem = _read_journal(root)
    if events is not None:
        found = events.result()
        return dict(found, source=" ".join(JOURNAL), whole=found["whole"] and whole)
    try:
        lines, whole = read_kmsg(below(root, KMSG_PATH), LOG_SECONDS, KMSG_LIMIT_BYTES)
        if lines:
            found = parse_records(lines)
            return dict(found, source=KMSG_PATH, whole=found["whole"] and whole)
        problem += f"; {KMSG_PATH}: it is empty"
    except OSError as error:
        problem += f"; {KMSG_PATH}: {error.strerror or error}"
    if read_container(root) is not None:
        return None
    raise OSError(f"the kernel's log cannot be read: {problem}")


def _read_journal(root: str) -> Tuple[Optional[KernelEvents], bool, str]:
    """(events of this boot, whether the journal was read to its end, why there are none)."""
    boot_id = read_text(root, BOOT_ID_PATH) or ""
    kept = read_position(root, boot_id)
    found = _read_from(kept or Position(KernelEvents(), ""))
    if kept and found.problem:
        # What journald had there may be gone.
        found = _read_from(Position(KernelEvents(), ""))
    if found.problem:
        return None, False, found.problem
    if found.cursor != (kept.cursor if kept else ""):
        keep_position(root, boot_id, Position(found.events, found.cursor))
    return found.events, found.whole, ""


class Read(NamedTuple):
    """What a reading of the journal came to; `problem` is "" if it could be read."""

    events: KernelEvents
    cursor: str
    whole: bool
    problem: str


def _read_from(begin: Position) -> Read:
    """Read on from there, in chunks, within LOG_SECONDS."""
    events, cursor = begin
    command = JOURNAL
    deadline = time.monotonic() + LOG_SECONDS
    while True:
        asked = [*command, f"--after-cursor={cursor}"] if cursor else command
        done = run_bounded(asked, max(MOMENT, deadline - time.monotonic()), CHUNK_BYTES)
        if done.rc and "--output-fields" in done.stderr and command is JOURNAL:
            command = ALL_FIELDS
            continue
        last = _feed(events, done.stdout, cursor)
        moved, cursor = last not in ("", cursor), last or cursor
        if not (done.truncated and moved and time.monotonic() < deadline):
            break
    # Some releases end with 1 if there is nothing new.
    nothing_new = bool(begin.cursor) and done.rc == 1 and not done.stdout and not done.stderr.strip()
    is_read = done.rc == 0 or nothing_new or done.truncated
    problem = ""
    if not events.lines or not is_read:
        said = (done.stderr.strip().splitlines() or ["printed nothing"])[0]
        problem = done.problem or f"{JOURNAL[0]}: {said}"
    return Read(events, cursor, done.rc == 0 or nothing_new, problem)


def _feed(events: KernelEvents, text: str, after: str) -> str:
    """Feed the records behind the one at `after`; returns the cursor of the last one, "" if none can be told.

    A journalctl that goes back, as after its journal was replaced, prints that record once more.
    """
    begin = text.rfind(f'"{after}"') if after else -1
    rows = _rows(text[text.find("\n", begin) + 1 :] if begin >= 0 else text)
    first = row = ""
    for row in rows:
        first = first or row
        line = journal_record(row) or UNREADABLE
        if _is_own(line.speaker):
            events.feed((line.clock or 0) // MICROSECONDS, line.text, line.speaker)
    last = _cursor(row)
    return last if after or last != _cursor(first) else ""


def _is_own(speaker: str) -> bool:
    """Whether the kernel said it; the journal passes on what it says."""
    return speaker in (KERNEL, JOURNALD)


def _cursor(row: str) -> str:
    match = CURSOR_OF.search(row)
    return match.group(1) if match else ""


def _rows(text: str) -> Iterator[str]:
    """The lines that are there to their end.

    Not splitlines(): other characters that end a line may stand in a message.
    """
    begin = 0
    while True:
        end = text.find("\n", begin)
        if end < 0:
            return
        yield text[begin:end]
        begin = end + 1


def parse_records(lines: Iterable[Line]) -> Dict[str, Any]:
    """`{lines, from_boot, whole, xids, sxids, findings}` of one boot's records, in their order.

    An event has count, first_s, last_s (seconds since the boot), text, pci_id (address without the function, name of a
    disk, "host" or "unnamed"), closed_by ("" or what closed it) and code (Xid, SXid) or kind (findings: a name of
    `table`). `from_boot` says that the log reaches back to the kernel's first line; `whole` is False if
    there were more different events than are kept.
    """
    events = KernelEvents()
    for line in lines:
        if _is_own(line.speaker):
            events.feed((line.clock or 0) // MICROSECONDS, line.text, line.speaker)
    return events.result()


def parse_log(text: str) -> Dict[str, Any]:
    """The same of a saved text in any form that `lines` reads: of each machine in it, the newest boot."""
    # Only what judges files needs these; a node reads records.
    from .boots import parse_saved
    from .saved import read_saved

    return parse_saved(read_saved(text).lines)
