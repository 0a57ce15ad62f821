# SPDX-License-Identifier: Apache-2.0
"""gpu-doctor: the checks of a verification, run on the node itself, without Ansible and without root."""

import argparse
import difflib
import json
import os
import platform
import signal
import sys
import textwrap
import time

from .boot_check import RECORD_PATH, forget_record, gate, keep_record
from .checks import CHECKS, run_checks
from .doctor_files import add_file_options, bundle_option, refuse, replay_option
from .doctor_waivers import add_waiver_options, asks_for_waivers, refuse_waiver_options, waiver_option
from .expectations import EXPECTATIONS_PATH, parse_expectations
from .metrics import NAGIOS_STATUS, environment_lines, metrics, nagios_line
from .nvidia_smi import DEFAULT_TIMEOUT_SECONDS
from .readings import QUICK_NVIDIA_SMI_SECONDS, collect
from .report import (
    REPORT_PATH,
    exit_status,
    finding_lines,
    make_report,
    now_utc,
    printable,
    read_json,
    summary_line,
    table,
    write_text,
)
from .root_result import with_roots_results
from .smoke_history import last_smoke
from .strikes import keep_strikes
from .terminal import escape_output, print_utf8
from .verdict import LEVELS, QUICK, STANDARD
from .waiver_report import with_waivers

USAGE_ERROR = 2
UNKNOWN_STATUS = 3
TEXT_WIDTH = 100

DESCRIPTION = """\
Check this node against what its inventory expects. Nothing is changed. Level quick starts no GPU work, level standard
one small matrix product on each GPU, level deep measures idle GPUs for minutes. The smoke test shown is the one of the
last verification. What only root can read is, for other users, what root's last check of this boot
recorded, or skipped.
"""
GATE = "check nothing: exit 0 if the last check of this boot was good or nobody monitors this node, else 1 and why"
EXIT_STATUSES = "exit status: 0 PASS or WARN, 1 FAIL, 2 usage error, 3 UNKNOWN (with --nagios: 0, 1 WARN, 2 FAIL, 3)"


def main(arguments=None, root="/"):
    """Run the program; returns its exit status. `root` is where the node's files lie."""
    # A reader that has seen enough, such as head, ends the program without a word, as with any other program.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    escape_output()
    options = parse(arguments)
    if options.explain is not None:
        return explain(options.explain)
    if options.replay is not None:
        return replay_option(options)
    if options.bundle is not None:
        return bundle_option(options, root, lambda expectations: examine(expectations, root, options.level))
    if options.gate:
        is_open, sentence = gate(root)
        print("gpu-doctor: " + sentence, file=sys.stdout if is_open else sys.stderr)
        return 0 if is_open else 1
    if asks_for_waivers(options):
        return waiver_option(options, root, examine)
    path = options.expectations or os.path.join(root, EXPECTATIONS_PATH.lstrip("/"))
    try:
        expectations = parse_expectations(read_json(path))
    except (OSError, ValueError) as error:
        print("gpu-doctor: {}: {}".format(path, reason(error)), file=sys.stderr)
        print("gpu-doctor: the role verify writes this file: ansible-playbook site.yml --tags verify", file=sys.stderr)
        if options.record:
            forget_record(root)
        return USAGE_ERROR if options.expectations else UNKNOWN_STATUS
    begin = time.monotonic()
    report = examine(expectations, root, options.level, bool(options.record))
    seconds = time.monotonic() - begin
    try:
        path = RECORD_PATH
        if options.record:
            keep_record(report, options.level, options.record, root)
            count_strikes(report, root)
        path = options.prom
        if options.prom not in (None, "-"):
            write_text(options.prom, metrics(report, options.level, seconds))
    except (OSError, ValueError) as error:
        print("gpu-doctor: {}: {}".format(path, reason(error)), file=sys.stderr)
        return UNKNOWN_STATUS
    if options.prom == "-":
        print_utf8(metrics(report, options.level, seconds))
    elif options.nagios:
        print(nagios_line(report["checks"], report["verdict"]))
        return NAGIOS_STATUS.get(report["verdict"], UNKNOWN_STATUS)
    elif options.record and not options.json:
        print_findings(report)
    elif not options.prom:
        print_report(report, options.json)
    return exit_status(report["verdict"])


def parse(arguments):
    """The options, or an exit with status 2."""
    parser = argparse.ArgumentParser(
        prog="gpu-doctor", description=DESCRIPTION, epilog=EXIT_STATUSES, allow_abbrev=False
    )
    levels = "quick: seconds; standard: with toolkit, venv and trainer (default); deep: minutes, measures idle GPUs"
    parser.add_argument("--level", choices=LEVELS, default=STANDARD, help=levels)
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print the report as JSON")
    output.add_argument("--nagios", action="store_true", help="print one line and end with a status for Nagios")
    prom = "write metrics for node_exporter's textfile collector, in one step; - prints them"
    output.add_argument("--prom", metavar="FILE", help=prom)
    output.add_argument("--gate", action="store_true", help=GATE)
    output.add_argument("--explain", metavar="ID", help="say what a check asks, its rule and what to do; check nothing")
    add_waiver_options(parser, output)
    record = "also keep the result in {} for --gate; it counts for SECONDS".format(RECORD_PATH)
    parser.add_argument("--record", metavar="SECONDS", type=positive, help=record)
    parser.add_argument("--expectations", metavar="PATH", help="judge by this file instead of " + EXPECTATIONS_PATH)
    add_file_options(parser)
    options = parser.parse_args(arguments)
    refuse(parser, options)
    refuse_waiver_options(parser, options)
    return options


def positive(text):
    """A whole number above 0, for argparse."""
    if not (text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError("expected seconds, a whole number above 0")
    return int(text)


def reason(error):
    """Why, without the path that the caller names anyway."""
    return getattr(error, "strerror", None) or str(error)


def explain(name):
    """Print what a check is about, or the check that an event's name stands for; returns the exit status."""
    check_id = name.partition("@")[0].partition(":")[0]
    for check in CHECKS:
        if check.id == check_id:
            print("{} ({} layer)".format(check.id, check.layer))
            parts = (
                ("question", check.question),
                ("rule", check.judge.__doc__),
                ("waivers", "none may be given: " + check.firm_because if check.firm_because else "may be given"),
                ("if not", check.action),
                ("level", "{}; ends in {} at worst".format(check.level, check.severity)),
                ("source", check.source or "the plan, or the inventory"),
            )
            for title, text in parts:
                lines = textwrap.wrap(" ".join(text.split()), TEXT_WIDTH - 10)
                print("\n".join("{:<10}{}".format("" if index else title, line) for index, line in enumerate(lines)))
            return 0
    near = difflib.get_close_matches(check_id, [check.id for check in CHECKS], 1, 0.8)
    if near:
        print("gpu-doctor: there is no check {!r}: did you mean {}?".format(name, near[0]), file=sys.stderr)
        return USAGE_ERROR
    print("gpu-doctor: there is no check {!r}; the checks are:".format(name), file=sys.stderr)
    print("\n".join("  " + check.id for check in CHECKS), file=sys.stderr)
    return USAGE_ERROR


def examine(expectations, root="/", level=STANDARD, recorded=False):
    """The report of this moment; its smoke test is the last verification's.

    `recorded`: the result opens or closes the gate. Then a driver that is slow to wake, as at boot or with many cards,
    gets its time at level quick too; a person who asks for a quick answer gets one.
    """
    seconds = QUICK_NVIDIA_SMI_SECONDS if level == QUICK and not recorded else DEFAULT_TIMEOUT_SECONDS
    readings = collect(expectations, root, seconds, level)
    now = now_utc()
    smoke = last_smoke(os.path.join(root, REPORT_PATH.lstrip("/")), readings, now) if level != QUICK else None
    checks = run_checks(readings, expectations, smoke, level=level)
    checks = with_roots_results(checks, expectations, now, root)
    return with_waivers(make_report(platform.node(), now, checks, readings, expectations, smoke))


def count_strikes(report, root):
    """Keep the strikes of a recorded check; the gate does not wait for them, so a failure is only said."""
    try:
        keep_strikes(report, root)
    except (OSError, ValueError) as error:
        print("gpu-doctor: strikes are not counted: {}".format(printable(str(error))), file=sys.stderr)


def print_findings(report):
    """For the journal: what is not good, and the verdict."""
    for line in finding_lines(report["checks"]):
        print(line)
    print("{}: {} ({})".format(report["host"], report["verdict"], summary_line(report["checks"])))


def print_report(report, as_json):
    if as_json:
        print(json.dumps(report, indent=2, sort_keys=True))
        return
    print("\n".join(table(report["checks"])))
    print()
    print("\n".join(environment_lines(report["readings"])))
    print("{}: {} ({})".format(report["host"], report["verdict"], summary_line(report["checks"])))
