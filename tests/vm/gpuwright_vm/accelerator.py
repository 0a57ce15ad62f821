"""Whether /dev/kvm really runs a guest: the device may be there and boot nothing but kernels made for it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SECONDS = 30
# The kernel gets no disk: it comes as far as looking for one, says so, and is started again, at which qemu ends.
LAST_WORDS = "Unable to mount root fs"
ARGUMENTS = "console=ttyS0 panic=-1"


def choose(kernel: Path) -> tuple[str, str]:
    """kvm or tcg (software emulation), and why; `kernel`: one for x86_64, which is booted as the test."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg", "/dev/kvm is not there or may not be used"
    words = ["qemu-system-x86_64", "-machine", "pc", "-accel", "kvm", "-cpu", "host,-arch-capabilities", "-m", "512"]
    words += [
        "-nodefaults",
        "-display",
        "none",
        "-serial",
        "stdio",
        "-no-reboot",
        "-kernel",
        str(kernel),
        "-append",
        ARGUMENTS,
    ]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, errors="replace", check=False)
    except subprocess.TimeoutExpired:
        return "tcg", f"/dev/kvm did not boot Debian's kernel within {SECONDS} s"
    if LAST_WORDS in done.stdout:
        return "kvm", "/dev/kvm booted Debian's kernel"
    return "tcg", "/dev/kvm failed: " + (done.stderr.strip().splitlines() or ["without a word"])[-1]
