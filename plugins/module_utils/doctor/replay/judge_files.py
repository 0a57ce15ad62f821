# SPDX-License-Identifier: Apache-2.0
"""`gpu-doctor --replay`: judge bundles, answers of nvidia-smi and kernel logs on any machine; prints what was found."""

import json
import os
from typing import List, Optional

from ...verdict.check import FAIL, PASS, SEVERITY, SKIP, UNKNOWN
from ...verdict.report import PASSING, TABLE_ORDER, printable
from .given_file import DAMAGED, NOT_JUDGED, look_below, pieces_of
from .judge import judged

SCHEMA = 1
LONGEST = 400
USAGE_ERROR = 2
# A log of a year has many boots.
MOST_LEFT_OUT = 10


def replay(path: str, as_json: bool = False) -> int:
    """Print the judgement of a file, or of every file below a folder; returns gpu-doctor's exit status."""
    below = look_below(path)
    results: List[dict] = []

    def take(found: List[dict]) -> None:
        results.extend(found)
        for result in [] if as_json else found:
            print("\n".join(lines_of(result)))

    take([_damaged(name, problem) for name, problem in below.problems])
    for name in below.files:
        take(results_of(name, path))
    if as_json:
        record = {"schema": SCHEMA, "files": results, "counts": counts(results), "left_out": below.left_out}
        print(json.dumps(record, indent=2, sort_keys=True))
    else:
        print("; ".join([closing_line(results), *[f"{words} not looked at" for words in below.left_out]]))
    return exit_status_of(results)


def results_of(name: str, path: str) -> List[dict]:
    """The records of one file, one for each answer in it; never raises, whatever the file contains."""
    shown = os.path.relpath(name, path) if os.path.isdir(path) and name != path else name
    try:
        pieces = pieces_of(name)
    except OSError as error:
        return [_damaged(shown, f"it cannot be read: {error.strerror or error}")]
    except Exception as error:
        return [_damaged(shown, f"it cannot be read: {str(error) or type(error).__name__}")]
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
    several = len(found) > 1
    return [dict(result, verdict=_verdict(result, several)) for result in found]


def _verdict(result: dict, several: bool) -> Optional[str]:
    """A file of ours that cannot be read is UNKNOWN, and a part that is not judged; other files have no verdict."""
    is_unknown = result["kind"] == DAMAGED or (several and result["kind"] == NOT_JUDGED)
    return UNKNOWN if is_unknown else result["verdict"]


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
        "left_out": [],
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
    lines += ["  besides  " + _short(words) for words in result["left_out"][:MOST_LEFT_OUT]]
    if len(result["left_out"]) > MOST_LEFT_OUT:
        lines.append(f"  besides  {len(result['left_out']) - MOST_LEFT_OUT} more, which --json lists")
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
    """1 with a FAIL, 3 with an UNKNOWN, with a file that is known and not judged, or if nothing was judged, else 0."""
    verdicts = [result["verdict"] for result in results if result["verdict"] is not None]
    if FAIL in verdicts:
        return 1
    if any(result.get("kind") == NOT_JUDGED for result in results):
        return 3
    return 0 if verdicts and all(verdict in PASSING for verdict in verdicts) else 3
