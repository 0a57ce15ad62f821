# SPDX-License-Identifier: Apache-2.0
"""What the kernel of this boot has said about GPUs and hardware, from its log.

The log comes from journald (only what the kernel itself wrote, only this boot) or, if that has nothing, from the
kernel's buffer. Both are read as records. What cannot be read raises OSError; an empty log counts as unreadable.
"""

from typing import Any, Dict, Iterable, Iterator, Optional

from ...host.bounded import run_bounded
from ...host.files import below, exists, read_text
from .events import KernelEvents
from .records import JOURNALD, KERNEL, MICROSECONDS, OTHER, Line, journal_record, read_kmsg

LOG_SECONDS = 10
# A healthy boot writes some 100 KiB of messages; a card that repeats its errors for days writes some MiB. A record
# takes five times the room of its message.
LOG_LIMIT_BYTES = 80 * 1024 * 1024
# Of the boot that runs, which journald knows by its id. -a: a message with control characters, which a program's name
# may have, is not left out. journald's own messages, which no program can forge, either, say how many it missed.
FIELDS = "--output-fields=MESSAGE,SYSLOG_FACILITY,_TRANSPORT,_SOURCE_MONOTONIC_TIMESTAMP"
JOURNAL = (
    f"journalctl -b -q -a --no-pager -o json {FIELDS} _TRANSPORT=kernel SYSLOG_FACILITY=0 + _TRANSPORT=driver"
).split()
# Before systemd 236, journalctl prints all fields.
ALL_FIELDS = [word for word in JOURNAL if word != FIELDS]
KMSG_PATH = "/dev/kmsg"
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

    A container's kernel is its host's, and so is the log: such a node lacks nothing, its log is elsewhere.
    """
    done = run_bounded(JOURNAL, LOG_SECONDS, LOG_LIMIT_BYTES)
    if done.rc and "--output-fields" in done.stderr:
        done = run_bounded(ALL_FIELDS, LOG_SECONDS, LOG_LIMIT_BYTES)
    found = parse_records(journal_record(row) or UNREADABLE for row in _rows(done.stdout))
    if found["lines"] and (done.rc == 0 or done.truncated):
        return dict(found, source=" ".join(JOURNAL), whole=found["whole"] and not done.truncated)
    said = (done.stderr.strip().splitlines() or ["printed nothing"])[0]
    problem = done.problem or f"{JOURNAL[0]}: {said}"
    try:
        lines, whole = read_kmsg(below(root, KMSG_PATH), LOG_SECONDS, LOG_LIMIT_BYTES)
        if lines:
            found = parse_records(lines)
            return dict(found, source=KMSG_PATH, whole=found["whole"] and whole)
        problem += f"; {KMSG_PATH}: it is empty"
    except OSError as error:
        problem += f"; {KMSG_PATH}: {error.strerror or error}"
    if read_container(root) is not None:
        return None
    raise OSError(f"the kernel's log cannot be read: {problem}")


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
        if line.speaker in (KERNEL, JOURNALD):
            events.feed((line.clock or 0) // MICROSECONDS, line.text, line.speaker)
    return events.result()


def parse_log(text: str) -> Dict[str, Any]:
    """The same of a saved text in any form that `lines` reads: of each machine in it, the newest boot."""
    # Only what judges files needs these; a node reads records.
    from .boots import parse_saved
    from .saved import read_saved

    return parse_saved(read_saved(text).lines)
