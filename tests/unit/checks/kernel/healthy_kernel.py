"""What the readings say of the kernel's log and the policy of Xids where every check passes."""

from __future__ import annotations

from typing import Any

from node_names import KERNEL

KERNEL_LOG = f"""\
[    0.000000] a5-01 kernel: Linux version {KERNEL} (mockbuild@x86-vm) (gcc version 8.5.0)
[    5.123456] a5-01 kernel: NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23
"""

READINGS: dict[str, Any] = {
    "kernel_log": {
        "source": "journalctl -b -q --no-pager -o short-monotonic _TRANSPORT=kernel + _TRANSPORT=driver",
        "lines": 2,
        "from_boot": True,
        "whole": True,
        "xids": [],
        "sxids": [],
        "findings": [],
    },
    "xid_policy": [],
}
