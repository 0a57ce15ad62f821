# SPDX-License-Identifier: Apache-2.0
"""train-gan doctor: what this installation has, chooses and lacks; exit code 0 when a training would start, else 1."""

from __future__ import annotations

import argparse
import json
import os

from ..errors import EXIT_FAILED
from .options import read_config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", default=os.devnull, metavar="FILE", help="default: every key at its default")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="settings that replace the file's")
    parser.add_argument("--json", action="store_true", help="one line of JSON")


def run(options: argparse.Namespace) -> int:
    from ..doctor import FAIL, examine

    rows = examine(read_config(options))
    failed = any(row.status == FAIL for row in rows)
    if options.json:
        print(json.dumps({"schema": 1, "usable": not failed, "rows": [row._asdict() for row in rows]}))
    else:
        for row in rows:
            print(f"{row.status:<5} {row.topic:<13} {row.value}" + (f"  ->  {row.action}" if row.action else ""))
    return EXIT_FAILED if failed else 0
