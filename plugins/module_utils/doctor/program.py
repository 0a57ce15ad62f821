# SPDX-License-Identifier: Apache-2.0
"""gpu-doctor: the checks of a verification, run on the node itself, without Ansible and without root."""

import argparse
import collections
import json
import os
import re
import shutil
import signal
import sys
import time
from typing import Any, Dict, List, Optional, Sequence

from ..checks.all import CHECKS, run_checks
from ..checks.collect import QUICK_NVIDIA_SMI_SECONDS, collect
from ..checks.site.reading import FOLDER
from ..checks.site.rows import is_site
from ..checks.waivers.report import with_waivers
from ..gpu.nvidia_smi.query import DEFAULT_TIMEOUT_SECONDS
from ..host.terminal import escape_output, print_utf8
from ..training.smoke_history import last_smoke
from ..verdict.boot_check import RECORD_PATH, forget_record, keep_record, read_uptime
from ..verdict.check import LEVELS, QUICK, STANDARD
from ..verdict.commands import lines_of, on_this_node, pasteable
from ..verdict.expectations import EXPECTATIONS_PATH, parse_expectations
from ..verdict.report import (
    REPORT_PATH,
    Record,
    exit_status,
    make_report,
    now_utc,
    printable,
    read_json,
    summary_line,
    write_text,
)
from .between_checks import keep_for_next
from .bundle_options import add_file_options, bundle_option, refuse, replay_option
from .by_hand import done_by, sentence_of
from .metrics import NAGIOS_STATUS, environment_lines, metrics, nagios_line
from .recorded import answered, read_recorded, recorded_words
from .report_text import finding_lines, report_lines
from .root_result import with_roots_results
from .scan import option
from .waivers import add_waiver_options, asks_for_waivers, refuse_waiver_options, waiver_option

USAGE_ERROR = 2
UNKNOWN_STATUS = 3
TEXT_WIDTH = 100
# How many checks are suggested instead of one that does not exist.
NEAR = 3

DESCRIPTION = """\
Check this node against what its inventory expects. Nothing is changed. Level quick starts no GPU work, level standard
one small matrix product on each GPU, level deep measures idle GPUs for minutes. The smoke test shown is the one of the
last verification. For users other than root, checks of what only root can read show what root's last check of this boot
recorded, or are skipped.
"""
GATE = "check nothing: exit 0 if the last check of this boot was good or this node is not monitored, else 1 and why"
EXIT_STATUSES = """\
exit status:
  checks           0 PASS or WARN, 1 FAIL, 2 usage error, 3 UNKNOWN or no expectations
  --nagios         0 PASS, 1 WARN, 2 FAIL, 3 UNKNOWN
  --gate           0 open, 1 closed
  --explain        0, 2 no such check
  --acknowledge    0, 2 refused, 3 a file cannot be read or written; also --withdraw, --acknowledgements, --strikes
  --bundle         0, 3 not written
  --replay         0 all PASS or WARN, 1 a FAIL, 2 usage error, 3 an UNKNOWN or nothing to judge

For ordinary users: sudo gpu-doctor sees more. On a node that checks itself, --nagios alone reports what root's last
check recorded with its age, and UNKNOWN when that check is too old to count; with --level, it checks now.
"""


def main(arguments: Optional[Sequence[str]] = None, root: str = "/", pyz_version: str = "") -> int:
    """Run the program; returns its exit status. `root` is the folder with the node's files.

    pyz_version  that of gpu-doctor.pyz, which scans by default; "" for the program on a node
    """
    status = None if pyz_version else answered(sys.argv[1:] if arguments is None else arguments, root)
    if status is not None:
        return status
    # A reader that has seen enough, such as head, ends the program silently, as with any other program.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    escape_output()
    options = parse(arguments, pyz_version)
    if options.explain is not None:
        return explain(options.explain)
    if options.replay is not None:
        return replay_option(options)
    if options.bundle is not None:
        return bundle_option(options, root, lambda expectations: examine(expectations, root, options.level))
    if options.scan:
        return option.scan_option(options, root, bool(pyz_version))
    if options.gate:
        return answered(["--gate"], root) or 0
    if asks_for_waivers(options):
        return waiver_option(options, root, examine)
    path = options.expectations or os.path.join(root, EXPECTATIONS_PATH.lstrip("/"))
    try:
        expectations = parse_expectations(read_json(path))
    except (OSError, ValueError) as error:
        print(f"gpu-doctor: {path}: {reason(error)}", file=sys.stderr)
        print("gpu-doctor: the role verify writes this file: ansible-playbook site.yml --tags verify", file=sys.stderr)
        if options.record:
            forget_record(root)
        return USAGE_ERROR if options.expectations else UNKNOWN_STATUS
    as_user = os.geteuid() != 0
    begin = time.monotonic()
    report = examine(expectations, root, options.level, bool(options.record))
    seconds = time.monotonic() - begin
    try:
        path = RECORD_PATH
        if options.record:
            keep_record(report, options.level, options.record, root)
            said = keep_for_next(report, root)
            if said:
                print("gpu-doctor: " + printable(said), file=sys.stderr)
        path = options.prom
        if options.prom not in (None, "-"):
            write_text(options.prom, metrics(report, options.level, seconds))
    except (OSError, ValueError) as error:
        print(f"gpu-doctor: {path}: {reason(error)}", file=sys.stderr)
        return UNKNOWN_STATUS
    if options.prom == "-":
        print_utf8(metrics(report, options.level, seconds))
    elif options.nagios:
        print(nagios_line(report["checks"], report["verdict"]))
        return NAGIOS_STATUS.get(report["verdict"], UNKNOWN_STATUS)
    elif options.record and not options.json:
        print_findings(report)
    elif not options.prom:
        print_report(report, options.json, options.all)
        if as_user and not options.json:
            print(f"root's last check: {recorded_words(read_recorded(root), read_uptime(root))}")
    return exit_status(report["verdict"])


def parse(arguments: Optional[Sequence[str]], pyz_version: str = "") -> argparse.Namespace:
    """The options, or an exit with status 2."""
    parser = argparse.ArgumentParser(
        prog="gpu-doctor",
        description=option.DESCRIPTION if pyz_version else DESCRIPTION,
        epilog=EXIT_STATUSES,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    levels = "quick: seconds; standard: with toolkit, venv and trainer (default); deep: minutes, measures idle GPUs"
    parser.add_argument("--level", choices=LEVELS, help=levels)
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print the report as JSON")
    output.add_argument("--nagios", action="store_true", help="print one line and exit with a status for Nagios")
    prom = "write metrics for node_exporter's textfile collector, in one step; without FILE they are printed"
    output.add_argument("--prom", metavar="FILE", nargs="?", const="-", help=prom)
    output.add_argument("--all", action="store_true", help="also say why each check was skipped, and each consequence")
    output.add_argument("--gate", action="store_true", help=GATE)
    output.add_argument("--explain", metavar="ID", help="say what a check asks, its rule and what to do; check nothing")
    add_waiver_options(parser, output)
    record = f"also keep the result in {RECORD_PATH} for --gate; it is valid for SECONDS"
    parser.add_argument("--record", metavar="SECONDS", type=positive, help=record)
    parser.add_argument("--expectations", metavar="PATH", help="judge by this file instead of " + EXPECTATIONS_PATH)
    add_file_options(parser)
    option.add_scan_option(parser, pyz_version)
    options = parser.parse_args(arguments)
    # A monitor asks often, and must not start PyTorch each time.
    options.level = options.level or (QUICK if options.nagios else STANDARD)
    option.settle(parser, options, bool(pyz_version))
    refuse(parser, options)
    refuse_waiver_options(parser, options)
    return options


def positive(text: str) -> int:
    """A whole number above 0, for argparse."""
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError("expected seconds, a whole number above 0")
    return int(text)


def reason(error: Exception) -> str:
    """The reason, without the path, which the caller names anyway."""
    return getattr(error, "strerror", None) or str(error)


def explain(name: str) -> int:
    """Print what a check is about, or the check to which an event's name belongs; returns the exit status."""
    # What only a person asks for is not loaded for a timer.
    import textwrap

    check_id = name.partition("@")[0].partition(":")[0]
    for check in CHECKS:
        if check.id == check_id:
            print(f"{check.id} ({check.layer} layer)")
            parts = (
                ("question", check.question),
                ("rule", check.judge.__doc__ or ""),
                ("waivers", "none may be given: " + check.firm_because if check.firm_because else "may be given"),
                *[("" if number else "if not", line) for number, line in enumerate(lines_of(pasteable(check.action)))],
                ("by whom", sentence_of(done_by(check.id, check.action, check.remedy))),
                ("level", f"{check.level}; {check.severity} at worst"),
                ("source", check.source or "the plan, or the inventory"),
            )
            for title, text in parts:
                lines = textwrap.wrap(" ".join(text.split()), TEXT_WIDTH - 10, break_on_hyphens=False)
                print("\n".join(f"{'' if index else title:<10}{line}" for index, line in enumerate(lines)))
            return 0
    if is_site(check_id):
        print(f"{check_id}: a check of this site, if {FOLDER} has such a program; docs/verdict.md says what it prints")
        return 0
    near = near_checks(check_id)
    if near:
        print(f"gpu-doctor: there is no check {name!r}: did you mean {' or '.join(near)}?", file=sys.stderr)
        return USAGE_ERROR
    print(f"gpu-doctor: there is no check {name!r}; the checks are:", file=sys.stderr)
    print("\n".join("  " + check.id for check in CHECKS), file=sys.stderr)
    return USAGE_ERROR


def near_checks(word: str) -> List[str]:
    """Up to three ids that somebody who typed `word` may mean: part of an id, misspelled, or a word of a question."""
    import difflib

    ids = [check.id for check in CHECKS]
    word = word.strip().lower().replace("-", "_").replace(" ", "_")
    if not word:
        return []
    inside = [name for name in ids if word in name.split(".")] or [
        name for name in ids if len(word) > 2 and word in name
    ]
    if 0 < len(inside) <= NEAR:
        return inside
    last = {name.partition(".")[2]: name for name in ids}
    close = difflib.get_close_matches(word, ids, NEAR, 0.8)
    close += [last[part] for part in difflib.get_close_matches(word.rpartition(".")[2], sorted(last), NEAR, 0.8)]
    asked = [check.id for check in CHECKS if word in re.findall(r"[a-z]{3,}", check.question.lower())]
    return list(collections.OrderedDict.fromkeys(inside[:NEAR] + close + asked))[:NEAR]


def examine(expectations: Record, root: str = "/", level: str = STANDARD, recorded: bool = False) -> Dict[str, Any]:
    """The report of this moment; its smoke test is the last verification's.

    `recorded`: the result opens or closes the gate. Then a driver that is slow to start, as at boot or with many cards,
    gets its time even at level quick, and so do the site's own checks; a person who asks for a quick answer gets one.
    """
    seconds = QUICK_NVIDIA_SMI_SECONDS if level == QUICK and not recorded else DEFAULT_TIMEOUT_SECONDS
    readings = collect(expectations, root, seconds, level, site=recorded or level != QUICK)
    now = now_utc()
    smoke = last_smoke(os.path.join(root, REPORT_PATH.lstrip("/")), readings, now) if level != QUICK else None
    checks = run_checks(readings, expectations, smoke, level=level)
    checks = with_roots_results(checks, expectations, now, root)
    return with_waivers(make_report(os.uname().nodename, now, checks, readings, expectations, smoke))


def print_findings(report: Record) -> None:
    """For the journal: everything that is not good, and the verdict."""
    for line in finding_lines(report["checks"]):
        print(line)
    print(f"{report['host']}: {report['verdict']} ({summary_line(report['checks'])})")


def print_report(report: Record, as_json: bool, everything: bool = False) -> None:
    if as_json:
        print(json.dumps(report, indent=2, sort_keys=True))
        return
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    environment = environment_lines(report["readings"])
    # Bad results come last: a terminal shows the end.
    asked = report.get("expectations") or {}
    # Only here: elsewhere one action stands for all hosts that need it.
    checks = [dict(row, action=on_this_node(row["action"], asked.get("inventory_name"))) for row in report["checks"]]
    print("\n".join(environment + [""] * bool(environment) + report_lines(checks, columns, everything)))
    print()
    print(f"{report['host']}: {report['verdict']} ({summary_line(report['checks'])})")
