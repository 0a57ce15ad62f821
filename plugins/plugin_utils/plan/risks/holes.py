# SPDX-License-Identifier: Apache-2.0
"""Known vulnerabilities of what a plan would install, and which fixed release could take its place.

Drivers are compared with NVIDIA's bulletins, the table bulletins of the matrix, wheels with its table wheel_holes.
"""

from __future__ import annotations

import datetime
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import is_version, version_key

from ...software import bulletins
from ..candidates import AT_LEAST, PINS, PYPI, Candidate, Fact, pin_label
from ..search import Problem

# How a plan without a lock file gets one.
TO_LOCK = (
    "gpu-plan --json with the same question > plan.json; make lock PLAN=plan.json, or, for "
    "framework_pytorch_lock_file, ansible-playbook playbooks/lock.yml -e plan=plan.json"
)
# NVIDIA's words, the worst first.
SEVERITIES = ("CRITICAL", "HIGH", "MEDIUM", "LOW")


def known_holes(matrix: dict[str, Any], pinned: str, host: dict[str, Any], present: bool) -> list[str]:
    """What bulletins say about a pinned driver, or about one that is there and stays."""
    version = pinned or ((host.get("nvidia") or {}).get("user_space") or "" if present else "")
    what = pin_label("driver_version", pinned) if pinned else f"Driver {version}, which is there and stays,"
    found = driver_holes(matrix, version, what)
    return [text if pinned else text + ", which system_driver_version can name" for text in found]


def driver_holes(matrix: dict[str, Any], version: str, what: str) -> list[str]:
    """A sentence on a driver whose fixes are known, with `what` for its subject; nothing if it has them all."""
    rows = bulletins.rows(version, matrix["bulletins"], "driver") if is_version(version) else []
    if not rows:
        return []
    worst = min((row.severity for row in rows), key=lambda word: (*SEVERITIES, word).index(word))
    fixed = max((row.fixed for row in rows), key=version_key)
    text = "{} has known vulnerabilities, the worst of severity {} ({}): they are fixed in {}"
    return [text.format(what, worst, ", ".join(row.ids[0] for row in rows), fixed)]


def archive_holes(matrix: dict[str, Any], driver: Candidate, today: str) -> list[str]:
    """What bulletins say about the driver that a distribution's archive has, where its version is known."""
    place = driver.row["place"]
    version = place.get("version", "")
    if not version or driver.pins["driver_version"]:
        return []
    found = driver_holes(matrix, version, f"Driver {version}, which {place['title']} has,")
    if found:
        return found
    unknown = bulletins.of(matrix).unknown(version, datetime.date.fromisoformat(today))
    return (
        [f"Whether the driver of {place['title']} has known vulnerabilities is unknown. {unknown}"] if unknown else []
    )


def wheel_holes(matrix: dict[str, Any], problem: Problem, facts: list[Fact], answer: dict[str, Candidate]) -> list[str]:
    """For PyTorch and TensorFlow each: the worst that is known of the chosen release, and what has the fix."""
    found = []
    for kind in ("pytorch", "tensorflow"):
        release = answer[kind].pins[kind] if kind in answer else ""
        rows = [row for row in matrix.get("wheel_holes", []) if row["kind"] == kind and _has(release, row)]
        if rows:
            ids = ", ".join(f"{row['ids'][0]}, fixed in {row['fixed']}" for row in rows)
            worst = min((row["severity"] for row in rows), key=SEVERITIES.index)
            fixed = max((row["fixed"] for row in rows), key=version_key)
            text = f"{answer[kind].label} has known vulnerabilities, the worst of severity {worst} ({ids})"
            found.append(f"{text}: {rows[0]['what']}. {_way_out(problem, facts, kind, fixed)}")
    return found


def _has(release: str, row: dict[str, Any]) -> bool:
    return bool(release) and version_key(release) < version_key(row["fixed"])


def _way_out(problem: Problem, facts: list[Fact], kind: str, fixed: str) -> str:
    """The fixed release that these facts allow besides the pin of the release itself, and what it would need."""
    least = Fact("pin", kind, AT_LEAST + fixed, "", "")
    own = {kind, "pytorch_build"} if kind == "pytorch" else {kind}
    kept = [fact for fact in facts if fact.kind != "pin" or fact.name not in own]
    answer = problem.best([*kept, least])
    if answer is None:
        return f"None of the releases with the fix ({fixed} or newer) fits the GPUs and what else is asked for"
    chosen = answer[kind]
    pins = ", ".join(pin_label(name, value) for name, value in chosen.pins.items() if name in PINS)
    text = f"{chosen.label} has the fix and fits: {pins}"
    if kind == "pytorch" and chosen.row["index"] != PYPI:
        text += (
            f"; only the PyTorch index has it: somebody who reaches that index has to make its lock file ({TO_LOCK})"
        )
    return text
