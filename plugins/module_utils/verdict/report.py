# SPDX-License-Identifier: Apache-2.0
"""The report of a verification: its record, its file, and its totals."""

import datetime
import json
import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence

from ..host.patterns import lazily
from ..host.whole_file import write_whole
from ..host.written.state_file import MOST_BYTES
from ..host.written.told import printable as printable
from .check import FAIL, PASS, SEVERITY, SKIP, WARN, worst

SCHEMA = 1
REPORT_PATH = "/var/lib/gpuwright/report.json"
TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
TIME = lazily(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
TABLE_ORDER = SEVERITY + (SKIP,)
PASSING = (PASS, WARN)
# Whose decision it was that a finding does not count: `waived.by` of a check.
BY_ROOT = "acknowledgement"
BY_INVENTORY = "inventory"
# Seconds and name of the units in which an age is given; the largest unit of which there are at least two.
AGE_UNITS = ((86400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"))

# A JSON object, with keys that docs/parts/report.md and the report's schema describe.
Record = Mapping[str, Any]


def now_utc() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime(TIME_FORMAT)


def age_seconds(time: str, now: str) -> int:
    """Seconds from `time` to `now`, both in the report's format; ValueError for another format."""
    return int((_moment(now) - _moment(time)).total_seconds())


def _moment(text: str) -> datetime.datetime:
    # strptime() would be the only one in a check of every five minutes, and loads a module for itself and locales.
    if not TIME.fullmatch(text):
        raise ValueError(f"time data {text!r} does not match format {TIME_FORMAT!r}")
    year, month, day, hour, minute, second = map(int, re.findall("[0-9]+", text))
    return datetime.datetime(year, month, day, hour, minute, second)


def age_words(seconds: int) -> str:
    """For example "119 seconds ago"."""
    size, unit = next((size, unit) for size, unit in AGE_UNITS if seconds >= 2 * size or size == 1)
    return f"{seconds // size} {unit} ago"


def make_report(
    host: str, time: str, checks: Sequence[Record], readings: Record, expectations: Any, smoke: Optional[Record]
) -> Dict[str, Any]:
    """The record in report.json; `smoke` is None if no smoke test was run."""
    return {
        "schema": SCHEMA,
        "host": host,
        "time": time,
        "verdict": worst([check["status"] for check in checks]),
        "checks": checks,
        "readings": {name: value for name, value in readings.items() if name != "performance"},
        "expectations": expectations,
        "smoke": smoke,
        "performance": performance_record(readings.get("performance")),
    }


def performance_record(reading: Optional[Record]) -> Optional[Record]:
    """The report's `performance`: null if it was not asked for, without devices if it could not be measured."""
    if reading is None or "unreadable" not in reading:
        return reading
    reason = reading["unreadable"]
    empty = {"schema": 1, "because": f"not measured: {reason}", "busy": [], "devices": [], "all_reduce": None}
    return dict(empty, problems=[reason])


def json_text(value: Any) -> str:
    """A record as it is in a file, for programs and people."""
    return json.dumps(value, indent=2, sort_keys=True) + "\n"


def write_json(path: str, value: Any) -> None:
    """Replace the file `path` with a record as JSON, in one step as `write_text` does."""
    write_text(path, json_text(value))


def write_text(path: str, text: str) -> None:
    """Replace the file `path` (mode 0644) in one step: a reader sees the old or the new one, also after a power cut."""
    # "replace": an incomplete character, as from a file name that is not UTF-8, must not prevent the whole file.
    write_whole(path, text.encode("utf-8", "replace"))


def write_report(report: Record, report_path: Optional[str], verified_path: Optional[str]) -> None:
    """Write the report and, if the node has passed, the mark of that; a path that is None is not written."""
    if report_path:
        write_json(report_path, report)
    if verified_path and report["verdict"] in PASSING:
        write_json(verified_path, {name: report[name] for name in ("schema", "host", "time", "verdict")})


def read_json(path: str) -> Dict[str, Any]:
    """The record in a JSON file; OSError if it cannot be read, ValueError if it is not a JSON record."""
    with open(path, "rb") as file:
        try:
            value = json.loads(file.read(MOST_BYTES).decode("utf-8"))
        except RecursionError as error:
            raise ValueError(str(error))
    if not isinstance(value, dict):
        raise ValueError(f"{path} holds no JSON record")
    return value


def counts(checks: Iterable[Record]) -> Dict[str, int]:
    """How many checks have which status."""
    return {status: sum(check["status"] == status for check in checks) for status in TABLE_ORDER}


def waived_by(checks: Iterable[Record], who: str) -> List[Record]:
    """The records that were waived in this way, in order; a damaged report has none."""
    return [check for check in checks if isinstance(check.get("waived"), dict) and check["waived"].get("by") == who]


def waived_words(checks: Sequence[Record]) -> str:
    """For example "2 switched off, 1 acknowledged"; "" if nothing is waived."""
    numbers = (
        ("switched off", len(waived_by(checks, BY_INVENTORY))),
        ("acknowledged", len(waived_by(checks, BY_ROOT))),
    )
    return ", ".join(f"{number} {words}" for words, number in numbers if number)


def summary_line(checks: Sequence[Record]) -> str:
    """For example "31 checks: 30 PASS, 1 WARN; 2 skipped, 1 switched off, 1 acknowledged"."""
    number = counts(checks)
    done = ", ".join(f"{number[status]} {status}" for status in SEVERITY if number[status])
    counted = len(checks) - number[SKIP]
    waived = waived_words(checks)
    more = ", " + waived if waived else ""
    return f"{counted} checks: {done or 'none'}; {number[SKIP]} skipped{more}"


def exit_status(verdict: str) -> int:
    """0 for PASS and WARN, 1 for FAIL, 3 for UNKNOWN; 2 is left for usage errors."""
    return 0 if verdict in PASSING else {FAIL: 1}.get(verdict, 3)
