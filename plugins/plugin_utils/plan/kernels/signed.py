# SPDX-License-Identifier: Apache-2.0
"""Kernel modules that a distribution has built and signed: a package for each kernel, in place of DKMS.

Secure Boot takes them as they are, so that nobody has to enrol a key at a console. Each belongs to exactly one kernel,
and a metapackage of the kernel's own flavour brings the one for each newer kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .packages import kernels_of


def signed_names(
    matrix: Mapping[str, Any],
    family: Mapping[str, Any],
    host: Mapping[str, Any],
    pins: Mapping[str, str],
    releases: list[str],
) -> dict[str, Any]:
    """`{by_release, follow, each}` of a driver from the distribution; {} if one of `releases` (may boot) has no module.

    by_release  the module's package for each kernel that has one      follow  what brings those of newer kernels
    each        the package's name with {kernel} for a release

    pins  of the driver: branch and flavour
    """
    row = (family.get("distribution") or {}).get("signed") or {"packages": {}, "kernels": []}
    pattern = row["packages"].get(pins["driver_flavour"], "")
    # Where any module is taken, DKMS builds one for every kernel, whatever the distribution has built for.
    if not pattern or host.get("secure_boot") != "enabled":
        return {}
    kernels = kernels_of(matrix, host, family)
    known = [*kernels.node.get("installed", ()), *releases]
    by_release = {
        release: pattern.format(branch=pins["driver_branch"], kernel=release)
        for release in dict.fromkeys(known)
        if kernels.flavour(release) in row["kernels"]
    }
    if not all(release in by_release for release in releases):
        return {}
    stems = [stem for release in releases for stem, _meta in kernels.followed(release)]
    return {
        "by_release": by_release,
        "follow": [pattern.format(branch=pins["driver_branch"], kernel=stem) for stem in dict.fromkeys(stems)],
        "each": pattern.format(branch=pins["driver_branch"], kernel="{kernel}"),
    }


def needs_a_console(host: Mapping[str, Any]) -> bool:
    """Whether Secure Boot would refuse a module that the node builds until somebody has enrolled its key."""
    return host.get("secure_boot") == "enabled" and (host.get("module_key") or {}).get("state") != "enrolled"
