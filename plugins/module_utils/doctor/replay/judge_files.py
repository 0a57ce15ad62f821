# SPDX-License-Identifier: Apache-2.0
"""`gpu-doctor --replay`: judge bundles, answers of nvidia-smi and kernel logs on any machine; prints what was found."""

import json
import os
from typing import List, Optional

from ...verdict.check import FAIL, PASS, SEVERITY, SKIP, UNKNOWN
from ...verdict.report import PASSING, TABLE_ORDER, printable
from .files import DAMAGED, files_in, pieces_of
from .judge import judged

SCHEMA = 1
LONGEST = 400
USAGE_ERROR = 2


def replay(path: str, as_json: bool = False) -> int:
    """Print the judgement of a file, or of every file below a folder; returns gpu-doctor's exit status."""
    results = []
    for name in files_in(path):
        for result in results_of(name, path):
            results.append(result)
            if not as_json:
                print("\n".join(lines_of(result)))
    if as_json:
        print(json.dumps({"schema": SCHEMA, "files": results, "counts": counts(results)}, indent=2, sort_keys=True))
    else:
        print(closing_line(results))
    return exit_status_of(results)


def results_of(name: str, path: str) -> List[dict]:
    """The records of one file, one for each answer in it; never raises, whatever the file contains."""
    shown = os.path.relpath(name, path) if os.path.isdir(path) and name != path else name
    try:
        pieces = pieces_of(name)
    except OSError as error:
        return [_damaged(shown, f"it cannot be read: {error.strerror or error}")]
    except Exception as error:
        return [_damaged(shown, f"it cannot be read: {error}")]
    found = []
    for index, piece in enumerate(pieces):
        label = shown if len(pieces) == 1 else f"{shown} ({index + 1} of {len(pieces)})"
        try:
            found.append(dict(judged(piece), file=label))
        except ValueError as error:
            found.append(_damaged(label, f"a {piece.kind} that cannot be read: {error}"))
        except Exception as error:
            found.append(
                _damaged(label, f"a {piece.kind} that could not be read through: {type(error).__name__}: {error}")
            )
    return [dict(result, verdict=_verdict(result)) for result in found]


def _verdict(result: dict) -> Optional[str]:
    """A file of ours that cannot be read is UNKNOWN; another tool's file has no verdict."""
    return UNKNOWN if result["kind"] == DAMAGED else result["verdict"]


def _damaged(name: str, problem: str) -> dict:
    return {
        "file": name,
        "kind": DAMAGED,
        "parsed": "",
        "driver": None,
        "gpus": [],
        "verdict": UNKNOWN,
        "node_verdict": None,
        "checks": [],
        "problem": problem,
    }


def lines_of(result: dict) -> List[str]:
    """The lines printed for one file: parsed, verdict, findings with the worst first."""
    lines = [printable(result["file"])]
    if result["parsed"]:
        lines.append("  parsed   " + _short(result["parsed"]))
    if result["problem"]:
        lines.append("  problem  " + _short(result["problem"]))
    if result["verdict"]:
        lines.append(f"  verdict  {result['verdict']}{_other_verdict(result)}")
    bad = [check for check in result["checks"] if check["status"] not in (PASS, SKIP)]
    for check in sorted(bad, key=lambda check: TABLE_ORDER.index(check["status"])):
        lines.append(f"  {check['status']:<7}  {check['id']}: {_short(check['message'])}")
        if check["action"]:
            lines.append(f"           -> {_short(check['action'])}")
    return lines


def _other_verdict(result: dict) -> str:
    judged_checks = [check for check in result["checks"] if check["status"] != SKIP]
    words = f" ({len(judged_checks)} checks)" if judged_checks else ""
    if result["node_verdict"] not in (None, result["verdict"]):
        words += f"; the node itself said {printable(str(result['node_verdict']))}"
    return words


def _short(text: str) -> str:
    text = printable(str(text))
    return text if len(text) <= LONGEST else text[: LONGEST - 2] + ".."


def counts(results: List[dict]) -> dict:
    """{verdict: number}, and under "none" files that are no answer, log or bundle."""
    found = {status: sum(result["verdict"] == status for result in results) for status in SEVERITY}
    return dict(found, none=sum(result["verdict"] is None for result in results))


def closing_line(results: List[dict]) -> str:
    number = counts(results)
    said = ", ".join(f"{number[status]} {status}" for status in SEVERITY if number[status]) or "nothing judged"
    others = f"; {number['none']} not recognised" if number["none"] else ""
    return f"{len(results)} {'file' if len(results) == 1 else 'files'}: {said}{others}"


def exit_status_of(results: List[dict]) -> int:
    """1 with a FAIL, 3 with an UNKNOWN or if nothing could be judged, else 0."""
    verdicts = [result["verdict"] for result in results if result["verdict"] is not None]
    if FAIL in verdicts:
        return 1
    return 0 if verdicts and all(verdict in PASSING for verdict in verdicts) else 3
