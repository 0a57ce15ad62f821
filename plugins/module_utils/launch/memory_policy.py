# SPDX-License-Identifier: Apache-2.0
"""set_mempolicy(2) and get_mempolicy(2) through ctypes: glibc has no wrapper, and libnuma need not be installed."""

import ctypes
import os

# Importing typing would take a third of gpu-run's start time: its names are only for the type checker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Sequence

MODES = {"preferred": 1, "bind": 2}
DEFAULT_MODE = 0
# (set_mempolicy, get_mempolicy) from the kernel's system call tables.
CALLS = {"x86_64": (238, 239), "aarch64": (237, 236), "ppc64le": (261, 260), "s390x": (269, 268)}


def set_memory_policy(mode: str, nodes: "Sequence[int]") -> str:
    """Give this process and what it execs a memory policy; returns "" or why it stays as it was.

    `mode` is "preferred" or "bind", `nodes` a non-empty list of NUMA nodes. A policy that the caller has already set,
    for example with numactl, is kept.
    """
    machine = os.uname().machine
    if machine not in CALLS:
        return f"no system call number known for {machine}"
    set_call, get_call = CALLS[machine]
    library = ctypes.CDLL(None, use_errno=True)
    current = ctypes.c_int(DEFAULT_MODE)
    if library.syscall(get_call, ctypes.byref(current), None, 0, None, 0) == 0 and current.value != DEFAULT_MODE:
        return "the caller has already set a memory policy"
    bits = 8 * ctypes.sizeof(ctypes.c_ulong)
    mask = (ctypes.c_ulong * (max(nodes) // bits + 1))()
    for node in nodes:
        mask[node // bits] |= 1 << (node % bits)
    # The kernel reads one bit less than the number given.
    if library.syscall(set_call, MODES[mode], mask, ctypes.c_ulong(len(mask) * bits + 1)) != 0:
        return f"refused by the kernel: {os.strerror(ctypes.get_errno())}"
    return ""
