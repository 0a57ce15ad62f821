# SPDX-License-Identifier: Apache-2.0
"""The host's runtime policy, /etc/gpuwright/runtime.json, and the check of the library that it wants preloaded.

The dynamic loader answers a wrong LD_PRELOAD with a message and goes on without the library, so the file is proved here
before the environment names it.
"""

import json
import os
import stat
import struct
import sys

from .hostfiles import below, exists, resolve

POLICY_PATH = "/etc/gpuwright/runtime.json"
ALLOCATORS = ("jemalloc", "tcmalloc", "none")
MEMORY_POLICIES = ("preferred", "bind", "none")

# Without a policy nothing is preloaded: an allocator that was not measured on the host may cost speed.
DEFAULTS = {
    "schema": 1,
    "allocator": "none",
    "libraries": {},
    "malloc_conf": "",
    "memory_policy": "preferred",
    "omp_num_threads": 0,
    "cuda_alloc_conf": "expandable_segments:True",
}

# Where the distributions put the libraries, for a host whose policy names none.
KNOWN_LIBRARIES = {
    "jemalloc": ("/usr/lib64/libjemalloc.so.2", "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"),
    "tcmalloc": ("/usr/lib64/libtcmalloc_minimal.so.4", "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"),
}
PACKAGES = {
    "jemalloc": "jemalloc (RHEL 8: EPEL) or libjemalloc2 (Debian, Ubuntu)",
    "tcmalloc": "gperftools-libs (RHEL 8: EPEL) or libtcmalloc-minimal4 (Debian, Ubuntu)",
}

# ELF header (elf(5)): e_ident[16], e_type, e_machine.
ELF_HEADER = struct.Struct("=16sHH")
ELF_SHARED_OBJECT = 3
ELF_CLASSES = {1: "32-bit", 2: "64-bit"}
ELF_MACHINES = {"x86_64": 62, "aarch64": 183, "ppc64le": 21, "s390x": 22}


class LaunchError(Exception):
    """The command cannot be started as asked; the text is one sentence with the way out."""


def load_policy(root="/"):
    """The host's policy with defaults filled in, the defaults alone without a file; LaunchError on a bad one."""
    try:
        with open(below(root, POLICY_PATH), "rb") as file:
            policy = json.loads(file.read().decode("utf-8"))
    except FileNotFoundError:
        return dict(DEFAULTS)
    except OSError as error:
        raise LaunchError("{}: cannot be read: {}".format(POLICY_PATH, error.strerror))
    except ValueError as error:
        raise LaunchError("{}: is not JSON: {}".format(POLICY_PATH, error))
    if not isinstance(policy, dict):
        raise LaunchError("{}: expected an object, found {}".format(POLICY_PATH, type(policy).__name__))
    for key, value in policy.items():
        expected = _expectation(key, value)
        if expected:
            message = "{}: {} is {}; expected {}; run the role system_runtime again"
            raise LaunchError(message.format(POLICY_PATH, key, json.dumps(value), expected))
    return dict(DEFAULTS, **policy)


def _expectation(key, value):
    """What `key` should have held, "" when `value` is fine."""
    if key == "schema":
        return "" if value == 1 else "1, the only schema this gpu-run knows"
    if key == "allocator":
        return "" if value in ALLOCATORS else "one of " + ", ".join(ALLOCATORS)
    if key == "memory_policy":
        return "" if value in MEMORY_POLICIES else "one of " + ", ".join(MEMORY_POLICIES)
    if key == "omp_num_threads":
        return "" if type(value) is int and value >= 0 else "a whole number, 0 for automatic"
    if key == "libraries":
        fine = isinstance(value, dict) and all(isinstance(path, str) for path in value.values())
        return "" if fine and set(value) <= set(KNOWN_LIBRARIES) else "paths for " + ", ".join(sorted(KNOWN_LIBRARIES))
    if key in ("malloc_conf", "cuda_alloc_conf"):
        return "" if isinstance(value, str) and "\0" not in value else "text"
    return "one of the keys " + ", ".join(sorted(DEFAULTS))


def find_library(name, policy, root="/"):
    """The proved path of an allocator's library; LaunchError names the file, the fault and the cure."""
    path = policy["libraries"].get(name)
    if not path:
        candidates = KNOWN_LIBRARIES[name]
        existing = [candidate for candidate in candidates if exists(root, candidate)]
        path = (existing or candidates)[0]
    check_library(path, PACKAGES[name], root)
    return path


def check_library(path, package, root="/"):
    """Raise LaunchError unless `path` is safe to preload and the loader will take it."""
    # The loader splits LD_PRELOAD at spaces and colons.
    if not os.path.isabs(path) or set(path) & set(" :\t\n\0"):
        raise LaunchError("library {!r}: an absolute path without spaces and colons is needed".format(path))
    real = resolve(root, path)
    if real is None:
        message = "library {}: there is no such file; install {}, or choose --allocator none"
        raise LaunchError(message.format(path, package))
    try:
        with open(real, "rb") as file:
            header = file.read(ELF_HEADER.size)
    except OSError as error:
        raise LaunchError("library {}: cannot be read: {}".format(path, error.strerror))
    for place in (real, os.path.dirname(real)):
        status = os.stat(place)
        if status.st_uid != 0 or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            message = "library {}: {} must be owned by root and writable by nobody else: chown root and chmod go-w it"
            raise LaunchError(message.format(path, place))
    fault = _elf_fault(header)
    if fault:
        raise LaunchError("library {}: {}; install {}".format(path, fault, package))


def _elf_fault(header):
    """Why the loader would refuse a file with these first bytes, "" when it would not."""
    if len(header) < ELF_HEADER.size or header[:4] != b"\x7fELF":
        return "is not an ELF library"
    identity, kind, machine = ELF_HEADER.unpack(header)
    wanted = 2 if sys.maxsize > 2**32 else 1
    if identity[4] != wanted:
        return "is {}, this system is {}".format(ELF_CLASSES.get(identity[4], "of unknown class"), ELF_CLASSES[wanted])
    if kind != ELF_SHARED_OBJECT:
        return "is an ELF file but no shared library"
    if machine != ELF_MACHINES.get(os.uname().machine, machine):
        return "is for another processor than " + os.uname().machine
    return ""
