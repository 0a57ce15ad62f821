# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's own diagnostic, `dcgmi diag`: run at level deep where the inventory asks for it, on idle GPUs only."""

import json
from typing import Any, Dict, List, Mapping, Optional

from ...host.bounded import run_bounded
from ...verdict.by_hand import MACHINE, Hand
from ...verdict.check import (
    DEEP,
    DRAIN,
    FAIL,
    Check,
    Outcome,
    failed,
    passed,
    skipped,
    unknown,
    warned,
)
from ...verdict.evidence import Evidence
from ...verdict.expectations import wanted_dcgm_level
from ...verdict.reader import Reader, Seen
from ...verdict.reading_sources import by_hand

# Seconds that each level may take: it takes some for 1, minutes for 2, half an hour for 3, an hour or two for 4.
SECONDS = {1: 300, 2: 1200, 3: 5400, 4: 14400}
# DCGM 4 and DCGM 3 (NVIDIA/DCGM release notes, "Deprecations and breaking changes").
ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
PASSED, SKIPPED, WARNED, FAILED = STATUSES = ("Pass", "Skip", "Warn", "Fail")
# From which a test's own status follows where there is no summary: the worst of its results.
ORDER = (SKIPPED, PASSED, WARNED, FAILED)
NOT_INSTALLED = "dcgmi is not installed (system_monitor_dcgm: true installs DCGM where the plan has one)"
MOST_CHARACTERS = 300


def dcgm_diag(readings: Evidence, expected: Evidence) -> Outcome:
    """Every test of NVIDIA's diagnostic (dcgmi diag) passes; run where verify_dcgm_level asks for it, on idle GPUs."""
    level = wanted_dcgm_level(expected)
    if not level:
        return skipped("not-asked", "verify_dcgm_level is 0: the diagnostic of DCGM is not asked for")
    if readings.absent("dcgm_diag"):
        return unknown("not-run", "the diagnostic is asked for and was not run")
    because = readings.wish("dcgm_diag", "because")
    if because:
        return skipped("not-run", because)
    tests = [
        (test.text("name"), test.one_of(STATUSES, "status"), test.wish("words"))
        for test in readings.each("dcgm_diag", "tests")
    ]
    said = {status: [name for name, found, _words in tests if found == status] for status in STATUSES}
    for status, tell in ((FAILED, failed), (WARNED, warned)):
        if said[status]:
            why = [f"{name}: {words}" if words else name for name, found, words in tests if found == status]
            return tell(
                status.lower(), len(said[status]), 0, f"level {level}, {status}: {'; '.join(why)}", items=said[status]
            )
    if not said[PASSED]:
        return skipped("all-skipped", f"level {level}: DCGM skipped all of {len(tests)} tests")
    left = f", {len(said[SKIPPED])} skipped by DCGM" if said[SKIPPED] else ""
    return passed(0, 0, f"level {level}: {len(said[PASSED])} tests passed{left}")


def read_dcgm_diag(seen: Seen) -> Optional[Dict[str, Any]]:
    """`{level, because, tests: [{name, status, words}]}`; null where the inventory does not ask for it.

    because  why it was not run, "" where it was
    """
    level = seen.expectations.get("dcgm_level")
    if level not in SECONDS:
        return None
    if not seen.nvidia_smi.get("reachable"):
        raise OSError(f"the driver cannot be queried for whether the GPUs are idle: {seen.nvidia_smi.get('message')}")
    from ...training.performance import in_use

    busy = in_use(seen.nvidia_smi["gpus"])
    if busy:
        return {"level": level, "because": f"not run, since the GPUs are in use: {'; '.join(busy)}", "tests": []}
    done = run_bounded(["dcgmi", "diag", "-r", str(level), "-j"], timeout=SECONDS[level])
    if done.missing:
        return {"level": level, "because": NOT_INSTALLED, "tests": []}
    if done.rc is None:
        raise OSError(done.problem)
    # Its exit status says only that some test failed (226) or that it could not be run.
    return {"level": level, "because": "", "tests": parse_diag(done.stdout or done.stderr)}


def parse_diag(text: str) -> List[Dict[str, str]]:
    """The tests in the answer of `dcgmi diag -j` of DCGM 3 or 4, in its order; OSError if it has none."""
    begin = text.find("{")
    try:
        # Text may come before and after it.
        answer = json.JSONDecoder().raw_decode(text[begin:])[0] if begin >= 0 else None
    except (ValueError, RecursionError):
        answer = None
    if begin < 0:
        raise OSError(f"dcgmi diag says {' '.join(text.split())[:MOST_CHARACTERS]!r}")
    root = next((answer[name] for name in ROOTS if name in answer), None) if isinstance(answer, dict) else None
    categories = root.get("test_categories") if isinstance(root, dict) else None
    if not isinstance(categories, list):
        words = root.get("runtime_error") if isinstance(root, dict) else None
        raise OSError(f"dcgmi diag reports no test{f': {words}' if words else ''}")
    tests = [test for category in categories for test in category.get("tests") or ()]
    if not tests:
        raise OSError("dcgmi diag reports no test")
    return [_test(test) for test in tests]


def _test(test: Mapping[str, Any]) -> Dict[str, str]:
    name, results = str(test.get("name")), test.get("results") or []
    summary = test.get("test_summary") or {}
    found = [str(result.get("status")) for result in [*results, summary] if result]
    strange = [status for status in found if status not in STATUSES]
    if strange or not found:
        raise OSError(f"dcgmi diag reports no known status of {name}: {', '.join(strange) or 'none'}")
    words = [_words(result.get("warnings")) for result in [*results, summary]]
    # The same warning may be in a result and in the summary.
    text = "; ".join(dict.fromkeys(word for word in words if word))
    return {"name": name, "status": max(found, key=ORDER.index), "words": text[:MOST_CHARACTERS]}


def _words(warnings: Any) -> str:
    """The texts of a result's warnings, which are texts or records."""
    several = warnings if isinstance(warnings, list) else [warnings]
    texts = [one.get("warning") if isinstance(one, dict) else one for one in several]
    return "; ".join(" ".join(str(text).split()) for text in texts if text)


CHECKS = (
    Check(
        id="gpu.dcgm_diag",
        layer="system",
        level=DEEP,
        severity=FAIL,
        remedy=DRAIN,
        question="Does NVIDIA's own diagnostic pass?",
        judge=dcgm_diag,
        unit="tests",
        action=(
            "Read /var/log/nvidia-dcgm/nvvs.log ; with the node drained, repeat the failed test alone, such as dcgmi "
            "diag -r memory ; then run NVIDIA's field diagnostic."
        ),
        readers=(
            Reader(
                name="dcgm_diag",
                level=DEEP,
                read=read_dcgm_diag,
                source=by_hand("dcgmi diag -j", "systemctl status nvidia-dcgm ; dcgmi discovery -l"),
            ),
        ),
        source="DCGM user guide, Diagnostics; NVIDIA/DCGM issues 139, 158",
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {"gpu.dcgm_diag": Hand(MACHINE, "dcgmi diag of the same level ends with Pass")}
