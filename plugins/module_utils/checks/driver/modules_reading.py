# SPDX-License-Identifier: Apache-2.0
"""What was requested of the kernel's modules, and their actual state: nvidia's parameters, and required modules."""

import os
from typing import Collection, Dict, Iterable, List, Optional

from ...host.files import exists, link_target, names_in, read_colon_lines, read_text, resolve
from ...host.patterns import lazily
from ...probe.nvidia import MODULE_NAMES

# modprobe.d(5): if two files have the same name, the one in the first of these folders counts.
FOLDERS = (
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
)
COMMAND_LINE = "/proc/cmdline"
PREFIX = "NVreg_"
# Only double quotes keep words together, both in modprobe's files and on the kernel's command line.
WORD = lazily(r'(?:[^\s"]|"[^"]*"?)+')
# nv-reg.h of the open kernel modules: the one parameter that the driver shows under another name.
SHOWN_AS = {"RestrictProfilingToAdminUsers": "RmProfilingAdminOnly"}
PARAMETERS = "/proc/driver/nvidia/params"
LOADED = "/sys/module"
BUILT_IN = "built in"
MODULE_NAME = lazily(r"[A-Za-z0-9_-]{1,64}")


def read_asked(root: str) -> List[Dict[str, str]]:
    """`[{name, value, source}]`: what modprobe's files and the kernel's command line ask of the module nvidia.

    Names are those that the driver shows. OSError for a file that cannot be read.
    """
    found = []
    for path in _configuration(root):
        for line in _text(root, path).replace("\\\n", " ").splitlines():
            words = WORD.findall(line)
            if words[:1] == ["options"] and words[1:2] and words[1] in MODULE_NAMES:
                found += [_parameter(word, path) for word in words[2:] if word.startswith(PREFIX)]
    for word in WORD.findall(_text(root, COMMAND_LINE)):
        module, _separator, rest = word.partition(".")
        if module in MODULE_NAMES and rest.startswith(PREFIX):
            found.append(_parameter(rest, COMMAND_LINE))
    return found


def _configuration(root: str) -> List[str]:
    """Paths of the files that modprobe reads, in the order of their names."""
    chosen: Dict[str, str] = {}
    for folder in FOLDERS:
        full = resolve(root, folder)
        # Not names_in: a folder that cannot be listed may contain parameters, so its error must be reported.
        for name in os.listdir(full) if full else ():
            if name.endswith(".conf"):
                chosen.setdefault(name, f"{folder}/{name}")
    return [chosen[name] for name in sorted(chosen)]


def _text(root: str, path: str) -> str:
    if link_target(root, path) == "/dev/null":
        # modprobe.d(5): this disables a file of the same name in another folder.
        return ""
    text = read_text(root, path)
    if text is None:
        raise OSError(f"{path} cannot be read")
    return text


def _parameter(word: str, source: str) -> Dict[str, str]:
    name, _separator, value = word[len(PREFIX) :].partition("=")
    return {"name": SHOWN_AS.get(name, name), "value": value.replace('"', ""), "source": source}


def read_parameters(root: str) -> Optional[Dict[str, str]]:
    """`{name: value}` as the loaded module shows them, texts in quotes; None if no module is loaded."""
    if not exists(root, "/proc/driver/nvidia/version"):
        return None
    found = read_colon_lines(read_text(root, PARAMETERS))
    if not found:
        raise OSError(f"{PARAMETERS} cannot be read")
    return found


def read_kernel_modules(root: str, names: Iterable[str]) -> Dict[str, Optional[str]]:
    """`{name: state}` of these modules: the kernel's word ("live"), "built in", or None for one that is missing."""
    loaded = names_in(root, LOADED)
    if not loaded:
        raise OSError(f"{LOADED} lists no module")
    kernel = read_text(root, "/proc/sys/kernel/osrelease")
    lines = (read_text(root, f"/lib/modules/{kernel}/modules.builtin") or "").splitlines()
    built_in = {_spelt(line.rpartition("/")[2].partition(".")[0]) for line in lines}
    return {name: _state(root, name, loaded, built_in) for name in names}


def _state(root: str, name: str, loaded: Collection[str], built_in: Collection[str]) -> Optional[str]:
    if not MODULE_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a module")
    state = f"{LOADED}/{_spelt(name)}/initstate"
    if exists(root, state):
        return read_text(root, state)
    return BUILT_IN if _spelt(name) in built_in or _spelt(name) in loaded else None


def _spelt(name: str) -> str:
    """The kernel treats both characters as equal, and writes the second."""
    return name.replace("-", "_")
