# SPDX-License-Identifier: Apache-2.0
"""grub's menu, and which of its entries starts by default: grub.cfg, its environment, and the loader's entries.

What grub.cfg says counts, not /etc/default/grub: nobody knows whether that was put into effect since. Its format is
that of grub-mkconfig; entries of the boot loader specification (EL) are in files of their own.
"""

import re
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ..host.files import exists, is_digits, names_in, read_assignments, read_text
from ..host.patterns import lazily
from ..packages.rpm_version import kernel_sort_key

ENTRIES_FOLDER = "/boot/loader/entries"
ENVIRONMENTS = ("/boot/grub2/grubenv", "/boot/grub/grubenv")
# The links of EL lead to the file that the firmware's grub reads.
EFI_MENU, MENUS = "/etc/grub2-efi.cfg", ("/etc/grub2.cfg", "/boot/grub2/grub.cfg", "/boot/grub/grub.cfg")
# A choice for one boot is not the default.
DEFAULT = lazily(r"(?m)^\s*set default=(['\"]?)(?!\$\{next_entry\})(.*?)\1\s*$")
SAVED = "${saved_entry}"
OPENS = lazily(r"(menuentry|submenu)\s+(?:'([^']*)'|\"([^\"]*)\"|(\S+))(.*)\{$")
ID = lazily(r"(?:\$menuentry_id_option|--id)\s+['\"]?([^'\"\s]+)")
LINUX = lazily(r"linux(?:16|efi)?\s+\S*vmlinuz-(\S+)")


class Entry(NamedTuple):
    """One entry of a menu: `names` by which it can be chosen, its kernel, and for a submenu what is in it."""

    names: Tuple[str, ...]
    kernel: List[str]
    entries: List[Any]


def read_boot_entry(root: str, installed: List[str]) -> Dict[str, str]:
    """Which entry grub starts by default: `{kind, text, kernel, first}`; all but kind are "" where it is not known.

    kind    newest: the first of the menu, whatever comes; saved: what grub's environment names; fixed: an entry or a
            place that is written down and stays; unknown: there is no menu that can be read
    text    as grub.cfg has it           kernel  that starts by it
    first   the kernel of the first entry
    """
    menu, text = _read_menu(root)
    if text is None or not menu:
        return {"kind": "unknown", "text": "", "kernel": "", "first": ""}
    first = _kernel_of(menu[0])
    chosen = text if text != SAVED else saved_entry(root)
    kernel = _kernel_of(_find(menu, chosen) or menu[0])
    found = {"text": text, "kernel": kernel if kernel in installed else "", "first": first}
    if text == SAVED:
        return dict(found, kind="saved")
    follows = bool(kernel) and kernel == first and kernel not in text
    return dict(found, kind="newest" if follows else "fixed")


def boot_entries(root: str) -> Dict[str, Tuple[str, str]]:
    """The boot loader's entries by name: the kernel that each boots, and its text."""
    entries = {}
    for name in names_in(root, ENTRIES_FOLDER):
        match = re.match(r"(.+)\.conf$", name)
        text = read_text(root, ENTRIES_FOLDER + "/" + name) or ""
        kernel = re.search(r"(?m)^linux\s+\S*vmlinuz-(\S+)", text)
        if match and kernel:
            entries[match.group(1)] = (kernel.group(1), text)
    return entries


def grub_environment(root: str) -> Dict[str, str]:
    """grub's variables that outlive a boot."""
    for path in ENVIRONMENTS:
        if exists(root, path):
            return read_assignments(root, path)
    return {}


def saved_entry(root: str) -> str:
    """The entry that grub keeps as its default; "" for none."""
    return grub_environment(root).get("saved_entry", "")


def saved_entry_kernel(root: str) -> Optional[str]:
    """The kernel of the boot loader's entry that grub keeps as its default, or None."""
    found = _find(_loader_menu(root), saved_entry(root))
    return _kernel_of(found) or None if found else None


def _read_menu(root: str) -> Tuple[List[Entry], Optional[str]]:
    """The menu, and the text of its default; None for the text where no file has one."""
    for path in ((EFI_MENU,) if exists(root, "/sys/firmware/efi") else ()) + MENUS:
        text = read_text(root, path) or ""
        defaults = DEFAULT.findall(text)
        if defaults:
            # EL's menu has its entries in files, and a custom script may add some more.
            loader = _loader_menu(root) if re.search(r"(?m)^\s*blscfg\b", text) else []
            return loader + _menu_in(iter(text.splitlines())), defaults[-1][1]
    return [], None


def _loader_menu(root: str) -> List[Entry]:
    """The loader's entries as grub sorts them, the newest kernel first."""
    found = []
    for name, (kernel, text) in boot_entries(root).items():
        title = re.search(r"(?m)^title\s+(.*?)\s*$", text)
        names = (name, title.group(1)) if title else (name,)
        found.append(Entry(names, [kernel], []))
    return sorted(found, key=lambda entry: kernel_sort_key(entry.kernel[0]), reverse=True)


def _menu_in(lines: Iterator[str]) -> List[Entry]:
    """What is in grub.cfg up to the end of this block; the entries of functions and conditions do not exist."""
    found = []
    for line in lines:
        word = line.strip()
        if word == "}":
            break
        opens = OPENS.match(word)
        if opens:
            ids = tuple(ID.findall(opens.group(5)))
            title = opens.group(2) or opens.group(3) or opens.group(4) or ""
            found.append(_block(ids + (title,), lines, opens.group(1) == "submenu"))
        elif word.endswith("{"):
            _menu_in(lines)
    return found


def _block(names: Tuple[str, ...], lines: Iterator[str], is_menu: bool) -> Entry:
    if is_menu:
        return Entry(names, [], _menu_in(lines))
    kernels = []
    for line in lines:
        word = line.strip()
        if word == "}":
            break
        match = LINUX.match(word)
        kernels += [match.group(1)] if match else []
    return Entry(names, kernels, [])


def _find(menu: List[Entry], text: str) -> Optional[Entry]:
    """The entry that "1>2", "TITLE", "ID" or "SUBMENU>ENTRY" names; None where grub would take the first."""
    found: Optional[Entry] = None
    for part in text.split(">"):
        if is_digits(part, 4):
            found = menu[int(part)] if int(part) < len(menu) else None
        else:
            found = next((entry for entry in menu if part in entry.names), None)
        if found is None:
            return None
        menu = found.entries
    return found


def _kernel_of(entry: Entry) -> str:
    """The kernel that an entry starts, for a submenu its first one; "" for another system's."""
    if entry.entries:
        return _kernel_of(entry.entries[0])
    return entry.kernel[0] if entry.kernel else ""
