# SPDX-License-Identifier: Apache-2.0
"""gpu-doctor: the checks of a verification, run on the node itself, without Ansible and without root."""

import argparse
import json
import os
import platform
import sys
import textwrap

from .checks import CHECKS, run_checks
from .expectations import EXPECTATIONS_PATH, parse_expectations
from .readings import collect
from .report import REPORT_PATH, exit_status, make_report, now_utc, read_json, summary_line, table
from .smoke_history import last_smoke

USAGE_ERROR = 2
UNKNOWN_STATUS = 3
TEXT_WIDTH = 100

DESCRIPTION = """\
Check this node against what its inventory expects. Nothing is changed and no GPU work is started: the smoke test shown
is the one of the last verification. What needs root is UNKNOWN for other users.
"""
EXIT_STATUSES = "exit status: 0 PASS or WARN, 1 FAIL, 2 usage error, 3 UNKNOWN"


def main(arguments=None, root="/"):
    """Run the program; returns its exit status. `root` is where the node's files lie."""
    parser = argparse.ArgumentParser(prog="gpu-doctor", description=DESCRIPTION, epilog=EXIT_STATUSES)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--explain", metavar="ID", help="say what a check asks, its rule and what to do; check nothing")
    parser.add_argument("--expectations", metavar="PATH", help="judge by this file instead of " + EXPECTATIONS_PATH)
    options = parser.parse_args(arguments)
    if options.explain is not None:
        return explain(options.explain)
    path = options.expectations or os.path.join(root, EXPECTATIONS_PATH.lstrip("/"))
    try:
        expectations = parse_expectations(read_json(path))
    except (OSError, ValueError) as error:
        print("gpu-doctor: {}: {}".format(path, reason(error)), file=sys.stderr)
        print("gpu-doctor: the role verify writes this file: ansible-playbook site.yml --tags verify", file=sys.stderr)
        return USAGE_ERROR if options.expectations else UNKNOWN_STATUS
    report = examine(expectations, root)
    print_report(report, options.json)
    return exit_status(report["verdict"])


def reason(error):
    """Why, without the path that the caller names anyway."""
    return getattr(error, "strerror", None) or str(error)


def explain(check_id):
    """Print what a check is about; returns the exit status."""
    for check in CHECKS:
        if check.id == check_id:
            print("{} ({} layer)".format(check.id, check.layer))
            for title, text in (("question", check.question), ("rule", check.judge.__doc__), ("if not", check.action)):
                lines = textwrap.wrap(" ".join(text.split()), TEXT_WIDTH - 10)
                print("\n".join("{:<10}{}".format("" if index else title, line) for index, line in enumerate(lines)))
            return 0
    print("gpu-doctor: there is no check {!r}; the checks are:".format(check_id), file=sys.stderr)
    print("\n".join("  " + check.id for check in CHECKS), file=sys.stderr)
    return USAGE_ERROR


def examine(expectations, root="/"):
    """The report of this moment; its smoke test is the last verification's."""
    readings = collect(expectations, root)
    time = now_utc()
    smoke = last_smoke(os.path.join(root, REPORT_PATH.lstrip("/")), readings, time)
    return make_report(platform.node(), time, run_checks(readings, expectations, smoke), readings, expectations, smoke)


def print_report(report, as_json):
    if as_json:
        print(json.dumps(report, indent=2, sort_keys=True))
        return
    print("\n".join(table(report["checks"])))
    print()
    print("{}: {} ({})".format(report["host"], report["verdict"], summary_line(report["checks"])))
