# SPDX-License-Identifier: Apache-2.0
"""What `gpu-run --calibrate` chose on this machine, /etc/gpuwright/runtime-calibrated.json: the allocator, and for each
command that was measured the placement.

The choice is valid for the machine and the libraries that were measured. If one of them has changed, gpu-run returns to
malloc and says so.
"""

import os

from ...host.files import below, read_text
from ...host.named_tuple import Record
from .. import fast_json
from ..runtime_policy import MEMORY_POLICIES, NUMA_MODES, LaunchError

# Importing typing would take a third of gpu-run's start time: its names are only for the type checker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Sequence, Tuple

CALIBRATED_PATH = "/etc/gpuwright/runtime-calibrated.json"
ALLOCATOR_NAMES = ("none", "jemalloc", "tcmalloc")
# As many OpenMP threads as cores, or the program's own default.
CORES, UNSET = "cores", "unset"
THREADS = (CORES, UNSET)
# /proc/cpuinfo of a large machine takes milliseconds; its first entry holds the name.
CPUINFO_BYTES = 4096


class Arm(Record):
    """What the calibration says now: allocator ("none" is malloc), MALLOC_CONF, the reason, and a warning or ""."""

    __slots__ = ("allocator", "malloc_conf", "why", "problem")
    allocator: str
    malloc_conf: str
    why: str
    problem: str


def calibrated_placement(command: "Sequence[str]", root: str = "/") -> "Tuple[Optional[Dict[str, str]], str]":
    """({arm, numa, memory, threads, why} that was measured for such a command, a warning or "").

    None if nothing was measured for it, or if the measurement is no longer valid.
    """
    try:
        saved = _read(root)
        found = saved.get("placements", {}).get(command_key(command))
        if found is None:
            return None, ""
        allowed = {"numa": NUMA_MODES, "memory": MEMORY_POLICIES, "threads": THREADS}
        texts = all(isinstance(found[name], str) for name in ("arm", "why"))
        if saved["schema"] != 1 or not texts or any(found[name] not in values for name, values in allowed.items()):
            raise ValueError("not made by this gpu-run")
        fault = _other_machine(saved, root)
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        return None, _lost(f"cannot be read: {error.strerror}").problem
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None, _lost("is damaged").problem
    return (None, _lost("no longer holds: " + fault).problem) if fault else (found, "")


def kept_placements(root: str = "/") -> "Dict[str, Any]":
    """The placements of other commands that are still valid, to be kept beside a new one."""
    try:
        saved = _read(root)
        kept: "Dict[str, Any]" = dict(saved["placements"])
        return {} if _other_machine(saved, root) else kept
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def command_key(command: "Sequence[str]") -> str:
    """The key of a placement: the program and, for an interpreter, what it runs; options and data do not count.

    "python train.py --epochs 3" is "python train.py", "python3 -u -m gan_trainer x.yml" is "python3 -m gan_trainer".
    """
    words = [os.path.basename(command[0])]
    rest = list(command[1:])
    if words[0].startswith(("python", "pypy")) or words[0] in ("bash", "sh"):
        while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c"):
            rest.pop(0)
        words += rest[:2] if rest[:1] in (["-m"], ["-c"]) else rest[:1]
    return " ".join(words)


def _read(root: str) -> "Dict[str, Any]":
    with open(below(root, CALIBRATED_PATH), "rb") as file:
        saved: "Dict[str, Any]" = fast_json.loads(file.read().decode("utf-8"))
    return saved


def calibrated_arm(root: str = "/") -> Arm:
    """The `Arm` to use now; malloc if nothing was measured, or if the measurement is no longer valid."""
    try:
        saved = _read(root)
        arm = Arm(saved["allocator"], saved["malloc_conf"], saved["why"], "")
        broken = saved["schema"] != 1 or arm.allocator not in ALLOCATOR_NAMES
        if broken or not all(isinstance(text, str) and "\0" not in text for text in arm.as_dict().values()):
            raise ValueError("not made by this gpu-run")
        fault = _out_of_date(saved, root)
    except FileNotFoundError:
        return Arm("none", "", "not calibrated on this machine: gpu-run --calibrate -- command", "")
    except OSError as error:
        return _lost(f"cannot be read: {error.strerror}")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return _lost("is damaged")
    return _lost("no longer holds: " + fault) if fault else arm


def _lost(fault: str) -> Arm:
    problem = f"{CALIBRATED_PATH} {fault}; the defaults are used until gpu-run --calibrate has run again"
    return Arm("none", "", "the calibration " + fault, problem)


def _other_machine(saved: "Dict[str, Any]", root: str) -> str:
    """What has changed in the machine since it was measured, "" if nothing has."""
    machine = machine_identity(root)
    for name in sorted(machine):
        if saved["machine"][name] != machine[name]:
            return f"{name} is {machine[name]}, it was {saved['machine'][name]}"
    return ""


def _out_of_date(saved: "Dict[str, Any]", root: str) -> str:
    """The same, and whether the library has changed."""
    fault = _other_machine(saved, root)
    if fault:
        return fault
    if saved["allocator"] != "none":
        # Imported here, since most starts preload nothing.
        from ..library_identity import library_identity

        path = saved["library"]["path"]
        if saved["library"] != library_identity(path, root):
            return f"{path} is not the file that was measured"
    return ""


def machine_identity(root: str = "/") -> "Dict[str, Optional[str]]":
    """What an allocator's speed depends on: {cpu, cpus, nodes, libc}; None for what cannot be read."""
    try:
        with open(below(root, "/proc/cpuinfo"), "rb") as file:
            lines = file.read(CPUINFO_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else None,
        "cpus": read_text(root, "/sys/devices/system/cpu/present"),
        "nodes": read_text(root, "/sys/devices/system/node/online"),
        "libc": os.confstr("CS_GNU_LIBC_VERSION"),
    }


def save(choice: "Dict[str, Any]", root: str = "/") -> None:
    """Write the calibration in one step, readable by all; LaunchError if that fails."""
    import json

    from ...host.whole_file import write_whole

    text = json.dumps(choice, indent=2, sort_keys=True) + "\n"
    try:
        write_whole(below(root, CALIBRATED_PATH), text.encode("utf-8"))
    except OSError as error:
        raise LaunchError(f"{CALIBRATED_PATH}: cannot be written: {error.strerror}")


def check_writable(root: str = "/") -> None:
    """Raise LaunchError at once, not after an hour of measuring, if the result could not be written."""
    folder = os.path.dirname(below(root, CALIBRATED_PATH))
    if not os.access(folder, os.W_OK):
        message = "--calibrate writes {}: run it as root, or with --dry-run to measure and write nothing"
        raise LaunchError(message.format(CALIBRATED_PATH))
