# SPDX-License-Identifier: Apache-2.0
"""The smoke test of the last verification, for a check of the node that itself starts no GPU work."""

import datetime
from typing import Any, Dict, Mapping

from ..verdict.evidence import Evidence, Unreadable
from ..verdict.report import TIME_FORMAT, age_seconds, read_json


def loaded_driver(readings: Evidence) -> str:
    if readings.absent("probe", "nvidia", "loaded"):
        return "none"
    return readings.version("probe", "nvidia", "loaded", "version")


def installed_pytorch(readings: Evidence) -> str:
    return readings.text("venv", "versions", "torch")


# Values that must not have changed since a test if its result is still to count.
SAME_AS_THEN = (("the loaded driver", loaded_driver), ("PyTorch", installed_pytorch))


def last_smoke(path: str, readings: Mapping[str, Any], now: str) -> Any:
    """The smoke test in the report at `path` with `age_s` added, `{"unreadable": "why"}`, or `{"busy": who}`.

    The latter if that verification ran none, since somebody was working on the GPUs, and knew of no earlier one.

    It no longer counts if the driver or PyTorch differs from that report. `now` is in the report's format.
    """
    try:
        report = read_json(path)
        smoke = report.get("smoke")
        if not isinstance(smoke, dict):
            return {"unreadable": "the last verification ran no smoke test"}
        if "busy" in smoke and "time" not in smoke:
            return {"busy": smoke["busy"]}
        changed = what_changed(report.get("readings"), readings)
        if changed:
            return {"unreadable": f"{changed} has changed since the last smoke test"}
        smoke = {name: value for name, value in smoke.items() if name not in ("busy", "age_s")}
        return dict(smoke, age_s=age_seconds(str(smoke.pop("time", smoke.get("tested_at", report.get("time")))), now))
    except FileNotFoundError:
        return {"unreadable": f"this node has not been verified yet ({path} is missing)"}
    except (OSError, ValueError) as error:
        return {"unreadable": f"the report of the last verification: {error}"}


def busy_smoke(who: str, path: str, readings: Mapping[str, Any], now: str) -> Dict[str, Any]:
    """The record of a smoke test that was not run, since `who` is working on the GPUs: the last one's, if there is one.

    `busy` says who, `time` and `age_s` when the last one was; if none still counts, there is only `busy`.
    """
    last = last_smoke(path, readings, now) if path else {}
    if "age_s" not in last:
        return {"busy": who}
    then = datetime.datetime.strptime(now, TIME_FORMAT) - datetime.timedelta(seconds=last["age_s"])
    return dict(last, busy=who, time=then.strftime(TIME_FORMAT))


def check_mode_smoke(path: str, readings: Mapping[str, Any], now: str) -> Dict[str, Any]:
    """The record of a run in check mode, which tests nothing: the last test's, if one still counts."""
    last = last_smoke(path, readings, now)
    return dict(last if "age_s" in last else {}, check_mode=True)


def what_changed(then: Any, now: Any) -> str:
    """The first of SAME_AS_THEN that differs or cannot be read; "" if all are the same."""
    for words, read in SAME_AS_THEN:
        try:
            if read(Evidence(then, "then")) != read(Evidence(now, "now")):
                return words
        except Unreadable:
            return words
    return ""
