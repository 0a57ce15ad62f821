# SPDX-License-Identifier: Apache-2.0
"""Judge a node's files: a bundle as the node did, a bare answer or log by the checks for which it is sufficient."""

import json
import re
from typing import Any, Dict, List, Optional, Sequence, Set

from ...checks.all import CHECKS, run_checks
from ...gpu.nvidia_smi.other_forms import record_of_form
from ...gpu.nvidia_smi.query import record_of, record_of_log
from ...host.bounded import Finished
from ...readings.kernel_log.boots import Machine, joined, machines
from ...readings.kernel_log.records import Line
from ...readings.kernel_log.saved import read_saved
from ...verdict.check import FAIL, LEVELS, PASS, STANDARD, UNKNOWN, UNNAMED, UNREADABLE, WARN, judge, worst
from ...verdict.expectations import PLAN_PARTS, SCHEMA, parse_expectations
from ..bundle.make import EXPECTATIONS, KERNEL_LOG, QUERY_XML, REPORT, identity
from ..scan.examine import scan_records
from ..scan.scope import is_scan
from .given_file import BUNDLE, FORMS, LOG, XML, Piece, manifest_of

REACHABLE = "driver.reachable"
# Readings that a file without its node lacks; a check that asks for one is left out.
OF_THE_NODE = ("plan", "venv", "smoke_device", "training_user")
# Settings that a node's administrator may have made, but nobody for a file; and no job hides anything in a file.
NO_CONFINEMENT: Dict[str, Any] = {
    "manager": None,
    "job": "",
    "cards": [],
    "denied": [],
    "granted": False,
    "hidden": False,
}
UNSET: Dict[str, Any] = {"xid_policy": [], "tuning": None, "confinement": NO_CONFINEMENT}
# `other_forms.STAND_IN`, with or without its function.
NO_ADDRESS = re.compile(r"ffff:ff:([0-9a-f]{2})(?:\.0)?")
NOT_MEASURED = "not measured: "
OF_WINDOWS = "the answer is from Windows, and what is to be typed is for Linux"


class Part(dict):
    """A record that notes which keys were asked for: existing ones in `found`, others in `missing`."""

    def __init__(self, record: Dict[str, Any]) -> None:
        dict.__init__(self, record)
        self.found: Set[object] = set()
        self.missing: Set[object] = set()

    def __contains__(self, key: object) -> bool:
        is_here = dict.__contains__(self, key)
        # The first thing asked of every record: whether it could be read.
        if key != "unreadable":
            (self.found if is_here else self.missing).add(key)
        return is_here


def judged(piece: Piece) -> dict:
    """`{kind, parsed, driver, gpus, verdict, node_verdict, checks, problem, left_out}`; ValueError for a damaged piece.

    Of what was not read to its end, nobody can say that it is good.
    """
    if piece.kind == BUNDLE:
        found = _bundle(piece)
    elif piece.kind == XML:
        found = _bare(piece.kind, {"nvidia_smi": _answer(piece.text)}, "", piece.cut)
    elif piece.kind in FORMS:
        found = _other_form(piece)
    elif piece.kind == LOG:
        reading = dict(piece.log.parsed, source="file", from_boot=True)
        reading["whole"] = reading["whole"] and not piece.cut
        found = _bare(piece.kind, {"kernel_log": reading}, _log_words(piece), piece.cut)
    else:
        found = _result(piece.kind, problem=piece.text)
    if piece.windows:
        found["left_out"] = found["left_out"] + [OF_WINDOWS]
        found["checks"] = [_of_windows(check) for check in found["checks"]]
    found["left_out"] = found["left_out"] + list(piece.left_out)
    if piece.cut and found["verdict"] in (PASS, WARN):
        found.update(verdict=UNKNOWN, problem="it was not read to its end, so that what follows is not judged")
    return found


def _of_windows(check: dict) -> dict:
    """Nobody can type systemctl there."""
    return dict(check, action=f"On Linux: {check['action']}") if check["action"] else check


def _result(kind: str, **more: Any) -> dict:
    empty: Dict[str, Any] = {
        "parsed": "",
        "driver": None,
        "gpus": [],
        "verdict": None,
        "node_verdict": None,
        "checks": [],
        "problem": "",
        "left_out": [],
    }
    return dict(empty, kind=kind, **more)


# -- bare files


def _answer(text: str, rc: int = 0) -> dict:
    return record_of(Finished(rc, text, "", False, False, False, ""))


def _other_form(piece: Piece) -> dict:
    """An answer that is no XML, by the checks for which it has values; what it lacks is said.

    A check that also asks for something the form lacks counts if what is there is enough for a finding.
    """
    log = record_of_form(piece.log)
    lacks = log["lacks"]
    found = _bare(piece.kind, {"nvidia_smi": record_of_log(log)}, "", piece.cut)
    dropped = [check["id"] for check in found["checks"] if _asks_for(check, lacks)]
    kept = [check for check in found["checks"] if check["id"] not in dropped]
    if dropped:
        others = checks_of_part(
            {"nvidia_smi": record_of_log(record_of_form(piece.log, without=False))},
            expectations_of_part(max(1, len(log["gpus"]))),
        )
        kept += [check for check in others if check["id"] in dropped and check["status"] in (FAIL, WARN)]
    dropped = sorted(set(dropped) - {check["id"] for check in kept})
    said = [f"this form of the answer does not tell: {', '.join(lacks)}"] if lacks else []
    said += [f"not judged without that: {', '.join(dropped)}"] if dropped else []
    kept = [_with_numbers(check) for check in kept]
    return dict(found, checks=kept, left_out=said, verdict=worst([check["status"] for check in kept]))


def _with_numbers(check: dict) -> dict:
    """The record with the card's place in a table that has no addresses."""
    return dict(
        check,
        message=NO_ADDRESS.sub(lambda match: f"GPU {int(match.group(1), 16)}", str(check["message"])),
        action=NO_ADDRESS.sub(lambda match: str(int(match.group(1), 16)), str(check["action"])),
        items=[NO_ADDRESS.sub(UNNAMED, str(item)) for item in check["items"]],
    )


def _asks_for(check: dict, lacks: Sequence[str]) -> bool:
    """Whether this check is UNKNOWN only because a form of the answer lacks a value."""
    names = {str(item).rpartition(".")[2] for item in check["items"]}
    return check["status"] == UNKNOWN and check["code"] == UNREADABLE and bool(names.intersection(lacks))


def _log_words(piece: Piece) -> str:
    log: Machine = piece.log
    lines = log.parsed["lines"]
    name = f" of {log.name}" if log.name and log.is_one_of_several else ""
    begins = "" if log.begins else ", which do not begin at the boot"
    others = f" of {piece.of}" if piece.of > lines else ""
    return "; ".join([f"kernel log{name}, {lines}{others} lines{begins}", *log.remarks])


def _bare(kind: str, readings: dict, words: str, cut: bool) -> dict:
    smi = readings.get("nvidia_smi")
    # At least one: without a GPU, all checks of GPUs would be skipped.
    count = max(1, len(smi["gpus"])) if smi else 1
    checks = checks_of_part(readings, expectations_of_part(count))
    if smi and not smi["reachable"]:
        # The others only say that the driver cannot be queried.
        checks = [check for check in checks if check["id"] == REACHABLE]
    parsed = ", ".join(part for part in (_answer_words(smi) if smi else "", words, "cut off" if cut else "") if part)
    verdict = worst([check["status"] for check in checks])
    return _result(kind, parsed=parsed, verdict=verdict, checks=checks, **_identity_of(smi))


def expectations_of_part(gpu_count: int) -> dict:
    """As many GPUs as there are, of any model, and no expectation that only the node's own file has."""
    stand_in = {
        "venv": "/",
        "smoke_device": "cuda",
        "training_user": "trainer",
        "plan": {part: {} for part in PLAN_PARTS},
    }
    full = parse_expectations(dict(stand_in, schema=SCHEMA, gpu_count=gpu_count, gpu_model=""))
    return {name: value for name, value in full.items() if name not in OF_THE_NODE}


def checks_of_part(readings: dict, expectations: dict) -> List[dict]:
    """The records of those checks that use these readings and ask for nothing that is missing."""
    records = []
    for check in CHECKS:
        seen, expected = Part(dict(UNSET, **readings)), Part(expectations)
        record = judge(check, seen, expected)
        if seen.found.intersection(readings) and not seen.missing and not expected.missing:
            records.append(record)
    return records


def _identity_of(smi: Optional[Dict[str, Any]]) -> dict:
    if not smi:
        return {"driver": None, "gpus": []}
    return {"driver": smi.get("driver_version"), "gpus": [str(gpu.get("name")) for gpu in smi.get("gpus", [])]}


def _answer_words(smi: Dict[str, Any]) -> str:
    if not smi.get("gpus"):
        return f"nvidia-smi, no GPU ({smi.get('status')})"
    names = [str(gpu.get("name")) for gpu in smi["gpus"]]
    counted = [f"{names.count(name)} x {name}" for name in sorted(set(names))]
    return f"nvidia-smi, driver {smi.get('driver_version')}, {', '.join(counted)}"


# -- bundles


def _record(piece: Piece, name: str) -> dict:
    try:
        value = json.loads(piece.members[name].decode("utf-8"))
    except RecursionError:
        raise ValueError(f"{name} is nested too deeply")
    if not isinstance(value, dict):
        raise ValueError(f"{name} holds no record")
    return value


def _bundle(piece: Piece) -> dict:
    manifest = manifest_of(piece.members)
    is_ours = manifest.get("identity") == identity()
    words = "bundle of {} at {}, level {}".format(*(str(manifest.get(key)) for key in ("host", "time", "level")))
    if REPORT not in piece.members:
        return _without_report(piece, manifest, words)
    report = _record(piece, REPORT)
    expected = _record(piece, EXPECTATIONS) if EXPECTATIONS in piece.members else report.get("expectations")
    readings = report.get("readings")
    if not isinstance(readings, dict):
        raise ValueError(f"{REPORT} has no readings")
    readings = dict(readings)
    if report.get("performance") is not None:
        readings["performance"] = _measured(report["performance"])
    if not is_ours:
        # An older reader may have missed what today's finds.
        readings.update(_read_again(piece, manifest))
        words += ", from another release: its raw answers were read again"
    level = str(manifest["level"]) if manifest.get("level") in LEVELS else STANDARD
    if expected is not None and is_scan(expected):
        checks = scan_records(readings, expected, level)
    else:
        checks = run_checks(readings, parse_expectations(expected), report.get("smoke"), level=level)
    smi = readings.get("nvidia_smi")
    smi = smi if isinstance(smi, dict) and "gpus" in smi else None
    return _result(
        BUNDLE,
        parsed=", ".join([words] + ([_answer_words(smi)] if smi else []) + (["cut off"] if piece.cut else [])),
        verdict=worst([check["status"] for check in checks]),
        node_verdict=report.get("verdict"),
        checks=checks,
        **_identity_of(smi),
    )


def _measured(performance: Any) -> Any:
    """The reading behind the report's `performance`, the reverse of report.performance_record."""
    problems = performance.get("problems") if isinstance(performance, dict) else None
    if problems and str(performance.get("because")) == NOT_MEASURED + str(problems[0]):
        return {"unreadable": problems[0]}
    return performance


def _read_again(piece: Piece, manifest: dict) -> dict:
    """The readings of the raw answers that are complete in the bundle."""
    found = {}
    rows = {row["name"]: row for row in manifest["files"] if isinstance(row, dict) and isinstance(row.get("name"), str)}
    if QUERY_XML in piece.members:
        rc = rows.get(QUERY_XML, {}).get("rc")
        if isinstance(rc, int):
            found["nvidia_smi"] = _answer(piece.members[QUERY_XML].decode("utf-8", "replace"), rc)
    if KERNEL_LOG in piece.members:
        # The node asked for one boot of its own; its name may have changed meanwhile.
        saved = read_saved(piece.members[KERNEL_LOG].decode("utf-8", "replace"))
        lines = [line._replace(host="") if isinstance(line, Line) else line for line in saved.lines]
        parsed = joined([machine.parsed for machine in machines(lines)])
        if parsed["lines"]:
            cut = "cut" in str(rows.get(KERNEL_LOG, {}).get("problem"))
            found["kernel_log"] = dict(parsed, source=KERNEL_LOG, whole=parsed["whole"] and not cut)
    return found


def _without_report(piece: Piece, manifest: dict, words: str) -> dict:
    """A node that had not been verified: its raw answers as bare files."""
    readings = _read_again(piece, manifest)
    if not readings:
        return _result(BUNDLE, parsed=words, verdict=UNKNOWN, problem="it holds neither a report nor a raw answer")
    return dict(_bare(BUNDLE, readings, words + ", without a report", piece.cut))
