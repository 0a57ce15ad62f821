# SPDX-License-Identifier: Apache-2.0
"""A verification as the module gpu_verify makes it: read the node, judge it, and keep the report."""

import os
import platform
from typing import Any, Dict, Mapping, NamedTuple, Optional

from ..checks.all import run_checks
from ..checks.collect import collect, collect_ahead
from ..checks.smoke.training import smoke_record
from ..checks.waivers.report import with_waivers
from ..training.smoke import SmokeBeside
from ..training.smoke_history import busy_smoke, check_mode_smoke
from ..verdict.check import FAIL, QUICK, UNKNOWN
from ..verdict.kept_file import FOLDER
from ..verdict.report import REPORT_PATH, Record, json_text, make_report, now_utc, write_report
from .between_checks import keep_for_next

# Parts of a report that the module's answer has beside `report`.
TOLD = ("verdict", "checks", "readings")


class Verified(NamedTuple):
    """A report, and how many seconds of it the smoke test took; None if it was not run here."""

    report: Dict[str, Any]
    smoke_seconds: Optional[float]


def verify(
    params: Mapping[str, Any], expectations: Record, check_mode: bool, training: Optional[SmokeBeside] = None
) -> Verified:
    """A `Verified` of this moment; writes nothing. `params` are those of the module, already checked.

    Meanwhile `training`, a smoke test that has begun, goes on. Only the slowest readings are taken beside it: it may
    leave an Xid, and load a module.
    """
    answer, ahead, began = params["smoke"], {}, now_utc()  # type: Any, Dict[str, Any], str
    if training:
        if params["level"] != QUICK:
            ahead = collect_ahead(expectations, cards_train=params["smoke_test"]["device"] == "cuda")
        answer = training.answer()
    readings = collect(
        expectations, nvidia_smi_seconds=params["nvidia_smi_timeout"], level=params["level"], ahead=ahead, site=True
    )
    smoke = smoke_record(answer)
    if training and "devices" in smoke:
        smoke = dict(smoke, tested_at=began)
    last_report = params["report_path"] or REPORT_PATH
    if "busy" in smoke:
        smoke = busy_smoke(smoke["busy"], last_report, readings, now_utc())
    elif check_mode and "unreadable" in smoke:
        smoke = check_mode_smoke(last_report, readings, now_utc())
    checks = run_checks(readings, expectations, smoke, level=params["level"])
    report = with_waivers(make_report(platform.node(), now_utc(), checks, readings, expectations, smoke))
    if params["simulated"]:
        report["simulated"] = params["simulated"]
    return Verified(report, answer["seconds"] if training else None)


def keep(report: Record, report_path: Optional[str], verified_path: Optional[str]) -> str:
    """Write the report and keep what the next check needs; returns what could not be kept or is lost, "" if nothing is.

    OSError if the report cannot be written.
    """
    write_report(report, report_path, verified_path)
    # A report elsewhere is somebody's copy, not this node's record.
    if os.path.dirname(report_path or "") != FOLDER or os.geteuid() != 0:
        return ""
    return keep_for_next(report)


def answer_of(report: Record, for_file: bool) -> Record:
    """What `gpu_verify` answers with: the report in its parts, or, for a file of the controller, its text.

    Ansible takes each word of an answer apart several times; with the text come only verdict and findings.
    """
    if for_file:
        findings = [check for check in report["checks"] if check["status"] in (FAIL, UNKNOWN)]
        return {"verdict": report["verdict"], "findings": findings, "report_text": json_text(report)}
    told = {name: report[name] for name in TOLD}
    return dict(told, report={name: value for name, value in report.items() if name not in TOLD})
