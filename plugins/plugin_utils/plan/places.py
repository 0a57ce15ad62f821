# SPDX-License-Identifier: Apache-2.0
"""Rules about where packages come from: what a repository or archive has, and that only one of them serves a host.

As in `rules`, each answers with "" when two things fit, or with the sentence that says why they do not.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import version_key

from .candidates import NVIDIA, SITE, Candidate


def before_repository(family: dict[str, Any], candidate: Candidate) -> str:
    """The branch or toolkit with which NVIDIA's repository for a family begins, if it is newer; else ""."""
    if candidate.kind == "cuda" and candidate.row["place"]["source"] == NVIDIA:
        value, oldest = candidate.pins["cuda"], family["cuda_from"]
    elif candidate.kind == "driver" and candidate.pins["driver_source"] == NVIDIA:
        value, oldest = candidate.pins["driver_branch"], family.get("driver_from", "")
    else:
        return ""
    return oldest if oldest and version_key(value) < version_key(oldest) else ""


def one_place(driver: Candidate, cuda: Candidate) -> str:
    """Driver and toolkit come from one place: repositories that hold both fight over the packages that they share."""
    # A guest's driver is in no repository, and NVIDIA's has the toolkits that go with any driver.
    source = {SITE: NVIDIA}.get(driver.pins["driver_source"], driver.pins["driver_source"])
    if source == cuda.row["place"]["source"]:
        return ""
    if source == NVIDIA:
        branches = ", ".join(cuda.row["place"]["branches"])
        return f"{cuda.label} goes with the drivers from there ({branches}), not with {driver.label}"
    return place_has(driver, cuda)


def place_has(driver: Candidate, library: Candidate) -> str:
    """What belongs to a driver comes from the same place as the driver."""
    place = driver.row["place"]
    versions = place["holds"].get(library.kind)
    if versions is None or library.row.get("version") in versions:
        return ""
    has = f"has {', '.join(versions)}" if versions else "has none"
    return f"{library.label} is not in {place['title']}, from which the driver would come: it {has}"
