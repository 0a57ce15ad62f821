# SPDX-License-Identifier: Apache-2.0
"""gpu-doctor's option --scan, which is the default in gpu-doctor.pyz."""

import argparse
import json
import os
import shutil
import sys
import time
from typing import Optional

from ...host.terminal import print_utf8
from ...verdict.check import DEEP
from ...verdict.report import exit_status, write_text
from ..metrics import NAGIOS_STATUS, metrics, nagios_line

UNKNOWN_STATUS = 3
SCAN = (
    "judge any Linux machine by what is there: no plan, no expectations, nothing installed, nothing kept; checks that "
    "need a node of the toolkit are skipped"
)
DESCRIPTION = """\
Say what is on this machine, and what is wrong with it. Nothing is changed, installed or kept, and no plan is needed.
What only root can read is skipped for other users. Level quick starts no GPU work and leaves out packages, disks and
links.
"""
# Options that change or query what the toolkit keeps on its nodes.
OF_A_NODE = ("gate", "record", "acknowledge", "withdraw", "acknowledgements", "strikes", "expectations", "replay")


def add_scan_option(parser: argparse.ArgumentParser, version: str) -> None:
    """Add --scan, and for gpu-doctor.pyz --version."""
    parser.add_argument("--scan", action="store_true", help=SCAN)
    if version:
        parser.add_argument("--version", action="version", version="gpu-doctor {}".format(version))


def settle(parser: argparse.ArgumentParser, options: argparse.Namespace, is_pyz: bool) -> None:
    """Decide whether it is a scan; end with a usage error if other options contradict that."""
    if is_pyz and options.expectations is None and options.replay is None and options.explain is None:
        options.scan = True
    if not options.scan:
        return
    for name in OF_A_NODE:
        if getattr(options, name):
            parser.error("--scan --{}: only one of them; a scan looks at no records and keeps none".format(name))
    if options.level == DEEP:
        parser.error("--scan --level deep: expected quick or standard; a scan has no PyTorch to measure with")


def own_command(is_pyz: bool, name: Optional[str] = None) -> str:
    """What to type for a scan: the program as it was started, or the installed one."""
    return "python3 " + os.path.basename(name or sys.argv[0]) if is_pyz else "gpu-doctor --scan"


def scan_option(options: argparse.Namespace, root: str, is_pyz: bool) -> int:
    """--scan; returns the exit status."""
    from .examine import scan
    from .text import scan_lines

    command = own_command(is_pyz)
    begin = time.monotonic()
    report = scan(root, options.level, command)
    seconds = time.monotonic() - begin
    if options.prom == "-":
        print_utf8(metrics(report, options.level, seconds))
    elif options.prom is not None:
        try:
            write_text(options.prom, metrics(report, options.level, seconds))
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            print("gpu-doctor: {}: {}".format(options.prom, why), file=sys.stderr)
            return UNKNOWN_STATUS
    elif options.nagios:
        print(nagios_line(report["checks"], report["verdict"]))
        return NAGIOS_STATUS.get(report["verdict"], UNKNOWN_STATUS)
    elif options.json:
        print(json.dumps(report, indent=2, sort_keys=True))
    else:
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print("\n".join(scan_lines(report, columns, options.all, command)))
    return exit_status(report["verdict"])
