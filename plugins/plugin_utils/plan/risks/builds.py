# SPDX-License-Identifier: Apache-2.0
"""Drivers whose module is known not to compile for a kernel of the host: rows of build_limits (matrix/kernels.yml)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import version_key
from ansible_collections.gpuwright.node.plugins.module_utils.packages.rpm_version import kernel_sort_key

from ..candidates import Candidate


def build_warnings(
    matrix: Mapping[str, Any],
    release: Mapping[str, Any],
    kernels: Sequence[str],
    driver: Candidate | None,
    present: bool,
) -> list[str]:
    """What is known of building this driver here; nothing for one that is there, and so was built.

    release  the host's row of os_releases      kernels  those that may boot, as `uname -r` has them
    """
    rows = matrix.get("build_limits", []) if driver is not None and not present else []
    found = []
    for row in rows:
        failing = [name for name in kernels if driver is not None and _fails(row, release, name, driver)]
        if failing and driver is not None:
            way = (
                f": {row['fixed']} does" if row["fixed"] else ", and no later release of the branch is known that does"
            )
            source = row["source"] if isinstance(row["source"], str) else row["source"][0]
            text = "{} is not known to compile for kernel {}, from {} on{} ({})"
            found.append(text.format(_title(driver), ", ".join(failing), row["kernel"], way, source))
    return found


def _fails(row: Mapping[str, Any], release: Mapping[str, Any], kernel: str, driver: Candidate) -> bool:
    version = driver.pins["driver_version"]
    # Without an exact version the newest of the branch is installed, which has the fix.
    if row["branch"] != driver.pins["driver_branch"] or (row["fixed"] and not version):
        return False
    if row["fixed"] and version_key(version) >= version_key(row["fixed"]):
        return False
    if row["family"] and row["family"] != release["family"]:
        return False
    if not kernel[:1].isdecimal():
        # A host that does not exist has the newest kernel of its release.
        return bool(row["release"]) and version_key(release["version"]) >= version_key(row["release"])
    return bool(kernel_sort_key(kernel) >= kernel_sort_key(row["kernel"]))


def _title(driver: Candidate) -> str:
    return f"Driver {driver.pins['driver_version'] or driver.pins['driver_branch']}"
