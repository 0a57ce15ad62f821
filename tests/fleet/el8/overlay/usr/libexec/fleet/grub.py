"""What grub starts by its menu, grub.cfg, and its environment, where the programs that write both are grub's own.

Runs on Python 3.6.
"""

import re
import subprocess
from collections import namedtuple

MENU = "/boot/grub/grub.cfg"
ENVIRONMENT = "/boot/grub/grubenv"
OPENS = re.compile(r"(menuentry|submenu) '([^']*)'.*\$menuentry_id_option '([^']*)' \{$")
LINUX = re.compile(r"linux\s+\S*vmlinuz-(\S+)\s*(.*)$")

# names: title and id; entries: of a submenu.
Entry = namedtuple("Entry", "names release arguments entries")


def environment():
    """grub's variables that outlive a boot."""
    answer = subprocess.run(["grub-editenv", ENVIRONMENT, "list"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return dict(line.split("=", 1) for line in answer.stdout.decode().splitlines() if "=" in line)


def read_menu(lines):
    """The entries up to the end of this block; `lines` is an iterator."""
    found = []
    for line in lines:
        word = line.strip()
        if word == "}":
            break
        opens = OPENS.match(word)
        if opens:
            names = (opens.group(2), opens.group(3))
            found.append(
                Entry(names, "", "", read_menu(lines)) if opens.group(1) == "submenu" else read_entry(names, lines)
            )
        elif word.endswith("{"):
            read_menu(lines)
    return found


def read_entry(names, lines):
    release = arguments = ""
    for line in lines:
        word = line.strip()
        if word == "}":
            break
        linux = LINUX.match(word)
        if linux:
            release, arguments = linux.groups()
    return Entry(names, release, arguments, [])


def chosen(menu, text):
    """The entry that "0", "1>2", an id or a title names; as grub does, the first of all where nothing has that name."""
    entries, found = menu, None
    for part in text.split(">"):
        if part.isdigit():
            found = entries[int(part)] if int(part) < len(entries) else None
        else:
            found = next((entry for entry in entries if part in entry.names), None)
        entries = found.entries if found else []
    found = found or menu[0]
    while found.entries:
        found = found.entries[0]
    return found


def starts():
    """`[(release, arguments)]` in the order in which they are tried: what is chosen for this boot alone, the default."""
    with open(MENU) as stream:
        text = stream.read()
    menu = read_menu(iter(text.splitlines()))
    known = environment()
    default = re.findall(r'(?m)^\s*set default="([^"]*)"', text)[-1]
    default = known.get("saved_entry", "0") if default == "${saved_entry}" else default
    once = known.get("next_entry", "")
    if once:
        subprocess.run(["grub-editenv", ENVIRONMENT, "unset", "next_entry"], check=True)
    names = [name for name in (once, default) if name]
    return [(entry.release, entry.arguments) for entry in (chosen(menu, name) for name in names)]
