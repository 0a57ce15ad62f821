# SPDX-License-Identifier: Apache-2.0
"""The driver's module, built by DKMS for every kernel that may boot: what is missing, built, and proved by its file.

The package manager's success proves nothing: a package's scriptlet hides a failed build. So the module file is asked.
"""

import os
import shutil
from typing import Callable, Dict, List, NamedTuple, Sequence

from ..host.files import below, exists, names_in, read_text
from ..probe.kernel import Ask
from ..probe.nvidia import flavour_of_licence, parse_dkms_status, read_module_fields, read_user_space

DKMS = "/var/lib/dkms"
SOURCES = "/usr/src"
LOG = "make.log"
LOG_LINES = 40
# Of the builder's own words, which say why there is no log.
WORD_LINES = 8
# Runs a builder to its end, and gives back what it said.
Run = Callable[[Sequence[str]], str]


class Wanted(NamedTuple):
    """Which module is to be there.

    kernels  releases, each of which may boot
    version  exact, such as 580.95.05, or a branch with its dot, such as "580."
    flavour  open or proprietary; empty for either
    """

    kernels: List[str]
    version: str
    flavour: str


class Outcome(NamedTuple):
    """What came of it: releases that have their module now and had not, releases that have none, and the evidence.

    dkms  what `dkms status` said before
    log   the builder's own words, and the end of the log that this build has written; empty if nothing is unbuilt
    """

    built: List[str]
    unbuilt: List[str]
    dkms: str
    log: str


def build(root: str, wanted: Wanted, ask: Ask, run: Run, check: bool = False) -> Outcome:
    """Build what is missing; in check mode, only say what. OSError: a half-built folder cannot be removed."""
    missing = [kernel for kernel in wanted.kernels if not _fits(ask, kernel, wanted)]
    status = (ask(["dkms", "status"]) or "").strip() if missing else ""
    version = read_user_space(root) or ""
    name = _name(root, status, version, wanted.flavour) if missing else ""
    if not name and not parse_dkms_status(status):
        # Nothing could be built here: a package's link, whose symbols weak-modules has compared, is all there is.
        missing = [kernel for kernel in missing if not _fits(ask, kernel, wanted, weak=True)]
    if check or not missing:
        return Outcome([], missing, status, "")
    originals = os.path.join(below(root, DKMS), name, "original_module") if name else ""
    theirs = bool(originals) and os.path.lexists(originals)
    earlier = _logs(root)
    words = [run(_command(root, kernel, name, version, status)) for kernel in missing]
    unbuilt = [kernel for kernel in missing if not _fits(ask, kernel, wanted)]
    if originals and not theirs:
        # DKMS keeps another version's file as if it were somebody else's, and would put it back one day.
        _remove(originals)
    said = _said(words, _new_log(_logs(root), earlier)) if unbuilt else ""
    return Outcome([kernel for kernel in missing if kernel not in unbuilt], unbuilt, status, said)


def _fits(ask: Ask, kernel: str, wanted: Wanted, weak: bool = False) -> bool:
    """Whether the kernel has the module, of a build of its own; with `weak`, another kernel's by a link will do."""
    found = read_module_fields(ask, kernel)
    if not found or (wanted.flavour and flavour_of_licence(found.get("license", "")) != wanted.flavour):
        return False
    # On RHEL and its rebuilds, weak-modules links a module that was built for another kernel.
    built_for = found.get("vermagic", "").partition(" ")[0]
    if built_for not in ("", kernel) and not (weak and "/weak-updates/" in found.get("filename", "")):
        return False
    version = found["version"]
    return version.startswith(wanted.version) if wanted.version.endswith(".") else version == wanted.version


def _name(root: str, status: str, version: str, flavour: str) -> str:
    """Under which name DKMS has this version, or could have it; empty if under none that can be told."""
    known = {str(row["module"]) for row in parse_dkms_status(status) if row["version"] == version}
    # As after a transaction that was killed before its scriptlets: the source is there, and DKMS never heard of it.
    known = known or {
        name[: -len(version) - 1]
        for name in names_in(root, SOURCES)
        if version and name.startswith("nvidia") and name.endswith("-" + version)
        if exists(root, f"{SOURCES}/{name}/dkms.conf")
    }
    return min(known, key=lambda name: (("open" in name) != (flavour == "open"), name), default="")


def _command(root: str, kernel: str, name: str, version: str, status: str) -> List[str]:
    if not name:
        # Somebody else's installer gave other names: DKMS builds what it knows.
        return ["dkms", "autoinstall", "--kernelver", kernel]
    rows = parse_dkms_status(status)
    if not any((row["module"], row["version"], row["kernel"]) == (name, version, kernel) for row in rows):
        # DKMS builds nothing where a folder is, also that of a build that was killed.
        _remove(os.path.join(below(root, DKMS), name, version, kernel))
    # Without force, it leaves a newer version's file in its place, as after a boot in the middle of a downgrade.
    return ["dkms", "install", "--force", "-m", name, "-v", version, "-k", kernel]


def _remove(path: str) -> None:
    if os.path.islink(path):
        os.unlink(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)


def _logs(root: str) -> Dict[str, float]:
    """When each log of a build was written. DKMS keeps one by version while it builds, and another by kernel."""
    modules = below(root, DKMS)
    return {
        os.path.join(folder, LOG): os.path.getmtime(os.path.join(folder, LOG))
        for module in names_in(root, DKMS)
        if module.startswith("nvidia")
        for folder, _, files in os.walk(os.path.join(modules, module))
        if LOG in files
    }


def _new_log(now: Dict[str, float], before: Dict[str, float]) -> str:
    """The log that was written since; "" where DKMS stopped before it wrote one, as without the kernel's headers."""
    new = [path for path, written in now.items() if before.get(path) != written]
    newest = max(new, key=lambda path: now[path], default="")
    return read_text("/", newest) or "" if newest else ""


def _said(words: Sequence[str], log: str) -> str:
    spoken = [line for line in "\n".join(words).splitlines() if line.strip()][-WORD_LINES:]
    return "\n".join([*spoken, *log.strip().splitlines()[-LOG_LINES:]])
