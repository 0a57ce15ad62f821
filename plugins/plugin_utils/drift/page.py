# SPDX-License-Identifier: Apache-2.0
"""The record and the page that playbooks/drift.yml leaves on the controller."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.verdict.report import write_text

from ..page.render import render
from .found import DRIFT, NONE, Found, status_of, worst_first

FOLDER, RECORD, PAGE = "drift", "drift.json", "index.html"
# The page's colours are those of verdicts.
LOOKS = {DRIFT: "FAIL", NONE: "PASS"}
WORDS = {DRIFT: "DRIFT", NONE: "no drift"}
HEAD = ["What", "Of it", "Layer", "Now", "Planned", "Task", "Changed"]


def write(folder: Path, record: Mapping[str, Any], hosts: Mapping[str, Found]) -> Path:
    """Write both files, each whole or not at all; the page's path. OSError if that cannot be done."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    write_text(os.fspath(folder / RECORD), json.dumps(record, indent=1, sort_keys=True) + "\n")
    write_text(os.fspath(folder / PAGE), html(record, hosts))
    return folder / PAGE


def html(record: Mapping[str, Any], hosts: Mapping[str, Found]) -> str:
    """The page: each host with its table; every value is escaped when it is inserted."""
    shown = [_shown(name, hosts[name]) for name in worst_first(hosts)]
    return render("drift.html.j2", record=record, hosts=shown, badge=_badge(str(record["status"])))


def _badge(status: str) -> dict[str, str]:
    return {"status": LOOKS.get(status, "UNKNOWN"), "text": WORDS.get(status, "UNKNOWN")}


def _shown(name: str, host: Found) -> dict[str, Any]:
    rows = [[row.what, row.attribute, row.layer, row.now, row.planned, row.task, row.who] for row in host.differences]
    number = len(rows)
    return {
        "name": name,
        "badge": _badge(status_of(host)),
        "verdict": host.verdict,
        "table": {"looks": "", "caption": f"{number} difference{'' if number == 1 else 's'}", "head": HEAD,
                  "rows": rows, "groups": []},
        "texts": [(row.what, "\n".join(row.lines)) for row in host.differences if row.lines],
        "unknown": [f"{row.task}: {row.why}" for row in host.unknown],
        "remarks": host.remarks,
    }  # fmt: skip
