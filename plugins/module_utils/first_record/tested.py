# SPDX-License-Identifier: Apache-2.0
"""Whether the last smoke test still says how this node is, so that a run which changes nothing need not train again.

Digests of what a test depends on (`depends`) are in the report, in the record of the test: `depends_on`. That record is
taken for the present while all of them are as they were; what cannot be read is not.
"""

from typing import Any, Dict, Mapping, NamedTuple, Optional

from ..host.files import below
from ..training.smoke import SmokeBeside, start_beside
from ..verdict.boot_check import read_moment
from ..verdict.check import FAIL, PASS, UNKNOWN
from ..verdict.report import REPORT_PATH, Record, age_seconds, now_utc, read_json

DEPENDS_ON = "depends_on"
HOUR_S = 3600
# A clock that is kept by NTP differs from the uptime by less within a day; one that lags further behind was set back.
CLOCK_S = 120
# The test itself loads modules (nvidia_uvm), so they are as they were at its end.
BY_THE_TEST = ("modules",)


class Test(NamedTuple):
    """How a verification comes to its smoke test: by one that has begun, or by what is known without one.

    options   of the test; None if none is wanted
    training  has begun and goes on; None if none was begun
    known     what gpu_verify has as `smoke` then; None if one was begun, or none is wanted
    at_work   who works on the cards, so that none was begun there
    parts     what it depends on, before it began; {} where that cannot be read or there is none
    """

    options: Optional[Mapping[str, Any]]
    training: Optional[SmokeBeside] = None
    known: Optional[Dict[str, Any]] = None
    at_work: str = ""
    parts: Mapping[str, str] = {}


def begin_test(options: Optional[Mapping[str, Any]]) -> Test:
    """Let a test with these options begin (of gpu_verify, as smoke_test), unless the last one still holds."""
    if not options:
        return Test(None)
    parts = _parts(options) if options["hours"] > 0 else {}
    known = still_holds(parts, options["hours"])
    if known:
        return Test(options, known=known)
    training, at_work = start_beside(options)
    if at_work:
        return Test(options, known={"busy": at_work}, at_work=at_work)
    return Test(options, training, parts=parts or _parts(options))


def end_test(report: Dict[str, Any], test: Test) -> None:
    """Keep in the report what a test that was run depends on."""
    if test.training and test.options and test.parts:
        keep_parts(report, test.parts, _parts(test.options))


def _parts(options: Mapping[str, Any]) -> Mapping[str, str]:
    # Late: what it loads takes a while, and a training that is wanted anyway is to begin first.
    from .depends import look_at_all

    return look_at_all(options)


def passed(report: Record) -> bool:
    """Whether the test of the report really ran, on all that it was meant for, and nothing was wrong with it."""
    smoke = report.get("smoke")
    if not isinstance(smoke, dict) or {"busy", "check_mode", "unreadable"} & set(smoke) or smoke.get("problems"):
        return False
    found = {check["id"]: check for check in report["checks"] if str(check["id"]).startswith("smoke.")}
    amp = found.get("smoke.amp", {})
    good = not any(check["status"] in (FAIL, UNKNOWN) or check.get("waived") for check in found.values())
    return good and amp.get("status") == PASS


def keep_parts(report: Dict[str, Any], before: Mapping[str, str], after: Mapping[str, str], root: str = "/") -> None:
    """Put what the report's test depends on beside it, if it passed and nothing of that changed while it ran."""
    same = set(before) == set(after) and all(before[name] == after[name] for name in before if name not in BY_THE_TEST)
    uptime_s = read_moment(root)["uptime_s"]
    if before and same and uptime_s is not None and passed(report):
        report["smoke"] = dict(report["smoke"], **{DEPENDS_ON: {"uptime_s": uptime_s, "parts": dict(after)}})


def still_holds(
    parts: Mapping[str, str], hours: float, path: str = REPORT_PATH, root: str = "/", now: str = ""
) -> Optional[Dict[str, Any]]:
    """The record of the last test, with `age_s`, if it passed and these parts are as they were; else None.

    hours  how old it may be. By the clock and by the uptime: where the clock was set back, nobody knows its age.
    """
    try:
        report = read_json(below(root, path))
        if not parts or not passed(report):
            return None
        smoke = report["smoke"]
        age_s = age_seconds(smoke["tested_at"], now or now_utc())
        up_s = (read_moment(root)["uptime_s"] or 0.0) - smoke[DEPENDS_ON]["uptime_s"]
        is_same = smoke[DEPENDS_ON]["parts"] == dict(parts)
        young = 0 <= age_s < hours * HOUR_S and 0 <= up_s < hours * HOUR_S and age_s > up_s - CLOCK_S
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return dict(smoke, age_s=age_s) if is_same and young else None
