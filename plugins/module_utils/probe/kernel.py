# SPDX-License-Identifier: Apache-2.0
"""Which kernels are installed, and which one boots next."""

import re
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence

from ..host.files import exists, names_in, read_text
from ..packages.rpm_version import kernel_sort_key
from .boot_menu import boot_entries, grub_environment, read_boot_entry, saved_entry_kernel
from .kernel_packages import read_kernel_packages

# Runs a program of the host: both streams together, None if it is missing or too slow.
Ask = Callable[[Sequence[str]], Optional[str]]


def read_kernel(root: str, ask: Ask, family: str = "", others: Sequence[str] = ()) -> Dict[str, Any]:
    """The `kernel` part of the probe; `ask` runs a program and returns its output or None.

    family  of the system, redhat or debian: whose package manager says to which packages the kernels belong
    with_headers covers the kernels running and installed, and `others`.
    """
    running = read_text(root, "/proc/sys/kernel/osrelease") or "unknown"
    installed = installed_kernels(root)
    entry = read_boot_entry(root, installed)
    next_boot = next_boot_kernel(root, ask, installed, running, entry)
    known = sorted({running, *installed, *others}, key=kernel_sort_key)
    packages = read_kernel_packages(family, ask, sorted({next_boot, *known}, key=kernel_sort_key))
    return {
        "running": running,
        "next_boot": next_boot,
        "installed": installed,
        "with_headers": kernels_with_headers(root, known),
        "boot_id": read_text(root, "/proc/sys/kernel/random/boot_id"),
        "build": read_text(root, "/proc/sys/kernel/version"),
        "boot_entry": {name: entry[name] for name in ("kind", "text", "first")},
        "owners": packages["owners"],
        "metapackages": packages["metapackages"],
    }


def installed_kernels(root: str) -> List[str]:
    """Kernels that can boot, that is with modules and an image, oldest first."""
    found = []
    for release in names_in(root, "/lib/modules"):
        images = ("/boot/vmlinuz-" + release, f"/lib/modules/{release}/vmlinuz")
        if any(exists(root, image) for image in images):
            found.append(release)
    return sorted(found, key=kernel_sort_key)


def kernels_with_headers(root: str, releases: Iterable[str]) -> List[str]:
    """Those of `releases` against which a module can be built: their build folder has its Makefile."""
    places = ("/lib/modules/{}/build/Makefile", "/usr/src/kernels/{}/Makefile")
    return [release for release in releases if any(exists(root, place.format(release)) for place in places)]


def next_boot_kernel(root: str, ask: Ask, installed: Sequence[str], running: str, entry: Mapping[str, str]) -> str:
    """The kernel that starts by default: as grub's menu has it, on EL where this is a saved entry as grubby says.

    Without either the boot loader's entries tell, else it is the newest installed. `entry` is from read_boot_entry.
    """
    if entry["kernel"] and entry["kind"] in ("fixed", "newest"):
        return entry["kernel"]
    answer = ask(["grubby", "--default-kernel"]) or ""
    match = re.search(r"(?m)^/\S*vmlinuz-(\S+)$", answer)
    if match:
        return match.group(1)
    return entry["kernel"] or saved_entry_kernel(root) or (installed[-1] if installed else running)


def boot_arguments(root: str) -> Dict[str, List[str]]:
    """Arguments with which each installed kernel boots, as the boot loader's entries say; {} where it has none."""
    variables = grub_environment(root)
    found: Dict[str, List[str]] = {}
    for kernel, text in boot_entries(root).values():
        options = re.search(r"(?m)^options[ \t]+(.*)$", text)
        # An image to rescue the system with has no modules of its own.
        if not options or not exists(root, "/lib/modules/" + kernel):
            continue
        # EL 8 keeps what all kernels share in grub's environment: "options $kernelopts $tuned_params".
        words = re.sub(r"\$(\w+)", lambda name: variables.get(name.group(1), ""), options.group(1)).split()
        found.setdefault(kernel, words)
    return found
