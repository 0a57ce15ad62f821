"""Newly published vulnerabilities, for `make matrix-refresh`: NVIDIA's driver bulletins, OSV's records of wheels."""

from __future__ import annotations

import io
import json
import re
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "collections"))
import repository_index
from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import version_key
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.risks.holes import SEVERITIES
from ansible_collections.gpuwright.node.plugins.plugin_utils.software import osv
from ansible_collections.gpuwright.node.plugins.plugin_utils.software.advisory import AdvisoryError
from matrix_rows import News

# All of NVIDIA's machine-readable bulletins (CSAF) in one file of 1 MB.
BULLETINS = "https://codeload.github.com/NVIDIA/product-security/tar.gz/refs/heads/main"
SOURCE = "https://github.com/NVIDIA/product-security/blob/main/{0}/{1}/{1}.json"
PLACE = re.compile(r"(?:^|/)(20\d\d)/(\d+)/\2\.json$")
# Of Linux and Tesla: linuxr580_tesla_all_driver_versions_prior_to_580_95_05
AFFECTED = re.compile(r"linuxr\d+_tesla_all_(?:driver_)?versions?_prior_to_((\d{3})(?:_\d+)+)$")
OF_TESLA = re.compile(r"linuxr\d+_tesla_")
TITLE = "GPU Display Driver"
PACKAGES = {"pytorch": "torch", "tensorflow": "tensorflow"}


def bulletin_news(matrix: dict[str, Any], address: str, day: str) -> Iterator[News]:
    """Driver bulletins that the matrix lacks, the oldest first. Raises NoAnswerError."""
    known = {one["id"] for one in matrix["bulletins"]}
    found = sorted(bulletins(repository_index.read(address)), key=lambda one: str(one["date"]))
    if not found:
        raise repository_index.NoAnswerError("it has no bulletin about the driver")
    for one in found:
        if one["id"] not in known and one["date"] > matrix["bulletins"][0]["date"]:
            fixed = ", ".join(row["fixed"] for row in one["branches"].values())
            row = {**one, "checked": day}
            yield News("bulletins", "", row, f"driver bulletin {one['id']} of {one['date']} is new: fixed in {fixed}")


def bulletins(archive: bytes, since: str = "2025") -> Iterator[dict[str, Any]]:
    """Rows of the driver bulletins in an archive of all bulletins, from a year on. Raises NoAnswerError."""
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as files:
            for member in files:
                place = PLACE.search(member.name)
                content = files.extractfile(member) if place and member.isfile() else None
                if place and content and place.group(1) >= since:
                    row = _row(json.loads(content.read()), SOURCE.format(*place.groups()))
                    if row:
                        yield row
    except (tarfile.TarError, OSError, EOFError, ValueError, KeyError, TypeError, AttributeError):
        raise repository_index.NoAnswerError("its bulletins cannot be read") from None


def _row(csaf: dict[str, Any], source: str) -> dict[str, Any] | None:
    document = csaf["document"]
    if TITLE not in document["title"]:
        return None
    branches: dict[str, dict[str, Any]] = {}
    for hole in csaf["vulnerabilities"]:
        words = {str(score["cvss_v3"]["baseSeverity"]) for score in hole.get("scores", [])}
        for product in hole["product_status"].get("known_affected", []):
            named = AFFECTED.match(product)
            if not named and OF_TESLA.match(product):
                # Without a word on this branch, it would count as one without vulnerabilities.
                raise repository_index.NoAnswerError(f"what it says of {product[:80]} cannot be read")
            if named:
                fixed = named.group(1).replace("_", ".")
                row = branches.setdefault(named.group(2), {"fixed": fixed, "severity": SEVERITIES[-1], "cves": []})
                row["fixed"] = max(row["fixed"], fixed, key=version_key)
                row["severity"] = min({row["severity"], *words}, key=SEVERITIES.index)
                row["cves"] = sorted({*row["cves"], str(hole["cve"])})
    day = str(document["tracking"]["initial_release_date"])[:10]
    found = {"id": str(document["tracking"]["id"]), "date": day, "source": source}
    return {**found, "branches": dict(sorted(branches.items()))} if branches else None


def wheel_news(matrix: dict[str, Any], server: str, day: str) -> Iterator[News]:
    """HIGH and worse holes of the newest known releases, which older ones mostly have, too. Raises NoAnswerError."""
    known = {name for row in matrix["wheel_holes"] for name in row["ids"]}
    for kind, package in PACKAGES.items():
        newest = max((release for row in matrix[kind].values() for release in row["releases"]), key=version_key)
        try:
            records = osv.from_server({package: newest}, server)
            rows = osv.rows(records, {package: newest}, "")
        except AdvisoryError:
            raise repository_index.NoAnswerError("it did not answer, or in another form") from None
        for row in rows:
            if row.severity in SEVERITIES[:2] and row.fixed and not known & set(row.ids):
                said = next(str(one.get("summary") or "") for one in records if one["id"] in row.ids)
                what = " ".join(said.split()).rstrip(".") or "its advisory says what somebody can do by it"
                found: dict[str, Any] = {
                    "kind": kind,
                    "ids": row.ids,
                    "severity": row.severity,
                    "fixed": row.fixed,
                    "what": what,
                }
                found |= {"source": f"https://osv.dev/vulnerability/{row.ids[0]}", "checked": day, "verified": False}
                found["unverified"] = "whether the fixed release is the first without it"
                yield News("wheel_holes", "", found, f"{package} {newest}: {row.ids[0]}, fixed in {row.fixed}, is new")
