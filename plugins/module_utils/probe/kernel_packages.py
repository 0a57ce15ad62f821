# SPDX-License-Identifier: Apache-2.0
"""Which installed packages own the images of kernels, and which metapackages follow them, as dpkg and rpm say."""

import re
from typing import Any, Callable, Dict, List, Optional, Sequence

Ask = Callable[[Sequence[str]], Optional[str]]
# Where a kernel's package puts its image. On EL the one in /boot is a copy that the package only claims.
IMAGES = ("/boot/vmlinuz-{}", "/lib/modules/{}/vmlinuz", "/usr/lib/modules/{}/vmlinuz")
RPM_FORM = "%{NAME}\\t%{VERSION}-%{RELEASE}\\n"
DEB_FORM = "${db:Status-Status}\\t${Package}\\t${Version}\\t${Depends}\\n"
Owners = Optional[Dict[str, Dict[str, str]]]


def read_kernel_packages(family: str, ask: Ask, releases: Sequence[str]) -> Dict[str, Any]:
    """`{owners, metapackages}` of these kernels.

    owners        by release `{package, version}`; a kernel that no package owns is not among them. None where the
                  package manager gave no answer, so that nothing is known
    metapackages  Debian and Ubuntu: `[{name, version, brings}]` of each installed package that depends on such an
                  image; `brings` are the kernels' releases. EL has none: there an image's own package is updated
    """
    if family == "debian":
        owners = _ask_dpkg(ask, releases)
        return {"owners": owners, "metapackages": _metapackages(ask, owners or {})}
    return {"owners": _ask_rpm(ask, releases) if family == "redhat" else None, "metapackages": []}


def _ask_rpm(ask: Ask, releases: Sequence[str]) -> Owners:
    owners = {}
    for release in releases:
        answer = ask(["rpm", "-qf", "--queryformat", RPM_FORM] + [image.format(release) for image in IMAGES])
        found = re.search(r"(?m)^([\w.+-]+)\t(\S+)$", answer or "")
        if found:
            owners[release] = {"package": found.group(1), "version": found.group(2)}
        elif not re.search(r"is not owned by any package|No such file", answer or ""):
            return None
    return owners


def _ask_dpkg(ask: Ask, releases: Sequence[str]) -> Owners:
    paths = {image.format(release): release for release in releases for image in IMAGES}
    answer = ask(["dpkg-query", "--search"] + list(paths)) if paths else ""
    packages: Dict[str, str] = {}
    for line in (answer or "").splitlines():
        names, _colon, path = line.rpartition(": ")
        # "diversion by x from: PATH" says who moved a file, and not whose it is.
        if path in paths and not names.startswith("diversion "):
            packages.setdefault(paths[path], names.split(",")[0].partition(":")[0])
    if answer is None or (paths and not packages and "no path found" not in answer):
        return None
    rows = _installed(ask, sorted(set(packages.values())))
    return {
        release: {"package": package, "version": rows[package]["version"]}
        for release, package in packages.items()
        if package in rows
    }


def _metapackages(ask: Ask, owners: Dict[str, Dict[str, str]]) -> List[Dict[str, Any]]:
    images = {owner["package"]: release for release, owner in owners.items()}
    found = []
    for name, row in sorted(_installed(ask, ["linux-*"]).items() if owners else ()):
        wanted = {re.split(r"[\s(:]", word.strip())[0] for word in re.split(r"[,|]", row["depends"])}
        brings = sorted(images[package] for package in wanted & set(images))
        if brings and name not in images:
            found.append({"name": name, "version": row["version"], "brings": brings})
    return found


def _installed(ask: Ask, names: List[str]) -> Dict[str, Dict[str, str]]:
    """Version and dependencies of those of these packages, or patterns, that are installed."""
    answer = ask(["dpkg-query", "--show", "--showformat", DEB_FORM] + names) if names else ""
    rows = [line.split("\t") for line in (answer or "").splitlines() if line.startswith("installed\t")]
    return {row[1]: {"version": row[2], "depends": row[3]} for row in rows if len(row) == 4}
