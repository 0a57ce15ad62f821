# SPDX-License-Identifier: Apache-2.0
"""A verification as the module gpu_verify makes it: read the node, judge it, and keep the report."""

import os
import platform
from typing import Any, Dict, Mapping, NamedTuple, Optional

from ..checks.all import run_checks
from ..checks.collect import collect, collect_ahead
from ..checks.gpu.strikes_kept import keep_strikes
from ..checks.smoke.training import smoke_record
from ..checks.waivers.report import with_waivers
from ..host.in_child import Beside
from ..training.smoke import run_smoke, wrong_option
from ..training.smoke_history import busy_smoke, check_mode_smoke
from ..verdict.check import QUICK
from ..verdict.kept_file import FOLDER
from ..verdict.report import REPORT_PATH, Record, make_report, now_utc, write_report

# Readings that were taken beside the smoke test have long been made when it ends; later they are taken again.
AHEAD_SECONDS = 60


class Verified(NamedTuple):
    """A report, and how many seconds of it the smoke test took; None if it was not run here."""

    report: Dict[str, Any]
    smoke_seconds: Optional[float]


def wrong_parameter(params: Mapping[str, Any], check_mode: bool) -> str:
    """What is wrong with the parameters other than the expectations, "" if nothing is."""
    seconds = params["nvidia_smi_timeout"]
    if not seconds > 0:
        return f"nvidia_smi_timeout: {seconds} is not a waiting time; expected seconds above 0"
    if params["smoke_test"] and wrong_option(params["smoke_test"]):
        return f"smoke_test: {wrong_option(params['smoke_test'])}"
    for name in ("report_path", "verified_path"):
        path = params[name]
        # On a new node, an earlier task would have made the folder, which check mode only announced.
        if path and not (os.path.isabs(path) and (check_mode or os.path.isdir(os.path.dirname(path)))):
            return f"{name}: {path}: expected an absolute path in an existing folder"
    return ""


def verify(params: Mapping[str, Any], expectations: Record, check_mode: bool) -> Verified:
    """A `Verified` of this moment; writes nothing. `params` are those of the module, already checked."""
    answer, ahead = params["smoke"], {}  # type: Any, Dict[str, Any]
    if params["smoke_test"] and not check_mode:
        answer, ahead = run_smoke_beside(params["smoke_test"], expectations, params["level"])
    readings = collect(
        expectations, nvidia_smi_seconds=params["nvidia_smi_timeout"], level=params["level"], ahead=ahead
    )
    smoke = smoke_record(answer)
    last_report = params["report_path"] or REPORT_PATH
    if "busy" in smoke:
        smoke = busy_smoke(smoke["busy"], last_report, readings, now_utc())
    elif check_mode and "unreadable" in smoke:
        smoke = check_mode_smoke(last_report, readings, now_utc())
    checks = run_checks(readings, expectations, smoke, level=params["level"])
    report = with_waivers(make_report(platform.node(), now_utc(), checks, readings, expectations, smoke))
    if params["simulated"]:
        report["simulated"] = params["simulated"]
    return Verified(report, answer["seconds"] if params["smoke_test"] and not check_mode else None)


def run_smoke_beside(options: Mapping[str, Any], expectations: Record, level: str) -> Any:
    """(what the smoke test answered, the readings of `collect_ahead`, which a child took meanwhile).

    All others are taken once it is over: it may leave an Xid, and load a module.
    """
    reader = None if level == QUICK else Beside(_read_ahead, (expectations, options["device"] == "cuda"))
    try:
        answer = run_smoke(options)
    finally:
        ahead = (reader.answer(AHEAD_SECONDS) if reader else None) or {}
    return answer, ahead


def _read_ahead(wanted: Any) -> Dict[str, Any]:
    expectations, cards_train = wanted
    return collect_ahead(expectations, cards_train=cards_train)


def keep(report: Record, report_path: Optional[str], verified_path: Optional[str]) -> str:
    """Write the report and count the strikes; returns what could not be counted, "" if nothing went wrong.

    The verdict does not depend on the strikes, so that is no error. OSError if the report cannot be written.
    """
    write_report(report, report_path, verified_path)
    # A report elsewhere is somebody's copy, not this node's record.
    if os.path.dirname(report_path or "") != FOLDER or os.geteuid() != 0:
        return ""
    try:
        keep_strikes(report)
    except (OSError, ValueError) as error:
        return f"strikes are not counted: {error}"
    return ""
