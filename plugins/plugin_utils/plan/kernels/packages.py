# SPDX-License-Identifier: Apache-2.0
"""Which packages belong to the kernels of a host: headers, what brings newer ones, what a hold holds.

Flavours and names: roles/preflight/files/matrix/kernels.yml. The host says whose a kernel is (gpu_probe: kernel.owners
and kernel.metapackages). What is not known has no names: nothing here guesses those of another flavour.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.gpuwright.node.plugins.module_utils.packages.rpm_version import kernel_sort_key

# "6.1.0-56-cloud-amd64": the version ends where a word begins.
PARTS = re.compile(r"[0-9].*?-(?P<flavour>[a-z].*)$")
# "5.15.0" and "6.8.0" are series that Ubuntu updates beside each other under one flavour.
SERIES = re.compile(r"[0-9]+(\.[0-9]+)*")
MATRIX_FILE = "roles/preflight/files/matrix/kernels.yml"


class Kernels(NamedTuple):
    """The table of a family of systems, and what a host (`kernel` of its probe) says of its kernels."""

    table: Mapping[str, Any]
    by_rpm: bool
    node: Mapping[str, Any]
    machine: str
    # A kernel that an image is made for; it may not be there yet.
    target: str

    def owner(self, release: str) -> Mapping[str, str] | None:
        return (self.node.get("owners") or {}).get(release)

    def is_known(self) -> bool:
        """Whether the host said to which packages its kernels belong."""
        return self.node.get("owners") is not None

    def metapackages(self) -> list[tuple[str, Mapping[str, Any]]]:
        """(stem, record) of the installed metapackages that bring an image."""
        if self.by_rpm:
            return []
        start = self.table["image"][0].partition("{stem}")[0]
        rows = self.node.get("metapackages") or []
        if "owners" not in self.node:
            # A host that does not exist has what its system is installed with.
            running = self.node["running"]
            rows = [{"name": start + self.flavour(running), "version": "", "brings": [running]}]
        return [(row["name"][len(start) :], row) for row in rows if row["name"].startswith(start)]

    def flavour(self, release: str) -> str:
        """The key of the row that a kernel fits; "" for none."""
        owner, rows = self.owner(release), self.table["flavours"]
        if not self.is_known():
            # A host that does not exist, or of which only a listing is known, has no packages to ask for.
            usual = "" if "owners" in self.node else self.table["usual"][self.machine]
            return self._by_release(release) or usual
        if owner is None:
            is_asked_for = release == self.target and release not in self.node.get("installed", ())
            return self._by_release(release) if is_asked_for else ""
        if self.by_rpm:
            return next((name for name, row in rows.items() if owner["package"] in row["owner"]), "")
        # The metapackage that depends on the image decides, whatever the release is called.
        for stem, row in self.metapackages():
            if release in row["brings"]:
                return next((name for name, known in rows.items() if _fits(stem, known)), "")
        pattern = self.table["owner"].replace("{release}", re.escape(release))
        return self._by_release(release) if re.match(pattern, owner["package"]) else ""

    def _by_release(self, release: str) -> str:
        rows = self.table["flavours"]
        if not self.by_rpm:
            parts = PARTS.match(release)
            return parts.group("flavour") if parts and parts.group("flavour") in rows else ""
        found = [name for name, row in rows.items() if re.search(row["releases"], release)]
        return found[0] if len(found) == 1 else ""

    def followed(self, release: str) -> list[tuple[str, Mapping[str, Any]]]:
        """The metapackages that bring newer kernels after this one: those that brought it, else a later one like it."""
        row = self.table["flavours"].get(self.flavour(release))
        if self.by_rpm or not row:
            return []
        own = [(stem, meta) for stem, meta in self.metapackages() if _fits(stem, row)]
        later = [(stem, meta) for stem, meta in own if _newest(meta["brings"], release) != release]
        alike = [
            (stem, meta) for stem, meta in later if any(_series(new) == _series(release) for new in meta["brings"])
        ]
        return [(stem, meta) for stem, meta in own if release in meta["brings"]] or alike or later

    def names(self, key: str, release: str) -> list[str]:
        """The packages of a list of the table, for the flavour of one kernel."""
        flavour = self.flavour(release)
        if self.by_rpm:
            return [name.format(name=flavour) for name in self.table[key]] if flavour else []
        return [name.format(stem=stem) for stem, _meta in self.followed(release) for name in self.table[key]]

    def devel(self, release: str) -> str:
        """The package of a kernel's headers; "" for a flavour that is not known."""
        flavour = self.flavour(release)
        plain = release.partition("+")[0] if self.by_rpm else release
        return self.table["devel"].format(name=flavour, release=plain) if flavour else ""

    def newest(self, release: str) -> str:
        """The newest installed kernel that comes after this one in its flavour; it itself where there is none."""
        flavour = self.flavour(release)
        brought = [new for _stem, meta in self.followed(release) for new in meta["brings"]]
        alike = [new for new in self.node.get("installed", ()) if flavour and self.flavour(new) == flavour]
        return _newest(brought or alike, release)

    def is_like(self, release: str, other: str) -> bool:
        """Whether both are of one flavour, and of one series where Ubuntu has several."""
        ours, theirs = ({stem for stem, _meta in self.followed(name)} for name in (release, other))
        return self.flavour(release) == self.flavour(other) and not (ours and theirs and not ours & theirs)


def _fits(stem: str, row: Mapping[str, Any]) -> bool:
    return any(re.fullmatch(pattern, stem) for pattern in row["stems"])


def _series(release: str) -> str:
    found = SERIES.match(release)
    return found.group() if found else ""


def _newest(releases: Iterable[str], release: str) -> str:
    return max([release, *releases], key=kernel_sort_key)


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name))


def kernels_of(matrix: Mapping[str, Any], host: Mapping[str, Any], family: Mapping[str, Any]) -> Kernels:
    """`family`: the host's row of os_families."""
    table = matrix["kernel_flavours"][family["kernel"]["flavours"]]
    by_rpm, target = family["format"] == "rpm", host.get("kernel_target") or ""
    return Kernels(table, by_rpm, host["kernel"], host["machine"], target)


def names_of(kernels: Kernels, releases: Sequence[str]) -> dict[str, Any]:
    """What the plan says of a host's kernel packages; `releases` may boot, and the first of them is meant.

    flavour        of the first; "" for one that no row fits, which has no names below
    next_flavour   the release of another flavour that boots next, or ""
    headers        by release the package of its headers, for every kernel that is known
    headers_follow what brings headers with each newer kernel; `versions` by name, at which it goes with its image
    image, updated what is updated for a newer kernel after the first, without and with its headers
    newest         the newest installed kernel after the first
    """
    first = releases[0]
    owner = kernels.owner(first) if kernels.flavour(first) else None
    image = _unique([*kernels.names("image", first), owner["package"] if owner else ""])
    followed = [found for release in releases for found in kernels.followed(release)]
    return {
        "flavour": kernels.flavour(first),
        "next_flavour": next((name for name in releases[1:] if not kernels.is_like(first, name)), ""),
        "headers": {
            release: kernels.devel(release)
            for release in _unique([*kernels.node.get("installed", ()), *releases])
            if kernels.devel(release)
        },
        "headers_follow": _unique(name for release in releases for name in kernels.names("headers", release)),
        "versions": {
            name.format(stem=stem): meta["version"]
            for stem, meta in followed
            for name in kernels.table["headers"]
            if meta["version"]
        },
        "image": image,
        "updated": _unique([*image, *kernels.names("headers", first)]),
        "hold": _unique([*(name for release in releases for name in kernels.names("hold", release)), *image]),
        "newest": kernels.newest(first),
    }


def unknown_kernels(kernels: Kernels, releases: Iterable[str], system: str) -> list[tuple[str, str, str]]:
    """(what is wrong, what was seen, what to do) for each of these kernels that fits no row; `system`: "Debian 12"."""
    found = []
    for release in releases:
        if kernels.flavour(release):
            continue
        owner = kernels.owner(release)
        if owner:
            whose = (
                f"its image belongs to {owner['package']} {owner['version']}, a package that the matrix does not know"
            )
        elif kernels.is_known():
            whose = f"no package owns its image (/boot/vmlinuz-{release})"
        else:
            whose = "the package manager does not say whose its image is"
        what = (
            f"No headers are known for kernel {release}, which {_place(kernels, release)}: {whose}. The driver cannot "
            "be built for it, and headers of another flavour would not help."
        )
        step = (
            f"Install and boot a kernel of {system} ({', '.join(kernels.table['flavours'])}), or write the row of this "
            f"one into {MATRIX_FILE}."
        )
        found.append((what, f"kernel {release} of {owner['package'] if owner else 'no package'}", step))
    return found


def _place(kernels: Kernels, release: str) -> str:
    node = kernels.node
    return "runs" if release == node["running"] else "boots next" if release == node["next_boot"] else "is asked for"


def kernel_remarks(kernels: Kernels, releases: Sequence[str]) -> list[str]:
    """What does not come by itself, and a next boot into another flavour: for the plan's warnings."""
    words = []
    for release in releases if kernels.is_known() and not kernels.by_rpm else ():
        flavour = kernels.flavour(release)
        if flavour and not kernels.followed(release):
            words.append(
                f"No installed metapackage follows kernel {release}: newer kernels of {flavour} and their headers do "
                f"not come by themselves, and a patch day finds none, until one of linux-image-*{flavour}* is installed"
            )
    other = names_of(kernels, releases)["next_flavour"]
    if other:
        words.append(f"Kernel {releases[0]} runs and the next boot is {other}, of another flavour: both get headers")
    return words
