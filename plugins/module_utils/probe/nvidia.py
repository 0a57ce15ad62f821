# SPDX-License-Identifier: Apache-2.0
"""The NVIDIA driver in its three places: loaded in the kernel, built on disk for a kernel, installed as libraries."""

import os
import re
from typing import Any, Dict, Iterable, List, Optional

from ..gpu.driver_parts import of_driver
from ..host.files import below, exists, names_in, read_colon_lines, read_text, resolve
from ..host.patterns import lazily
from ..packages.rpm_version import kernel_sort_key
from ..packages.state import half_replaced
from .kernel import Ask, boot_arguments

VERSION = lazily(r"\b([0-9]{3,4}\.[0-9]{1,4}(?:\.[0-9]{1,4})?)\b")
# Debian keeps several branches side by side and links one of them through its alternatives.
LIBRARY_FOLDERS = (
    "/usr/lib64",
    "/usr/lib64/nvidia",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/x86_64-linux-gnu/nvidia/tesla-535",
    "/usr/lib/x86_64-linux-gnu/nvidia/tesla-470",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
)
# Debian builds nvidia-current.ko; modprobe loads it if asked for nvidia (nvidia-modprobe.conf). Then older branches.
MODULE_NAMES = ("nvidia", "nvidia-current", "nvidia-current-open", "nvidia-tesla-535", "nvidia-tesla-470")
# Its scriptlet sets this argument for every kernel, and hides it if that fails.
BLOCKING_PACKAGE = "nvidia-kmod-common"
BLOCKING_ARGUMENT = "rd.driver.blacklist"
DKMS_LINE = lazily(
    # dkms 3: "nvidia/580.95.05, 4.18.0-477.el8.x86_64, x86_64: installed (note)"; dkms 2: a comma after the name.
    # "installed-weak from 4.18.0-372.el8.x86_64" is another kernel's module, used through a link.
    r"(?P<module>[\w.+-]+)(?:/|, )(?P<version>[\w.+~-]+)(?:, (?P<kernel>[\w.+~-]+), (?P<arch>\w+))?: *(?P<state>[\w-]+)"
)


def read_nvidia(root: str, ask: Ask, kernels: Iterable[str], dkms: bool = True) -> Dict[str, Any]:
    """The `nvidia` part of the probe; `kernels` are those for which the module file is looked up.

    `dkms`: whether DKMS is asked, a shell script that takes longer than the rest; null otherwise.
    """
    return {
        "loaded": read_loaded(root),
        "uvm_loaded": exists(root, "/sys/module/nvidia_uvm"),
        "device_nodes": read_device_nodes(root),
        "modules": {kernel: read_module_file(ask, kernel) for kernel in kernels},
        "dkms": parse_dkms_status(ask(["dkms", "status"])) if dkms else None,
        "user_space": read_user_space(root),
        "nvidia_smi": exists(root, "/usr/bin/nvidia-smi"),
        "half_replaced": [name for name in half_replaced(ask, root) if of_driver(name)],
        "nouveau_unblocked": read_nouveau_unblocked(root, ask),
    }


def read_loaded(root: str) -> Optional[Dict[str, str]]:
    """Version and flavour of the module in the kernel, or None if there is none."""
    text = read_text(root, "/proc/driver/nvidia/version")
    first_line = (text or "").split("\n")[0]
    match = VERSION.search(first_line)
    if match:
        flavour = "open" if "Open Kernel Module" in first_line else "proprietary"
        return {"version": match.group(1), "flavour": flavour}
    if text is None and not exists(root, "/sys/module/nvidia"):
        return None
    # The kernel sets its taint flag P for a module under a proprietary licence.
    taint = read_text(root, "/sys/module/nvidia/taint")
    flavour = "unknown" if taint is None else ("proprietary" if "P" in taint else "open")
    return {"version": read_text(root, "/sys/module/nvidia/version") or "unknown", "flavour": flavour}


def read_device_nodes(root: str) -> List[str]:
    """Paths of NVIDIA's device files; folders such as /dev/nvidia-caps are left out."""
    names = [name for name in names_in(root, "/dev") if name.startswith("nvidia")]
    return ["/dev/" + name for name in names if not os.path.isdir(below(root, "/dev/" + name))]


def read_module_fields(ask: Ask, kernel: str) -> Dict[str, str]:
    """What `modinfo` says about the nvidia module of a kernel, by field; empty if there is no such file."""
    for name in MODULE_NAMES:
        fields = read_colon_lines(ask(["modinfo", "-k", kernel, name]))
        if fields.get("version"):
            return fields
    return {}


def read_module_file(ask: Ask, kernel: str) -> Optional[Dict[str, str]]:
    """Version and flavour of the nvidia module file of a kernel, or None if there is no such file."""
    fields = read_module_fields(ask, kernel)
    if not fields:
        return None
    licence = fields.get("license", "")
    return {"version": fields["version"], "flavour": flavour_of_licence(licence), "licence": licence}


def read_nouveau_unblocked(root: str, ask: Ask) -> List[str]:
    """Installed kernels that boot without the argument with which the driver's package blocks nouveau.

    Empty where the driver has no such package: what blocks nouveau there is its installer's affair.
    """
    found = [kernel for kernel, words in boot_arguments(root).items() if not _blocks_nouveau(words)]
    # A program that is not installed prints no version, either.
    if found and not (ask(["rpm", "-q", BLOCKING_PACKAGE]) or "").startswith(BLOCKING_PACKAGE + "-"):
        return []
    return sorted(found, key=kernel_sort_key)


def _blocks_nouveau(arguments: Iterable[str]) -> bool:
    pairs = [argument.partition("=") for argument in arguments]
    return any(name == BLOCKING_ARGUMENT and "nouveau" in value.split(",") for name, _, value in pairs)


def flavour_of_licence(licence: str) -> str:
    """proprietary, open or unknown, from the licence that the module declares."""
    if licence == "NVIDIA":
        return "proprietary"
    return "open" if "GPL" in licence else "unknown"


def parse_dkms_status(text: Optional[str]) -> List[Dict[str, Optional[str]]]:
    """The nvidia modules in `dkms status` of dkms 2 and 3; kernel is None for a module that is only added."""
    found = []
    for line in (text or "").splitlines():
        match = DKMS_LINE.match(line.strip())
        if match and match.group("module").startswith("nvidia"):
            found.append({name: match.group(name) for name in ("module", "version", "kernel", "state")})
    return found


def read_user_space(root: str) -> Optional[str]:
    """Version of the libraries: that of the file to which the link libnvidia-ml.so.1 leads; None if there is none."""
    for folder in LIBRARY_FOLDERS:
        library = resolve(root, folder + "/libnvidia-ml.so.1")
        match = re.search(r"libnvidia-ml\.so\.([0-9.]+)$", library or "")
        if match and VERSION.match(match.group(1)):
            return match.group(1)
    return None
