# SPDX-License-Identifier: Apache-2.0
"""What a compiler, a linker or Triton says, as a code and one sentence. Who decides reads the code."""

from __future__ import annotations

import os
import re
import signal
import sysconfig
from typing import NamedTuple

LEFT_OUT = "left-out"
LONGEST = 300


class Fault(NamedTuple):
    """code: "", LEFT_OUT, "cache", "timeout", one of KNOWN, or "other"."""

    code: str
    words: str = ""


HEADERS = "{0} is missing: the headers of Python {python} are not in {include}"
OLD_COMPILER = "the C++ compiler is too old: it has no {0}, which the headers of this PyTorch need"
BUILD_TOOLS = "there is no {0}, with which this PyTorch builds extensions"
NOEXEC = "code cannot be run from {0}: its file system is mounted with noexec"
MACHINE = "the compiler builds for another kind of machine ({0})"
# The first that is found, since a later message often follows from it. {0} is what the brackets found.
KNOWN = (
    ("no-compiler", r"Failed to find (C(?:\+\+)?) compiler", "no {0} compiler (gcc, clang) is in PATH"),
    ("no-compiler", r"cannot execute .?(cc1(?:plus)?)\b", "the compiler is incomplete: it has no {0}"),
    ("ptxas", r"(ptxas[\w-]* cannot assemble: .*)", "{0}"),
    ("old-compiler", r"unrecognized command.line option .*?-std=(c\+\+\w+)", OLD_COMPILER),
    ("old-compiler", r"(C\+\+\d\d)(?: or later compatible compiler is required| to compile PyTorch)", OLD_COMPILER),
    ("no-build-tools", r"(?:No module named|'packaging' from) '(pkg_resources|setuptools)", BUILD_TOOLS),
    ("no-headers", r"(Python\.h|pyconfig\.h): No such file", HEADERS),
    ("no-library-headers", r"fatal error: (\S+?): No such file", "the compiler finds no {0}"),
    ("no-library-headers", r"cannot find (crt\w+\.o|-lc\b|-lgcc\w*|-lstdc\+\+)", "the linker finds no {0}"),
    ("no-libcuda", r"libcuda\.so cannot found", "ldconfig -p does not know libcuda.so.1"),
    ("no-libcuda", r"cannot find (-l:?(?:lib)?cuda[\w.]*)", "the linker finds no {0}"),
    ("no-libcuda", r"(libcuda\.so\S*?): (?:cannot open|file |invalid ELF)", "{0} cannot be used"),
    ("noexec", r"(/\S+?)(?:/\.train-gan-compiling-\S*)?: failed to map segment from shared object", NOEXEC),
    ("noexec", r"cannot enable executable stack|Operation not permitted", "code that was made here may not be run"),
    ("full", r"(No space left on device|Disk quota exceeded)", "{0}"),
    ("cache", r"(Read-only file system|Permission denied)(.*)", "{0}{1}"),
    ("other-machine", r"(wrong ELF class|invalid ELF header|file in wrong format|skipping incompatible)", MACHINE),
    ("no-triton", r"No module named '(triton)[\w.]*'", "{0} is not installed"),
)
ACTIONS = {
    "no-compiler": "install gcc with its C++ part (gcc-c++, g++), or name a compiler each in CC and CXX",
    "bad-cc": "unset CC and CXX, or give each the name of one program without options",
    "old-compiler": "name a newer one in CXX, such as that of a gcc-toolset; gpu-plan names one that fits",
    "no-build-tools": "install the environment again, with a setuptools that fits this PyTorch",
    "no-headers": "install the headers of this Python (python3.x-devel, python3.x-dev)",
    "no-library-headers": "install gcc-c++ or g++ with what they bring",
    "no-libcuda": "as root: ldconfig ; then look for libcuda.so.1 in ldconfig -p, which the driver's packages bring",
    "noexec": "set TRITON_CACHE_DIR, TORCHINDUCTOR_CACHE_DIR and TORCH_EXTENSIONS_DIR to a folder without noexec",
    "cache": "set TRITON_CACHE_DIR, TORCHINDUCTOR_CACHE_DIR and TORCH_EXTENSIONS_DIR to a folder of your own",
    "full": "free space there, or set TMPDIR, TRITON_CACHE_DIR and TORCHINDUCTOR_CACHE_DIR to another file system",
    "no-triton": "install the environment again: its triton is missing",
    "ptxas": "install the environment again: its triton is damaged",
}
BY_HAND = "repeat it by hand: python -m gan_trainer.compiling --help"
NOT_STARTED = re.compile(r"(?:FileNotFoundError|PermissionError): .*: '([^'\n]+)'")
# Of torch itself: nothing on the node can be done about it.
NOT_OFFERED = re.compile(
    r"(not supported on Python [^\n]*|Python [^\n]* not yet supported for torch\.compile|GPUTooOldForTriton[^\n]*"
    r"|too old to be supported by the triton[^\n]*)"
)


def action_for(code: str) -> str:
    """What to do about a fault of this code."""
    return ACTIONS.get(code, BY_HAND)


def classify(text: str) -> Fault:
    """The fault that this output of a failed step shows."""
    offered = NOT_OFFERED.search(text)
    if offered:
        return Fault(LEFT_OUT, " ".join(offered.group(1).split())[:LONGEST])
    started = NOT_STARTED.search(text)
    if started and started.group(1) in (os.environ.get("CC"), os.environ.get("CXX")):
        return Fault("bad-cc", f"CC or CXX is no program that can be started: {started.group(1)}"[:LONGEST])
    for code, pattern, words in KNOWN:
        found = re.search(pattern, text)
        if found:
            names = [group or "" for group in found.groups()]
            said = words.format(*names, python=sysconfig.get_python_version(), include=sysconfig.get_path("include"))
            return Fault(code, " ".join(said.split())[:LONGEST])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\berror\b", line, re.IGNORECASE)]
    return Fault("other", (errors or lines or ["it failed and said nothing"])[-1][:LONGEST])


def of_ending(code: int, errors: str) -> Fault:
    """Of a child that gave no answer."""
    if code < 0:
        number = -code
        name = signal.Signals(number).name if number in set(signal.Signals) else str(number)
        return Fault("killed", f"its process was ended by {name}")
    return classify(errors) if errors.strip() else Fault("other", f"its process ended with {code} and said nothing")
