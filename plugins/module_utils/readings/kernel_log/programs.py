# SPDX-License-Identifier: Apache-2.0
"""Messages of the kernel that begin with a name which a user has chosen: never a fault by what that name says.

The kernel writes a program's name (15 bytes, any of them) first when the program crashed, ran out of memory or used
something that is going away, and a network device's name when it joins a bridge. Any user may give such a name. Other
messages with names in them begin with the kernel's own words, and the rows of `table` begin where the message begins.

Sources: arch/*/mm/fault.c, arch/x86/kernel (traps.c, signal.c), kernel/signal.c, mm (oom_kill.c, page_alloc.c,
mremap.c, mmap.c), fs/locks.c, fs/drop_caches.c, block/ioctl.c, net/packet, net/bridge/br_stp.c, net/core/dev.c.
"""

from ...host.patterns import lazily

# name[12]: segfault at ..., name[12] trap ..., name[12] bad frame in ..., name/12: potentially unexpected fatal signal,
# name (12): drop_caches, name(12): Attempt to set ..., name (12) uses deprecated ..., and those without a number.
NAME = r"[\s\S]{1,16}?"
OF_A_PROGRAM = (
    NAME + r"(?:\[[0-9]{1,10}\](?::|\s)"
    r"|/[0-9]{1,10}: potentially unexpected fatal signal"
    r"| ?\([0-9]{1,10}\)(?::|\s)"
    r"|: sending ioctl | invoked oom-killer: | calls setitimer\(\)| uses obsolete | sent an empty control message)"
)
# A device's name has neither blanks nor a colon. The kernel has no other words for it than these.
OF_A_DEVICE = (
    r"[^\s:/]{1,15}: (?:port [0-9]+\(|(?:entered|left) (?:promiscuous|allmulticast) mode|renamed from "
    r"|received packet on |hw csum failure)"
)
NAMED_BY_A_USER = r"(?:" + OF_A_PROGRAM + r"|" + OF_A_DEVICE + r")"
# The name of the program comes first. The kernel continues; the program that asked for the memory may not.
ALLOCATION = NAME + r": page allocation (?:failure[:.] order:|stalls for )"
FIRST = lazily(NAMED_BY_A_USER + "|" + ALLOCATION)


def begins_with_a_name(message: str) -> bool:
    """Whether the message begins with a program's or a network device's name."""
    return FIRST.match(message) is not None
