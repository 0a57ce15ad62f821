# SPDX-License-Identifier: Apache-2.0
"""gpu-tune: show the settings of this node beside what they are now, and apply them, as at each boot.

Exit status 0: all as wanted; 1: something differs or could not be set; 2: usage; 3: the node is not tuned.
"""

import argparse
import json
import sys
from typing import Any, Iterable, Mapping, Optional, Sequence

from ..host.terminal import escape_output
from . import knobs as tuning_knobs
from .reading import load_record, read_found

NOT_FOR_BOOT = ("file", "tuned", "unit")


def main(arguments: Optional[Sequence[str]] = None, root: str = "/") -> int:
    escape_output()
    parser = argparse.ArgumentParser(prog="gpu-tune", description=__doc__.splitlines()[0])
    parser.add_argument("--apply", action="store_true", help="set what differs (root); done at each boot")
    parser.add_argument("--json", action="store_true", help="for programs")
    chosen = parser.parse_args(arguments)
    try:
        known = load_record(root)
    except ValueError as error:
        print(f"gpu-tune: {error}", file=sys.stderr)
        return 1
    if known is None:
        print("gpu-tune: this node is not tuned (role system_tuning)", file=sys.stderr)
        return 3
    if chosen.apply:
        problems = apply_settings(root, known["settings"])
        for problem in problems:
            print(f"gpu-tune: {problem}", file=sys.stderr)
        return 1 if problems else 0
    rows = [dict(row, found=read_found(root, row)) for row in known["settings"]]
    if chosen.json:
        print(json.dumps({"settings": rows, "skipped": known["skipped"]}, indent=2, sort_keys=True))
    else:
        print("\n".join(lines(rows, known["skipped"])))
    return 1 if any(row["found"] != row["wanted"] for row in rows) else 0


def apply_settings(root: str, rows: Iterable[Mapping[str, Any]]) -> Any:
    """Set what differs; returns sentences about what could not be set. A failure does not stop the others."""
    problems = []
    for row in rows:
        for key, wanted in sorted(row["keys"].items()):
            # Files already exist, units and tuned start by themselves.
            if key.split()[0] in NOT_FOR_BOOT:
                continue
            try:
                for one in tuning_knobs.expand(root, key):
                    if tuning_knobs.read(root, one) != wanted:
                        tuning_knobs.write(root, one, wanted)
            except (tuning_knobs.NotHere, OSError, ValueError) as error:
                problems.append(f"{row['name']}: {error}")
    return problems


def lines(rows: Iterable[Mapping[str, Any]], skipped: Any) -> Any:
    """The table for people."""
    for row in rows:
        found = row["found"]
        same = found == row["wanted"]
        shown = found["unreadable"] if isinstance(found, dict) else found
        yield f"{'ok' if same else 'DIFF':<4} {row['name']:<26} {row['wanted']}{'' if same else ' | ' + shown}"
        yield f"     why:  {row['reason']}"
        yield f"     undo: {row['undo']}"
    for row in skipped:
        yield f"skip {row['name']:<26} {row['reason']}"
