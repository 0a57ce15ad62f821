# SPDX-License-Identifier: Apache-2.0
"""Which processes /proc shows, and whether it hides those of other users from this process.

With the mount option hidepid, a listing of /proc looks complete and readable, but lacks other users' processes: an
empty answer then says nothing. Source: proc(5), Linux Documentation/filesystems/proc.rst.
"""

import os
import re
from typing import Collection, List, Optional, Set, Tuple

from .files import names_in, read_colon_lines, read_text, to_int
from .patterns import lazily

MOUNTS = "/proc/self/mountinfo"
HIDING = lazily(r"(?:^|,)hidepid=(1|2|4|noaccess|invisible|ptraceable)(?:,|$)")
# Members of this group see all processes, except with the strictest setting.
GROUP = lazily(r"(?:^|,)gid=([0-9]{1,10})(?:,|$)")
STRICTEST = ("4", "ptraceable")
# linux/capability.h; a process that has it sees every process.
CAP_SYS_PTRACE = 19


def process_ids(root: str = "/") -> List[int]:
    """Ids of the processes that /proc shows, ascending; without those that are hidden (see `why_hidden`)."""
    return sorted(int(name) for name in names_in(root, "/proc") if name.isdecimal())


def why_hidden(root: str = "/", groups: Optional[Collection[int]] = None, privileged: Optional[bool] = None) -> str:
    """Why /proc does not show this process those of other users; "" if it shows them all.

    `groups` (numbers) and `privileged` default to those of this process.
    """
    privileged = sees_all(root) if privileged is None else privileged
    option = hiding_option(root)
    if privileged:
        return ""
    if option:
        word, group = option
        if group is None or word in STRICTEST or group not in (_own_groups() if groups is None else groups):
            return f"/proc is mounted with hidepid={word}: only root sees the processes of others"
    pids = process_ids(root)
    # Every process table has process 1, also a container's; security modules hide processes without a mount option.
    if pids and pids[0] != 1:
        return "/proc does not show process 1, so it does not show all: only root sees the processes of others"
    return ""


def hiding_option(root: str = "/") -> Optional[Tuple[str, Optional[int]]]:
    """(word, gid or None) of the option hidepid with which /proc is mounted; None if it has no such option."""
    found = None
    for line in (read_text(root, MOUNTS) or "").splitlines():
        # "22 27 0:20 / /proc rw,nosuid shared:5 - proc proc rw,hidepid=invisible,gid=23": a later mount covers it.
        head, _separator, tail = line.partition(" - ")
        words, options = head.split(), tail.split()
        if len(words) > 5 and words[4] == "/proc" and options[:1] == ["proc"]:
            settings = ",".join([words[5], *options[2:]])
            hidden, group = HIDING.search(settings), GROUP.search(settings)
            found = hidden and (hidden.group(1), group and int(group.group(1)))
    return found


def sees_all(root: str = "/") -> bool:
    """Whether this process may see everybody's; if its capabilities cannot be read, whether it is root."""
    text = read_colon_lines(read_text(root, "/proc/self/status")).get("CapEff", "")
    if re.match(r"[0-9a-f]{1,16}$", text):
        return bool(int(text, 16) >> CAP_SYS_PTRACE & 1)
    return os.geteuid() == 0


def command_name(root: str, pid: int) -> str:
    """The kernel's name for a process, cut to 15 characters; "unknown" if it cannot be read.

    Not its command line: reading that would hang with a process that hangs in the driver.
    """
    return read_text(root, f"/proc/{pid}/comm") or "unknown"


def parent_of(root: str, pid: int) -> Optional[int]:
    """The parent's id, or None."""
    # The name in parentheses may itself contain spaces and parentheses, so the fields are counted from its end.
    fields = (read_text(root, f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    return to_int(fields[1]) if len(fields) > 1 else None


def _own_groups() -> Set[int]:
    return {os.getegid(), *os.getgroups()}
