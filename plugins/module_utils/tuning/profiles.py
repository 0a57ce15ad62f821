# SPDX-License-Identifier: Apache-2.0
"""Where the tuned of this host looks for profiles, and so where ours lies.

tuned 2.23 moved both of its folders one level down and made them an option (`profile_dirs`). EL 8 and 9 keep the
earlier ones with any version (tuned.spec). The packages of EL 10 and Debian 13 move the profiles of others, too,
unless one of that name is there already. So folders decide here, and no version.
"""

import configparser
import glob
import os
import re
from typing import Any, Dict, List

from ..host.files import below, exists, names_in, read_text
from .file_texts import HEAD

OWN = "/gpuwright/tuned.conf"
CONFIG = "/etc/tuned/tuned-main.conf"
OPTION = "profile_dirs"
# tuned's constants, in the folder of the Python that it runs with.
CODE = "/usr/lib/python*/*-packages/tuned/consts.py"
# (folder of the package, folder of the administrator); the later one takes precedence.
DEFAULTS = (("/usr/lib/tuned/profiles", "/etc/tuned/profiles"), ("/usr/lib/tuned", "/etc/tuned"))


class _Options(configparser.RawConfigParser):
    """tuned-main.conf as tuned reads it: no sections, names as they are written."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def folders(root: str) -> List[str]:
    """Every folder that this host's tuned looks into; the last one with a profile of that name counts."""
    chosen = _configured(root)
    if chosen and _knows_option(root):
        return chosen
    for known in DEFAULTS:
        if any(exists(root, f"{known[0]}/{name}/tuned.conf") for name in names_in(root, known[0])):
            return list(known)
    return list(DEFAULTS[-1])


def own_file(root: str) -> str:
    """The path of our profile: in the administrator's folder, if tuned reads one."""
    read = folders(root)
    return next((folder for folder in reversed(read) if folder.startswith("/etc/")), read[-1]) + OWN


def is_own(path: str) -> bool:
    """Whether `path` is that of our profile, wherever tuned looks or has looked."""
    return path.endswith(OWN)


def follow(root: str, before: Dict[str, Any]) -> None:
    """Bring the record of `store.load` to where our profile is now: an upgrade of tuned may have moved its folder."""
    places = [folder + OWN for folder in sorted(set(folders(root)).union(*DEFAULTS))]
    for old in [path for path in before["files"] if is_own(path)]:
        for new in places:
            if new in before["files"] or not (read_text(root, new) or "").startswith(HEAD.strip()):
                continue
            moved = not os.path.lexists(below(root, old))
            before["files"][new] = before["files"].pop(old) if moved else None
            ours = {os.path.dirname(old)} & set(before["folders"]) if moved else set()
            if ours or not moved:
                before["folders"] = sorted((set(before["folders"]) - ours) | {os.path.dirname(new)})
            if moved:
                break


def _knows_option(root: str) -> bool:
    """Whether tuned's own code names the option; an older tuned ignores it, as where one file serves all nodes."""
    code = ["/" + os.path.relpath(path, root) for path in glob.glob(below(root, CODE))]
    return not code or any(OPTION in (read_text(root, path) or "") for path in code)


def _configured(root: str) -> List[str]:
    """`profile_dirs` of tuned-main.conf; empty if it is not set or the file is none that tuned could read."""
    parser = _Options(delimiters=("=",), inline_comment_prefixes=("#",), strict=False)
    try:
        parser.read_string("[main]\n" + (read_text(root, CONFIG) or ""))
    except configparser.Error:
        return []
    words = (word.strip() for word in re.split("[,;]", parser.get("main", OPTION, fallback="")))
    return [os.path.normpath(word) for word in words if word.startswith("/")]
