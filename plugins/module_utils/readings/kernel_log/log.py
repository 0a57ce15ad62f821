# SPDX-License-Identifier: Apache-2.0
"""What the kernel of this boot has said about GPUs and hardware, from its log.

The log comes from journald (only what the kernel itself wrote, only this boot) or, if that has nothing, from the ring
buffer through dmesg. What cannot be read raises OSError; an empty log counts as unreadable.
"""

from typing import Any, Dict, Optional

from ...host.bounded import run_bounded
from ...host.files import exists, read_text
from .events import KernelEvents
from .lines import read_lines

LOG_SECONDS = 10
# A healthy boot writes some 100 KiB; a card that repeats its errors for days writes some MiB.
LOG_LIMIT_BYTES = 16 * 1024 * 1024
# journald's own messages, which no program can forge, either, say how many of the kernel's it missed.
SOURCES = (
    ["journalctl", "-b", "-q", "--no-pager", "-o", "short-monotonic", "_TRANSPORT=kernel", "+", "_TRANSPORT=driver"],
    ["dmesg"],
)


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
    """What `parse_log` finds, with `source`; None in a container to which the host shows no kernel log.

    A container's kernel is its host's, and so is the log: such a node lacks nothing, its log is elsewhere.
    """
    problems = []
    for command in SOURCES:
        done = run_bounded(command, LOG_SECONDS, LOG_LIMIT_BYTES)
        parsed = parse_log(done.stdout)
        if parsed["lines"] and (done.rc == 0 or done.truncated):
            return dict(parsed, source=" ".join(command), whole=parsed["whole"] and not done.truncated)
        said = (done.stderr.strip().splitlines() or ["printed nothing"])[0]
        problems.append(done.problem or f"{command[0]}: {said}")
    if read_container(root) is not None:
        return None
    raise OSError(f"the kernel's log cannot be read: {'; '.join(problems)}")


def parse_log(text: str) -> Dict[str, Any]:
    """`{lines, from_boot, whole, xids, sxids, findings}` of a log in any of the formats that `lines` reads.

    An event has count, first_s, last_s (seconds since the boot), text, pci_id (address without the function, name of a
    disk, "host" or "unnamed"), closed_by ("" or what closed it) and code (Xid, SXid) or kind (findings: a name of
    `table`). `from_boot` says that the log reaches back to the kernel's first line; `whole` is False if
    there were more different events than are kept.
    """
    events = KernelEvents()
    for line in read_lines(text):
        events.feed(line)
    return events.result()
