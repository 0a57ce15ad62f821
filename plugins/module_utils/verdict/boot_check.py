# SPDX-License-Identifier: Apache-2.0
"""The last check of this boot, kept on the node, and the gate that lets training start only if it was good.

Besides a good record, the gate is open for one reason: monitoring is not installed on this node, so nothing would write
a record. Everything else that is not a good, fresh record of this boot keeps it closed, including an unreadable file.
"""

import errno
import hashlib
import json
import os
from typing import Any, Dict, Mapping, Optional, Tuple

from ..host.files import below
from ..host.files import read_text as read_file
from .check import FAIL, UNKNOWN
from .evidence import LARGEST
from .expectations import EXPECTATIONS_PATH
from .report import PASSING, now_utc, printable, read_json, write_json

RECORD_PATH = "/var/lib/gpuwright/boot-check.json"
# The role system_monitor writes this unit and removes it.
UNIT_PATH = "/etc/systemd/system/gpuwright-boot-check.service"
BOOT_ID_PATH = "/proc/sys/kernel/random/boot_id"
UPTIME_PATH = "/proc/uptime"
SCHEMA = 1
CHECK_NOW = "systemctl start gpuwright-check.service"
LONGEST_REASON = 600
LONGEST_ACTION = 600
LEAST_WORDS = 120


def make_record(report: Mapping[str, Any], level: str, holds_s: float, root: str = "/") -> Dict[str, Any]:
    """The content of boot-check.json: verdict and findings of `report`, their boot, and how long they are valid.

    holds_s is seconds from now. Age is measured by the uptime, since the clock may be set while a node runs.
    ValueError if boot or uptime cannot be read: a record that belongs to no known boot would be worthless.
    """
    boot_id, uptime_s = read_file(root, BOOT_ID_PATH), read_uptime(root)
    if not boot_id or uptime_s is None:
        raise ValueError(f"{BOOT_ID_PATH} or {UPTIME_PATH} cannot be read")
    findings = [
        {name: check[name] for name in ("id", "status", "code", "message", "action") if name in check}
        for check in report["checks"]
        if check["status"] in (FAIL, UNKNOWN)
    ]
    caused = {check["id"] for check in report["checks"] if check.get("caused_by")}
    return {
        "schema": SCHEMA,
        "boot_id": boot_id,
        "uptime_s": uptime_s,
        "holds_s": holds_s,
        "host": report["host"],
        "time": report["time"],
        "level": level,
        "verdict": report["verdict"],
        "findings": sorted(findings, key=lambda found: (found["id"] in caused, found["status"] != FAIL)),
        # For ordinary users, who cannot read everything that root can.
        "checks": report["checks"],
        "expectations_sha256": digest(report["expectations"]),
    }


def digest(expectations: Any) -> str:
    """A digest of the expectations by which a node was judged."""
    return hashlib.sha256(json.dumps(expectations, sort_keys=True).encode("ascii")).hexdigest()


def keep_record(report: Mapping[str, Any], level: str, holds_s: float, root: str = "/") -> None:
    """Replace boot-check.json; if that fails, the old one is removed, since it is no longer true."""
    path = below(root, RECORD_PATH)
    try:
        # A line for each value: deploy/gate/gpuwright-verdict reads it by its lines, without a reader of JSON.
        write_json(path, make_record(report, level, holds_s, root))
    except (OSError, ValueError):
        forget_record(root)
        raise


def forget_record(root: str = "/") -> None:
    """Remove boot-check.json, if it exists."""
    try:
        os.unlink(below(root, RECORD_PATH))
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise


def gate(root: str = "/") -> Tuple[bool, str]:
    """`(open, sentence)`: whether training may start on this node, and why; if not, also what to do."""
    try:
        os.lstat(below(root, UNIT_PATH))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return True, f"not gated: monitoring is not installed on this node ({UNIT_PATH} is absent)"
        return False, f"closed: {UNIT_PATH} cannot be examined: {error.strerror}"
    try:
        record = read_json(below(root, RECORD_PATH))
    except OSError as error:
        return False, f"closed: {RECORD_PATH}: {error.strerror}: {next_step(root)}"
    except ValueError as error:
        return False, f"closed: {RECORD_PATH} is damaged ({error}): run {CHECK_NOW}"
    problem = doubt(record, read_file(root, BOOT_ID_PATH), read_uptime(root))
    if problem:
        return False, f"closed: {problem}: run {CHECK_NOW}"
    if record["verdict"] in PASSING:
        return True, f"open: verdict {record['verdict']} of {record['time']}"
    return False, f"closed: verdict {record['verdict']} of {record['time']}: {first_finding(record)}"


def next_step(root: str) -> str:
    """What to do if there is no record: without expectations, systemd skips the check."""
    if os.path.exists(below(root, EXPECTATIONS_PATH)):
        return "no check has finished on this node yet: run " + CHECK_NOW
    return "this node was never verified: ansible-playbook site.yml --tags verify"


def doubt(record: Mapping[str, Any], boot_id: Optional[str], uptime_s: Optional[float]) -> str:
    """Why a record says nothing about this moment, "" if it does. `uptime_s` in seconds, None if unknown."""
    if type(record.get("schema")) is not int or record["schema"] != SCHEMA:
        return f"boot-check.json has schema {record.get('schema')!r}; this program knows {SCHEMA}"
    if not boot_id or uptime_s is None:
        return "this boot's id or uptime cannot be read"
    if record.get("boot_id") != boot_id:
        return f"the last check is from an earlier boot ({record.get('time')})"
    for name in ("uptime_s", "holds_s"):
        value = record.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < LARGEST:
            return f"boot-check.json has {name} {value!r}; expected seconds"
    age_s = uptime_s - record["uptime_s"]
    if not 0 <= age_s <= record["holds_s"]:
        return f"the last check ({record.get('time')}) is {age_s:.0f} s old and was valid for {record['holds_s']:.0f} s"
    if not isinstance(record.get("verdict"), str) or not isinstance(record.get("time"), str):
        return "boot-check.json has no verdict or no time"
    return ""


def first_finding(record: Mapping[str, Any]) -> str:
    """The worst finding in one sentence with its action."""
    findings = record.get("findings")
    for finding in findings if isinstance(findings, list) else []:
        if isinstance(finding, dict):
            name, message, action = (printable(str(finding.get(key))) for key in ("id", "message", "action"))
            # Commands to type stay whole; the message may be cut at its end.
            words, action = f"{name}: {message}", action[:LONGEST_ACTION]
            room = max(LEAST_WORDS, LONGEST_REASON - len(action))
            return f"{words if len(words) <= room else words[: room - 2] + '..'} -> {action}"
    return "run gpu-doctor --level quick"


def read_moment(root: str = "/") -> Dict[str, Any]:
    """`{time, boot_id, uptime_s}` of now, by which waivers and strikes are counted; null for what is unknown."""
    return {"time": now_utc(), "boot_id": read_file(root, BOOT_ID_PATH) or None, "uptime_s": read_uptime(root)}


def read_uptime(root: str = "/") -> Optional[float]:
    """Seconds since this boot, or None."""
    first = (read_file(root, UPTIME_PATH) or "").split(" ")[0]
    try:
        seconds = float(first)
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
