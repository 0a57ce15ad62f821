# SPDX-License-Identifier: Apache-2.0
"""Which kernels are installed, and which one boots next."""

import re
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from ..host.files import exists, names_in, read_assignments, read_text, to_int
from ..host.rpm_version import kernel_sort_key

ENTRIES_FOLDER = "/boot/loader/entries"
GRUB_ENVIRONMENT = "/boot/grub2/grubenv"
# Runs a program of the host: both streams together, None if it is missing or too slow.
Ask = Callable[[Sequence[str]], Optional[str]]


def read_kernel(root: str, ask: Ask, others: Sequence[str] = ()) -> Dict[str, Any]:
    """The `kernel` part of the probe; `ask` runs a program and returns its output or None.

    with_headers covers the kernels running and installed, and `others`.
    """
    running = read_text(root, "/proc/sys/kernel/osrelease") or "unknown"
    installed = installed_kernels(root)
    return {
        "running": running,
        "next_boot": next_boot_kernel(root, ask, installed, running),
        "installed": installed,
        "with_headers": kernels_with_headers(root, sorted({running, *installed, *others}, key=kernel_sort_key)),
        "boot_id": read_text(root, "/proc/sys/kernel/random/boot_id"),
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


def next_boot_kernel(root: str, ask: Ask, installed: Sequence[str], running: str) -> str:
    """The default boot entry's kernel: from grubby, else from the boot loader's files, else the newest installed."""
    answer = ask(["grubby", "--default-kernel"]) or ""
    match = re.search(r"(?m)^/\S*vmlinuz-(\S+)$", answer)
    if match:
        return match.group(1)
    return _saved_entry_kernel(root) or (installed[-1] if installed else running)


def boot_arguments(root: str) -> Dict[str, List[str]]:
    """Arguments with which each installed kernel boots, as the boot loader's entries say; {} where it has none."""
    variables = read_assignments(root, GRUB_ENVIRONMENT)
    found: Dict[str, List[str]] = {}
    for kernel, text in _entries(root).values():
        options = re.search(r"(?m)^options[ \t]+(.*)$", text)
        # An image to rescue the system with has no modules of its own.
        if not options or not exists(root, "/lib/modules/" + kernel):
            continue
        # EL 8 keeps what all kernels share in grub's environment: "options $kernelopts $tuned_params".
        words = re.sub(r"\$(\w+)", lambda name: variables.get(name.group(1), ""), options.group(1)).split()
        found.setdefault(kernel, words)
    return found


def _entries(root: str) -> Dict[str, Tuple[str, str]]:
    """The boot loader's entries by name: the kernel that each boots, and its text."""
    entries = {}
    for name in names_in(root, ENTRIES_FOLDER):
        match = re.match(r"(.+)\.conf$", name)
        text = read_text(root, ENTRIES_FOLDER + "/" + name) or ""
        kernel = re.search(r"(?m)^linux\s+\S*vmlinuz-(\S+)", text)
        if match and kernel:
            entries[match.group(1)] = (kernel.group(1), text)
    return entries


def _saved_entry_kernel(root: str) -> Optional[str]:
    """The kernel of the boot entry that grub saved as its default, or None."""
    saved = read_assignments(root, GRUB_ENVIRONMENT).get("saved_entry", "")
    entries = {name: kernel for name, (kernel, _) in _entries(root).items()}
    position = to_int(saved)
    if position is not None:
        # A number counts from the top of the menu, which has the newest kernel first.
        menu = sorted(entries.values(), key=kernel_sort_key, reverse=True)
        return menu[position] if 0 <= position < len(menu) else None
    return entries.get(saved)
