# SPDX-License-Identifier: Apache-2.0
"""Results that an ordinary user cannot obtain, taken from root's last ones on this node in this boot.

Nobody but root writes these files. A result of an earlier boot, of other expectations, or in a file that others could
have changed says nothing about this moment, and the check stays skipped.
"""

import os
import stat
from typing import Any, Dict, List, Tuple

from ..host.files import below, read_text
from ..verdict.boot_check import BOOT_ID_PATH, RECORD_PATH, digest
from ..verdict.check import NEEDS_ROOT, SKIP
from ..verdict.report import REPORT_PATH, TABLE_ORDER, Record, age_seconds, age_words, read_json

TEXTS = ("id", "layer", "status", "unit", "message", "action", "remedy")
KEYS = set(TEXTS) | {"value", "expected"}


def with_roots_results(
    checks: List[Dict[str, Any]], expectations: Record, now: str, root: str = "/"
) -> List[Dict[str, Any]]:
    """The records of a run, with those that only root can judge replaced by root's own of this boot, if any.

    `now` is in the report's format.
    """
    if not any(_only_root(check) for check in checks):
        return checks
    known = roots_results(expectations, now, root)
    return [known.get(check["id"], check) if _only_root(check) else check for check in checks]


def roots_results(expectations: Record, now: str, root: str = "/") -> Dict[str, Dict[str, Any]]:
    """`{id: record}` of root's last results of this boot under these expectations, the newest of each check."""
    boot_id = read_text(root, BOOT_ID_PATH)
    found: Dict[str, Any] = {}
    for path, parts in ((REPORT_PATH, _of_report), (RECORD_PATH, _of_boot_check)):
        try:
            record = read_roots(below(root, path))
            then, wanted = parts(record)
            age_s = age_seconds(str(record.get("time")), now)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        if not boot_id or then != boot_id or wanted != digest(expectations) or age_s < 0:
            continue
        for check in record["checks"] if isinstance(record.get("checks"), list) else []:
            if _is_record(check) and (check["id"] not in found or age_s <= found[check["id"]][0]):
                found[check["id"]] = age_s, check
    return {name: _aged(check, age_s) for name, (age_s, check) in found.items()}


def read_roots(path: str) -> Dict[str, Any]:
    """The JSON record of a file that only root may change; ValueError for any other."""
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != 0 or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError(f"{path} may be changed by users other than root")
    return read_json(path)


def _of_report(record: Record) -> Tuple[str, str]:
    return record["readings"]["probe"]["kernel"]["boot_id"], digest(record["expectations"])


def _of_boot_check(record: Record) -> Tuple[str, str]:
    return record["boot_id"], record["expectations_sha256"]


def _is_record(check: Any) -> bool:
    if not isinstance(check, dict) or not set(check) >= KEYS or check["status"] not in TABLE_ORDER:
        return False
    return all(isinstance(check[name], str) for name in TEXTS)


def _aged(check: Record, age_s: int) -> Dict[str, Any]:
    # A record of an earlier release has no code and no items.
    kept = KEYS | ({"code", "items"} & set(check))
    return dict({name: check[name] for name in kept}, message=f"{check['message']}; seen by root {age_words(age_s)}")


def _only_root(check: Record) -> bool:
    return check["status"] == SKIP and check.get("code") == NEEDS_ROOT
