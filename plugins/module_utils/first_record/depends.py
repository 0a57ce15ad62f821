# SPDX-License-Identifier: Apache-2.0
"""All of a node that the result of a smoke test depends on, as digests: one look before the test, and one after it."""

import hashlib
import json
import os
from typing import Any, Callable, Dict, List, Mapping, Optional

from ..gpu.nvidia_smi.query import query
from ..host.bounded import run_bounded
from ..host.files import below, exists, names_in, read_bytes, read_text
from ..readings.kernel_log.log import read_kernel_log
from ..training.sandbox import SandboxError, read_service
from ..training.smoke import OPTIONS
from ..verdict.boot_check import read_moment
from . import effective
from .stamp import parts_now

# Of a card: what is set on it, what it is, and what a reset or a new start of the driver begins again.
OF_CARD = ("uuid", "serial", "name", "pci_id", "memory_total_mib", "power_limit_w", "persistence_mode", "ecc_mode",
           "mig_mode", "ecc_uncorrected_volatile", "retired_pages_pending", "remapped_rows_pending",
           "remapped_rows_failure", "recovery_action", "lost")  # fmt: skip
OF_HEALTH = ("vbios", "inforom_image", "gsp_firmware", "virtualization", "vgpu_license", "addressing_mode",
             "compute_mode", "mig_pending", "ecc_pending", "clocks_applied", "clocks_default", "ecc_corrected_volatile",
             "mig_uncorrected_volatile", "power_default_w", "module_power_limit_w")  # fmt: skip
# A reset of cards, and a new start of the driver, end what holds them open.
HOLDERS = ("nvidia-persistenced.service", "nvidia-fabricmanager.service")
# What the dynamic loader gives every program, beside what packages bring.
LOADER = ("/etc/ld.so.cache", "/etc/ld.so.preload")
DRIVER = ("/proc/driver/nvidia/version", "/proc/driver/nvidia/params")

Smi = Callable[[], Dict[str, Any]]
KernelLog = Callable[[str], Optional[Dict[str, Any]]]


def look_at_all(
    options: Mapping[str, Any],
    root: str = "/",
    run: effective.RunProgram = run_bounded,
    smi: Smi = query,
    kernel_log: KernelLog = read_kernel_log,
) -> Dict[str, str]:
    """`{part: digest}` of all that a smoke test with these options depends on; {} where something cannot be read.

    options  of the test, as gpu_verify has them
    """
    try:
        # Files, links, packages, units, settings, accounts and trees, as the stamp has them.
        found = parts_now({*(options.get("names") or ()), options["user"]}, root, run)
        others = {
            "boot": _boot(root),
            "cards": _cards(root, run, smi, options["device"] == "cuda"),
            "kernel_log": _findings(kernel_log(root)),
            "loader": [_content(root, path) for path in LOADER],
            "modules": _modules(root),
            "options": {name: value for name, value in options.items() if name in OPTIONS},
            "sandbox": _sandbox(root, options.get("unit") or "", run),
        }  # type: Dict[str, Any]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    found.update({name: _digest(value) for name, value in others.items()})
    return found if all(found.values()) else {}


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _boot(root: str) -> List[str]:
    """The boot and the kernel, which a kexec changes, too."""
    boot, kernel = read_moment(root)["boot_id"], read_text(root, "/proc/sys/kernel/osrelease")
    if not boot or not kernel:
        raise ValueError("which boot this is cannot be read")
    return [boot, kernel]


def _cards(root: str, run: effective.RunProgram, smi: Smi, needed: bool) -> Dict[str, Any]:
    """What nvidia-smi says of each card, and since when the cards and their holders are there."""
    told = smi()
    if needed and not (told["reachable"] and told["gpus"]):
        raise ValueError(str(told["message"]))
    cards = [[[gpu[name] for name in OF_CARD], [gpu["health"].get(name) for name in OF_HEALTH]] for gpu in told["gpus"]]
    done = run(["systemctl", "show", "--property", "Id,InvocationID,ActiveEnterTimestampMonotonic", "--", *HOLDERS],
               effective.SECONDS)  # fmt: skip
    if done.rc != 0:
        raise OSError(done.problem or "systemctl show failed")
    # The mode alone does not say how a card is cut.
    cut = any(gpu["mig_mode"] == "Enabled" for gpu in told["gpus"])
    slices = run(["nvidia-smi", "-L"], effective.SECONDS) if cut else None
    if slices is not None and slices.rc != 0:
        raise OSError(slices.problem or "nvidia-smi -L failed")
    places = {gpu["pci_id"]: _identity(root, f"/sys/bus/pci/devices/{gpu['pci_id']}") for gpu in told["gpus"]}
    return {
        "cards": cards,
        "status": [told["status"], told["driver_version"]],
        "holders": done.stdout,
        "places": places,
        "slices": slices.stdout if slices else "",
    }


def _findings(log: Optional[Mapping[str, Any]]) -> Any:
    """Every event that the kernel's log has for the checks; None in a container, whose log is elsewhere."""
    if log is None:
        return None
    return [log[name] for name in ("xids", "sxids", "findings", "whole")]


def _content(root: str, path: str) -> str:
    content = read_bytes(root, path)
    return effective.ABSENT if content is None else hashlib.sha256(content).hexdigest()


def _modules(root: str) -> Dict[str, Any]:
    """The driver's modules in the kernel: which, and since when. sysfs has a new node for each load of a module."""
    names = [name for name in names_in(root, "/sys/module") if name.startswith(("nvidia", "nouveau"))]
    loaded = {}
    for name in names:
        folder = f"/sys/module/{name}"
        loaded[name] = [
            _identity(root, folder),
            *(read_text(root, f"{folder}/{file}") for file in ("version", "srcversion")),
        ]
    # The last column is where in memory the module lies.
    lines = (line.split() for line in (read_text(root, "/proc/modules") or "").splitlines())
    places = {words[0]: words[5] for words in lines if words and words[0] in loaded and len(words) > 5}
    return {"loaded": loaded, "places": places, "driver": [read_text(root, path) for path in DRIVER]}


def _identity(root: str, path: str) -> Optional[int]:
    try:
        return os.stat(below(root, path)).st_ino
    except FileNotFoundError:
        return None


def _sandbox(root: str, unit: str, run: effective.RunProgram) -> Any:
    """The settings under which the test runs, and the drop-ins that systemd knows for them."""
    if not unit:
        return None
    instance = os.path.basename(unit).replace("@.", "@gpuwright-smoke.")
    done = run(
        ["systemctl", "show", "--property", "FragmentPath,DropInPaths,LoadState", "--", instance], effective.SECONDS
    )
    if done.rc != 0:
        raise OSError(done.problem or "systemctl show failed")
    try:
        settings: Any = list(read_service(unit, root)) if exists(root, unit) else effective.ABSENT
    except SandboxError as error:
        settings = str(error)
    return [settings, done.stdout]
