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
from ansible_collections.gpuwright.node.plugins.plugin_utils.software import cvss, osv
from ansible_collections.gpuwright.node.plugins.plugin_utils.software.advisory import AdvisoryError, Row
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
    """Driver bulletins that the matrix lacks, and those that say more than its rows. Raises NoAnswerError."""
    known = {one["id"]: one for one in matrix["bulletins"]}
    found = sorted(bulletins(repository_index.read(address)), key=lambda one: str(one["date"]))
    if not found:
        raise repository_index.NoAnswerError("it has no bulletin about the driver")
    last = max(matrix["bulletins"], key=lambda one: str(one["date"]))
    if found[-1]["date"] < last["date"]:
        raise repository_index.NoAnswerError(
            f"it is older than bulletin {last['id']} of {last['date']}, which is known"
        )
    for one in found:
        if one["id"] in known:
            more = _revised(known[one["id"]]["branches"], one["branches"])
            text = f"driver bulletin {one['id']} of {one['date']} says more than its row: {', '.join(more)}"
            if more:
                yield News("bulletins", "", {}, text)
        elif one["date"] > matrix["bulletins"][0]["date"]:
            fixed = ", ".join(row["fixed"] for row in one["branches"].values())
            row = {**one, "checked": day}
            yield News("bulletins", "", row, f"driver bulletin {one['id']} of {one['date']} is new: fixed in {fixed}")


def _revised(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """What a bulletin says by now of branches that its row does not, as parts of a sentence."""
    found = []
    for branch, row in theirs.items():
        old = ours.get(branch, {"fixed": "0", "severity": SEVERITIES[-1], "cves": []})
        if version_key(row["fixed"]) > version_key(old["fixed"]):
            found.append(f"branch {branch} is fixed in {row['fixed']}")
        elif SEVERITIES.index(row["severity"]) < SEVERITIES.index(old["severity"]):
            found.append(f"the severity for branch {branch} is {row['severity']}")
        elif set(row["cves"]) - set(old["cves"]):
            found.append(f"branch {branch} has {', '.join(sorted(set(row['cves']) - set(old['cves'])))}")
    return found


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
    """Holes of severity HIGH and worse in the releases that a plan can have. Raises NoAnswerError.

    Without those for which the plan warns already, as of one that is as bad and fixed no earlier.
    """
    for kind, package in PACKAGES.items():
        releases = sorted({name for row in matrix[kind].values() for name in row["releases"]}, key=version_key)
        try:
            records = osv.from_server([(package, release) for release in releases], server)
            found = [row for release in releases for row in osv.rows(records, {package: release}, "")]
        except AdvisoryError:
            raise repository_index.NoAnswerError("it did not answer, or in another form") from None
        rows = [row for row in matrix["wheel_holes"] if row["kind"] == kind]
        said = {str(one["id"]): str(one.get("summary") or "") for one in records}
        for hole in _holes(found):
            ids, last = hole[-1].ids, hole[-1].version
            fixed = hole[-1].fixed or _next_without(releases, hole)
            severity = _word(hole[-1].severity)
            # What nobody has judged counts as the worst, so that somebody reads it.
            if severity in SEVERITIES[2:] or _is_covered(rows, severity or SEVERITIES[0], fixed, last):
                continue
            text = f"{package} {last}: {ids[0]}, fixed in {fixed}, is new"
            if not fixed or not severity or any(set(row["ids"]) & set(ids) for row in rows):
                # Nobody can be told what to install, or how bad it is; or a row says that this release is without it.
                text = f"{package} {last} has {ids[0]}, " + (
                    f"fixed in {fixed} only" if fixed else "which no release fixes"
                )
                text += "" if severity else "; how bad it is is not said"
                # A row names a fixed release: without one, nobody can write it, and the sentence says all.
                yield News("wheel_holes", "", {}, text, awaited=bool(fixed))
                continue
            what = next((" ".join(said[name].split()).rstrip(".") for name in ids if said.get(name)), "")
            row: dict[str, Any] = {"kind": kind, "ids": ids, "severity": severity, "fixed": fixed}
            row |= {"what": what or "its advisory says what somebody can do by it"}
            row |= {"source": f"https://osv.dev/vulnerability/{ids[0]}", "checked": day, "verified": False}
            row |= {"unverified": "whether the fixed release is the first without it, and all before it have it"}
            yield News("wheel_holes", "", row, text)


def _word(severity: str) -> str:
    """One of SEVERITIES; "" where the record says it in another way."""
    known = {"MODERATE": "MEDIUM"}.get(severity, severity)
    return known if known in SEVERITIES else cvss.word_of(severity)


def _holes(found: list[Row]) -> list[list[Row]]:
    """For each hole its rows of the releases that have it, the newest release last."""
    holes: dict[str, list[Row]] = {}
    for row in found:
        holes.setdefault(row.ids[0], []).append(row)
    return list(holes.values())


def _next_without(releases: list[str], hole: list[Row]) -> str:
    """The first known release after the last one that has the hole; "" if the newest has it."""
    return next((name for name in releases if version_key(name) > version_key(hole[-1].version)), "")


def _is_covered(rows: list[dict[str, Any]], severity: str, fixed: str, last: str) -> bool:
    """Whether each plan with the hole is told of one that is as bad, and of a release without either."""
    least = version_key(fixed or last)
    return any(
        SEVERITIES.index(row["severity"]) <= SEVERITIES.index(severity)
        and (version_key(row["fixed"]) >= least if fixed else version_key(row["fixed"]) > least)
        for row in rows
    )
