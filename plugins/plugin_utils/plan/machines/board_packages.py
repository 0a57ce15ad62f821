# SPDX-License-Identifier: Apache-2.0
"""What a board with NVSwitches needs beside the driver: packages per system and branch, and what lacks them.

Rows and sources: roles/preflight/files/matrix/platforms.yml. The board is in the host's record (platform).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import version_key

from ..candidates import DISTRIBUTION, Candidate

NOTHING: dict[str, Any] = {"id": "", "name": "", "packages": [], "exact": [], "services": [], "modules": []}


class Part(NamedTuple):
    """One thing that a platform needs: its row of platform_parts, and its packages from where the driver comes."""

    row: dict[str, Any]
    names: list[str]


def platform_of(host: dict[str, Any]) -> dict[str, Any]:
    """The platform in a host's record; an empty one in that of an older probe, or of cards without a usual board."""
    return host.get("platform") or {}


def parts_of(matrix: dict[str, Any], release: dict[str, Any], host: dict[str, Any], driver: Candidate) -> list[Part]:
    """What the host's platform needs under a driver; what is missing there has no names. release: of os_releases."""
    rows = [matrix["platform_parts"][key] for key in platform_of(host).get("needs", ())]
    return [Part(row, _names(matrix, row, release, driver)) for row in rows]


def platform_refuses(matrix: dict[str, Any], release: dict[str, Any], driver: Candidate) -> str:
    """Why a driver cannot serve the platform of a host, or "": something that it needs is not where the driver is from.

    release  the host's row of os_releases, with its platform
    """
    platform = release.get("platform") or {}
    lacking = [part.row for part in parts_of(matrix, release, {"platform": platform}, driver) if not part.names]
    if not lacking:
        return ""
    place = driver.row["place"]["title"]
    text = "{} cannot serve {}, which needs {}: {} has none for branch {}"
    return text.format(driver.label, platform["name"], lacking[0]["name"], place, driver.pins["driver_branch"])


def _names(matrix: dict[str, Any], row: dict[str, Any], release: dict[str, Any], driver: Candidate) -> list[str]:
    branch, kind = driver.pins["driver_branch"], matrix["os_families"][release["family"]]["format"]
    own = driver.pins["driver_source"] == DISTRIBUTION
    spans = row["archives"].get(release["family"], []) if own else row["packages"][kind]
    key = version_key(branch)
    for span in spans:
        if version_key(span["from"]) <= key and not (span["to"] and key > version_key(span["to"])):
            return [name.format(branch=branch) for name in span["names"]]
    return []


def exact_names(parts: list[Part]) -> list[str]:
    """The packages whose version is exactly the driver's."""
    return [name for part in parts if part.row["exact"] for name in part.names]


def other_names(parts: list[Part]) -> list[str]:
    """The packages that count versions of their own."""
    return [name for part in parts if not part.row["exact"] for name in part.names]


def names_of_all_branches(matrix: dict[str, Any], parts: list[Part], kind: str) -> list[str]:
    """Under which names these parts may be installed, whatever the branch: what a switch of streams has to move."""
    spans = [span for part in parts if part.row["exact"] for span in part.row["packages"][kind]]
    names = [name.format(branch=branch) for span in spans for name in span["names"] for branch in matrix["drivers"]]
    return sorted(set(names))


def platform_warnings(
    matrix: dict[str, Any], release: dict[str, Any], host: dict[str, Any], parts: list[Part]
) -> list[str]:
    """What the owner of such a node should know beforehand."""
    found = platform_of(host)
    words = []
    if not found.get("known", True):
        words.append(
            f"No row of the matrix fits the board of this node ({found['because']}): nothing is planned for it"
        )
    if found.get("twin"):
        text = "Planned for cards in slots. On a board with NVSwitches so many need a fabric manager: then ask for {}"
        words.append(text.format(found["twin"]))
    if found.get("assumed"):
        words.append(f"Assumed: these cards are on the board of {found['name']}, whose NVSwitches need what is planned")
    family = matrix["os_families"][release["family"]]["name"]
    for part in parts:
        if release["family"] in part.row["unseen"]:
            words.append(f"Nobody has seen {part.row['name']} in NVIDIA's repository for {family}")
    return words
