# SPDX-License-Identifier: Apache-2.0
"""Advisories in OSV's format (https://ossf.github.io/osv-schema/) for locked packages: from OSV, or from a file."""

from __future__ import annotations

import datetime
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ansible.module_utils.urls import open_url
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from .advisory import AdvisoryError, Row

SERVER = "https://api.osv.dev"
EXPORT = "https://osv-vulnerabilities.storage.googleapis.com/PyPI/all.zip"
SECONDS = 30
# Questions in one request, as OSV allows.
MOST_QUERIES = 1000
# Records that are asked for at once: old releases have hundreds.
AT_ONCE = 8
# OSV's export grows every day: an older one knows nothing of what was published since.
LIMIT_DAYS = 30
Record = Mapping[str, Any]


def pins_of(text: str) -> dict[str, str]:
    """{normalised name: version} of a lock file (pip's requirements format)."""
    return pins_and_rest(text)[0]


def pins_and_rest(text: str) -> tuple[dict[str, str], list[str]]:
    """The pins of a lock file, and its lines that ask for a package in another way: an address, a range, a file."""
    pins: dict[str, str] = {}
    rest = []
    for line in re.sub(r"\\\r?\n", " ", text).splitlines():
        line = re.sub(r"(^|\s)#.*", "", line).strip()
        wanted = re.split(r"\s--?[a-z]", line)[0].strip()
        # -r, -c and -e bring packages; other options, such as --index-url, bring none.
        if not line or (line.startswith("-") and not re.match(r"-[rce]|--(requirement|constraint|editable)\b", line)):
            continue
        try:
            asked = Requirement(wanted)
            version = re.fullmatch(r"={2,3}([^*,]+)", str(asked.specifier))
        except InvalidRequirement:
            version = None
        if version and not asked.url:
            pins[canonicalize_name(asked.name)] = version.group(1).strip()
        else:
            rest.append(line)
    return pins, rest


def public(text: str) -> Version:
    """A version without its local part: 2.13.0+cpu has the advisories of 2.13.0. InvalidVersion if it is none."""
    return Version(Version(text).public)


def affects(record: Record, name: str, version: str) -> tuple[bool, str]:
    """Whether an advisory is about this version, and the first fixed version above it ("" if none is named).

    The rules are those of OSV's schema: listed versions, or ranges of events in the order of PEP 440. Ranges of commits
    say nothing about a version.
    """
    ours, hit, fixes = public(version), False, []
    for one in record.get("affected") or []:
        package = one.get("package") or {}
        if package.get("ecosystem") != "PyPI" or canonicalize_name(package.get("name") or "") != name:
            continue
        hit = hit or any(_equal(text, ours) for text in one.get("versions") or [])
        for span in one.get("ranges") or []:
            if span.get("type") != "ECOSYSTEM":
                continue
            events = span.get("events") or []
            hit = hit or _in_range(events, ours)
            fixes += [public(event["fixed"]) for event in events if "fixed" in event]
    above = sorted(fix for fix in fixes if fix > ours)
    return hit, str(above[0]) if hit and above else ""


def _equal(text: str, ours: Version) -> bool:
    try:
        return public(text) == ours
    except InvalidVersion:
        return False


def _in_range(events: Iterable[Mapping[str, str]], ours: Version) -> bool:
    """Whether a version is affected after all events up to it. `0` is before every version."""
    steps = []
    for event in events:
        for kind, text in event.items():
            if kind in ("introduced", "fixed", "last_affected"):
                steps.append((public("0.dev0" if text == "0" else text), kind))
    inside = False
    for at, kind in sorted(steps):
        if kind == "introduced" and ours >= at:
            inside = True
        elif (kind == "fixed" and ours >= at) or (kind == "last_affected" and ours > at):
            inside = False
    return inside


def rows(records: Iterable[Record], pins: Mapping[str, str], lock: str) -> list[Row]:
    """One row for each vulnerability of a package: records that name each other are one."""
    found: dict[tuple[str, str], Row] = {}
    for record in sorted(records, key=lambda record: str(record.get("id"))):
        if record.get("withdrawn"):
            continue
        names = {str(record.get("id")), *map(str, record.get("aliases") or [])}
        packages = {
            canonicalize_name((one.get("package") or {}).get("name") or "") for one in record.get("affected") or []
        }
        for name in sorted(packages & set(pins)):
            try:
                hit, fixed = affects(record, name, pins[name])
            except (InvalidVersion, TypeError, KeyError) as error:
                raise AdvisoryError(
                    f"advisory {record.get('id')} about {name} {pins[name]} cannot be read: {error}; expected versions "
                    "of PEP 440. Report it, or leave the record out of advisories_file [advisories.record]"
                ) from error
            if hit:
                cves = sorted(text for text in names if text.startswith("CVE-"))
                key = (name, cves[0] if cves else str(record.get("id")))
                known = found.get(key)
                row = Row(name, pins[name], "PyPI", sorted(names), severity(record), fixed, lock)
                found[key] = row if known is None else known.joined(row)
    return [found[key] for key in sorted(found)]


def undecided(records: Iterable[Record], pins: Mapping[str, str]) -> list[str]:
    """Sentences about records that name a locked package and no version of it, so that nobody can tell."""
    found = []
    for record in records:
        for one in [] if record.get("withdrawn") else record.get("affected") or []:
            package = one.get("package") or {}
            name = canonicalize_name(package.get("name") or "")
            spans = [span for span in one.get("ranges") or [] if span.get("type") == "ECOSYSTEM"]
            if package.get("ecosystem") == "PyPI" and name in pins and not (spans or one.get("versions")):
                found.append(f"{name} {pins[name]}: advisory {record.get('id')} names no versions")
    return sorted(set(found))


def severity(record: Record) -> str:
    """The publisher's word, such as HIGH, else the CVSS vector (one of CVSS 3, if it has more), else "not given"."""
    word = (record.get("database_specific") or {}).get("severity")
    if isinstance(word, str) and word:
        return word.upper()
    scores = [str(one.get("score")) for one in record.get("severity") or [] if isinstance(one, dict)]
    # Whose score has a word here (cvss.py).
    return next((one for one in scores if one.startswith("CVSS:3.")), scores[-1] if scores else "not given")


def from_file(path: Path, pins: Mapping[str, str]) -> list[Record]:
    """The records about these packages of OSV's export: a zip of JSON files, or a folder of them. AdvisoryError."""
    found, seen = [], 0
    try:
        for _name, content in _contents(path):
            record = json.loads(content)
            seen += 1
            about = {
                canonicalize_name(str((one.get("package") or {}).get("name") or ""))
                for one in record.get("affected") or []
            }
            if about & set(pins):
                found.append(record)
    except (OSError, ValueError, AttributeError, zipfile.BadZipFile) as error:
        raise AdvisoryError(
            f"{path}: {error}; expected OSV's export, a zip or a folder of JSON records. Fetch it again: {EXPORT} "
            "[advisories.file]"
        ) from error
    if not seen:
        raise AdvisoryError(
            f"{path} has no record; expected OSV's export, a zip or a folder of JSON records. Fetch it: {EXPORT} "
            "[advisories.file]"
        )
    return found


def age_of(path: Path, today: datetime.date) -> tuple[str, str]:
    """How old OSV's export is by its newest record, as a sentence; and again if it is too old."""
    days = {str(json.loads(content).get("modified") or "")[:10] for _name, content in _contents(path)}
    # Records that were shortened by hand: the file itself is no newer than its own time.
    written = datetime.date.fromtimestamp(path.stat().st_mtime).isoformat()
    newest = datetime.date.fromisoformat(max(filter(re.compile(r"\d{4}-\d\d-\d\d").fullmatch, days), default=written))
    age = max(0, (today - newest).days)
    text = f"OSV's export {path.name} as of {newest}, {age} days old"
    return text, f"{text} (limit {LIMIT_DAYS}): fetch it again, {EXPORT}" if age > LIMIT_DAYS else ""


def _contents(path: Path) -> Iterator[tuple[str, bytes]]:
    if path.is_dir():
        for file in sorted(path.rglob("*.json")):
            yield file.name, file.read_bytes()
        return
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".json"):
                yield name, archive.read(name)


def from_server(pins: Iterable[tuple[str, str]], server: str = SERVER) -> list[Record]:
    """OSV's records for these versions, asked through the controller's proxy and certificates. AdvisoryError."""
    asked = [{"package": {"name": name, "ecosystem": "PyPI"}, "version": str(public(at))} for name, at in sorted(pins)]
    ids: set[str] = set()
    try:
        while asked:
            part, asked = asked[:MOST_QUERIES], asked[MOST_QUERIES:]
            answers = _ask(f"{server}/v1/querybatch", {"queries": part})["results"]
            for query, answer in zip(part, answers, strict=True):
                ids |= {one["id"] for one in answer.get("vulns") or []}
                if answer.get("next_page_token"):
                    asked.append({**query, "page_token": answer["next_page_token"]})
        with ThreadPoolExecutor(AT_ONCE) as readers:
            return list(readers.map(_ask, (f"{server}/v1/vulns/{name}" for name in sorted(ids))))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AdvisoryError(
            f"{server} did not answer ({error}), so nothing is known of vulnerabilities. Name a proxy (https_proxy), "
            f"or fetch {EXPORT} elsewhere and give it with -e advisories_file=all.zip [advisories.unreachable]"
        ) from error


def _ask(url: str, question: Mapping[str, Any] | None = None) -> dict[str, Any]:
    data = None if question is None else json.dumps(question).encode()
    # OSV wants no login: a default one of the caller's netrc is for other servers.
    with open_url(url, data, {"Content-Type": "application/json"}, timeout=SECONDS, use_netrc=False) as answer:
        found: dict[str, Any] = json.load(answer)
    return found
