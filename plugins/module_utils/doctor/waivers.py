# SPDX-License-Identifier: Apache-2.0
"""The options of gpu-doctor for acknowledgements and strikes: --acknowledge, --withdraw and the two lists."""

import argparse
import os
import pwd
import sys
from typing import Any, Callable, Dict, Optional

from ..checks.gpu.strikes_kept import read_strikes_and_lost
from ..checks.kernel.event_names import in_one_spelling
from ..checks.site.rows import is_site
from ..checks.smoke.training import smoke_record
from ..checks.waivers import acknowledgements
from ..checks.waivers.acknowledgements import DEFAULT_FOR, LONGEST_DAYS, is_event, later
from ..checks.waivers.named_findings import Refused, check_named, findings_to_acknowledge
from ..checks.waivers.report import acknowledgement_lines, strike_lines
from ..host.files import below
from ..verdict.boot_check import CHECK_NOW, RECORD_PATH, gate, keep_record, read_moment
from ..verdict.check import LEVELS, QUICK
from ..verdict.expectations import EXPECTATIONS_PATH, parse_expectations
from ..verdict.kept_file import one_writer
from ..verdict.report import Record, now_utc, printable, read_json

USAGE_ERROR = 2
UNKNOWN_STATUS = 3
EVENT_FORM = "kernel.xid:CODE@ADDRESS, kernel.sxid:CODE@ADDRESS or kernel.CHECK:KIND[@PLACE]"

# function(expectations, root, level, recorded) -> report
Examine = Callable[[Record, str, str, bool], Record]


def add_waiver_options(parser: argparse.ArgumentParser, output: argparse._MutuallyExclusiveGroup) -> None:
    """Add the options to a parser and to its group of mutually exclusive options."""
    words = f"root accepts a check that FAILs, or one event of the kernel's log ({EVENT_FORM}); it counts as WARN"
    output.add_argument("--acknowledge", metavar="ID", help=words)
    output.add_argument("--withdraw", metavar="ID", help="withdraw an acknowledgement")
    output.add_argument("--acknowledgements", action="store_true", help="list what is acknowledged")
    output.add_argument("--strikes", action="store_true", help="list the cards that have failed, by serial number")
    parser.add_argument("--reason", metavar="TEXT", help="why it is accepted; needed by --acknowledge")
    how_long = f"how long: 30m, 12h, 7d (default {DEFAULT_FOR}, at most {LONGEST_DAYS}d)"
    parser.add_argument("--for", metavar="TIME", dest="how_long", help=how_long)


def refuse_waiver_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End with a usage error if options do not belong together."""
    if options.acknowledge is None and (options.reason is not None or options.how_long is not None):
        parser.error("--reason and --for belong to --acknowledge ID")
    if options.acknowledge is not None and options.reason is None:
        parser.error("--acknowledge needs --reason TEXT: why the finding is accepted")
    if options.record and (options.acknowledge is not None or options.withdraw is not None):
        parser.error("--acknowledge and --withdraw refresh the record themselves: omit --record")


def asks_for_waivers(options: argparse.Namespace) -> bool:
    return (
        options.acknowledgements or options.strikes or options.acknowledge is not None or options.withdraw is not None
    )


def waiver_option(options: argparse.Namespace, root: str, examine: Examine) -> int:
    """Carry out one of the options; returns the exit status."""
    try:
        if options.strikes:
            found = read_strikes_and_lost(root)
            _say(*strike_lines(found["cards"]))
            if "set_aside" in found:
                _say(f"Earlier ones are in a damaged file beside, {found['set_aside']}.")
        elif options.acknowledgements:
            _say(*acknowledgement_lines(acknowledgements.read_acknowledgements(root), read_moment(root)))
        else:
            _require_root("--withdraw" if options.acknowledge is None else "--acknowledge")
            expectations = _expectations(options.expectations or below(root, EXPECTATIONS_PATH))
            if options.acknowledge is None:
                _withdraw(options.withdraw, root)
            else:
                _acknowledge(options, root, expectations, examine)
            _refresh(root, expectations, examine)
    except Refused as error:
        return _end(error, USAGE_ERROR)
    except (OSError, ValueError) as error:
        return _end(error, UNKNOWN_STATUS)
    return 0


def _end(error: Exception, status: int) -> int:
    # Python's standard error stream itself escapes what it cannot show.
    print("gpu-doctor: " + printable(str(error)), file=sys.stderr)
    return status


def _say(*lines: str) -> None:
    """Print lines as far as the output can show them: only ASCII under Python 3.6 and a C locale."""
    encoding = sys.stdout.encoding or "ascii"
    print("\n".join(lines).encode(encoding, "backslashreplace").decode(encoding))


def _require_root(option: str) -> None:
    if os.geteuid() != 0:
        raise Refused(f"{option} changes what opens the gate, and only root may do that: run it with sudo")


def _expectations(path: str) -> Dict[str, Any]:
    try:
        return parse_expectations(read_json(path))
    except (OSError, ValueError) as error:
        raise ValueError(
            "{}: {}; the role verify writes this file: ansible-playbook site.yml --tags verify".format(
                path, getattr(error, "strerror", None) or error
            )
        )


def _acknowledge(options: argparse.Namespace, root: str, expectations: Record, examine: Examine) -> None:
    try:
        # Python 3.6 keeps bytes that a C locale cannot decode as surrogates.
        reason = acknowledgements.parse_reason(os.fsencode(options.reason).decode("utf-8", "replace"))
    except ValueError as error:
        raise Refused(f"--reason: {error}")
    try:
        seconds = acknowledgements.parse_duration(options.how_long or DEFAULT_FOR)
    except ValueError as error:
        raise Refused(f"--for: {error}")
    name = in_one_spelling(options.acknowledge)
    # A check of the site is known once it was asked.
    check = None if is_site(name) else check_named(name)
    report = examine(expectations, root, check.level if check else QUICK, True)
    found = dict(report["readings"], smoke=smoke_record(report["smoke"]), performance=report.get("performance"))
    check = check_named(name, found) if is_site(name) else check
    added = [
        dict(entry, **_who(reason, seconds, root))
        for entry in findings_to_acknowledge(name, check, found, expectations)
    ]
    with one_writer(root):
        kept, lost = acknowledgements.read_to_add(root)
        if lost:
            _end(ValueError(lost), UNKNOWN_STATUS)
        acknowledgements.write_acknowledgements(root, acknowledgements.with_entries(kept, added, now_utc()))
    for entry in added:
        _say("acknowledged {id} until {until}: {message}".format(**entry))


def _who(reason: str, seconds: int, root: str) -> Dict[str, Any]:
    moment = read_moment(root)
    return {
        "user": printable(os.environ.get("SUDO_USER") or _name_of(os.getuid()))[:100],
        "uid": _number(os.environ.get("SUDO_UID"), os.getuid()),
        "when": moment["time"],
        "until": later(moment["time"], seconds),
        "reason": reason,
        "boot_id": moment["boot_id"] or "",
        "uptime_s": moment["uptime_s"],
    }


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _number(text: Optional[str], otherwise: int) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 11 else otherwise


def _withdraw(name: str, root: str) -> None:
    name = in_one_spelling(name)
    with one_writer(root):
        kept = acknowledgements.read_acknowledgements(root)
        # A check of the kernel's log means its events, as when it was acknowledged.
        gone = [e for e in kept if e["id"] == name or is_event(e) and e["id"].startswith(name + ":")]
        if not gone:
            there = ", ".join(entry["id"] for entry in kept) or "nothing is"
            raise Refused(f"{name} is not acknowledged; acknowledged: {there}")
        acknowledgements.write_acknowledgements(root, [entry for entry in kept if entry not in gone])
    for entry in gone:
        _say(f"withdrawn: {entry['id']}")


def _refresh(root: str, expectations: Record, examine: Examine) -> None:
    """Check again in the way the kept record was made, so that the gate follows at once; print whether it is open."""
    try:
        record = read_json(below(root, RECORD_PATH))
        level, holds_s = record["level"], record["holds_s"]
    except (OSError, ValueError, KeyError):
        level, holds_s = None, None
    if level in LEVELS and isinstance(holds_s, int) and holds_s > 0:
        keep_record(examine(expectations, root, level, True), level, holds_s, root)
    else:
        _say(f"no check is recorded on this node; the gate follows the next one: {CHECK_NOW}")
    _say(f"gate {gate(root)[1]}")
