# SPDX-License-Identifier: Apache-2.0
"""The host's runtime policy, /etc/gpuwright/runtime.json."""

from ..host.files import below
from . import fast_json

# Importing typing would take a third of gpu-run's start time: its names are only for the type checker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

POLICY_PATH = "/etc/gpuwright/runtime.json"
ALLOCATORS = ("calibrated", "jemalloc", "tcmalloc", "none")
MEMORY_POLICIES = ("preferred", "bind", "none")
NUMA_MODES = ("node", "socket", "none")

HEXADECIMAL = frozenset("0123456789abcdef")
# MAX_NUMNODES in a kernel for large machines.
MOST_NODES = 1024

# "calibrated" is malloc until `gpu-run --calibrate` has proven another allocator faster on this machine.
DEFAULTS = {
    "schema": 1,
    "allocator": "calibrated",
    "libraries": {},
    "malloc_conf": "",
    "memory_policy": "preferred",
    "numa": "calibrated",
    "gpu_nodes": {},
    "omp_num_threads": 0,
    "cuda_alloc_conf": "expandable_segments:True",
    "nccl": {},
}

# Where the distributions install the libraries, for a host whose policy names none.
KNOWN_LIBRARIES = {
    "jemalloc": ("/usr/lib64/libjemalloc.so.2", "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"),
    "tcmalloc": ("/usr/lib64/libtcmalloc_minimal.so.4", "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"),
}


class LaunchError(Exception):
    """The command cannot be started as asked; the text is one sentence with the remedy."""


def pci_address(text: str) -> str:
    """A card's address as sysfs writes it, "0000:3b:00.0", from that or from what nvidia-smi prints; "" for others."""
    words = text.lower().replace(".", ":").split(":")
    words = ["0"] * (4 - len(words)) + words if len(words) == 3 else words
    if len(words) != 4 or not all(word and len(word) <= 8 and set(word) <= HEXADECIMAL for word in words):
        return ""
    domain, bus, device, function = (int(word, 16) for word in words)
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"


def load_policy(root: str = "/") -> "Dict[str, Any]":
    """The host's policy with defaults filled in, only the defaults if there is no file; LaunchError for a bad one."""
    try:
        with open(below(root, POLICY_PATH), "rb") as file:
            policy = fast_json.loads(file.read().decode("utf-8"))
    except FileNotFoundError:
        return dict(DEFAULTS)
    except OSError as error:
        raise LaunchError(f"{POLICY_PATH}: cannot be read: {error.strerror}")
    except (ValueError, RecursionError) as error:
        raise LaunchError(f"{POLICY_PATH}: is not JSON: {error}")
    if not isinstance(policy, dict):
        raise LaunchError(f"{POLICY_PATH}: expected an object, found {type(policy).__name__}")
    for key, value in policy.items():
        expected = _expectation(key, value)
        if expected:
            import json

            message = "{}: {} is {}; expected {}; run the role system_runtime again"
            raise LaunchError(message.format(POLICY_PATH, key, json.dumps(value), expected))
    return dict(DEFAULTS, **policy)


def _expectation(key: str, value: object) -> str:
    """What `key` should contain, "" if `value` is fine."""
    if key == "schema":
        return "" if value == 1 else "1, the only schema this gpu-run knows"
    if key == "allocator":
        return "" if value in ALLOCATORS else "one of " + ", ".join(ALLOCATORS)
    if key == "memory_policy":
        return "" if value in MEMORY_POLICIES else "one of " + ", ".join(MEMORY_POLICIES)
    if key == "numa":
        return "" if value in ("calibrated",) + NUMA_MODES else "one of calibrated, " + ", ".join(NUMA_MODES)
    if key == "gpu_nodes":
        fine = isinstance(value, dict) and all(
            pci_address(name) and type(node) is int and 0 <= node < MOST_NODES for name, node in value.items()
        )
        return "" if fine else 'NUMA nodes of PCI addresses, such as {"0000:3b:00.0": 0}'
    if key == "omp_num_threads":
        return "" if type(value) is int and value >= 0 else "a whole number, 0 for automatic"
    if key == "libraries":
        known = isinstance(value, dict) and set(value) <= set(KNOWN_LIBRARIES)
        fine = isinstance(value, dict) and all(isinstance(path, str) for path in value.values())
        return "" if fine and known else "paths for " + ", ".join(sorted(KNOWN_LIBRARIES))
    if key == "nccl":
        fine = isinstance(value, dict) and all(
            name.startswith("NCCL_") and isinstance(text, str) and "\0" not in text for name, text in value.items()
        )
        return "" if fine else "variables NCCL_... with strings"
    if key in ("malloc_conf", "cuda_alloc_conf"):
        return "" if isinstance(value, str) and "\0" not in value else "text"
    return "one of the keys " + ", ".join(sorted(DEFAULTS))
