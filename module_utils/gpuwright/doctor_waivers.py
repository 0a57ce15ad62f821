# SPDX-License-Identifier: Apache-2.0
"""The options of gpu-doctor for acknowledgements and strikes: --acknowledge, --withdraw and the two lists."""

import difflib
import os
import pwd
import sys

from . import acknowledgements, waivable_events
from .acknowledgements import DEFAULT_FOR, LONGEST_DAYS, cards_in, is_event, later
from .boot_check import CHECK_NOW, RECORD_PATH, gate, keep_record, read_moment
from .checks import CHECKS
from .checks_smoke import smoke_record
from .expectations import EXPECTATIONS_PATH, parse_expectations
from .hostfiles import below
from .kept_file import one_writer
from .kernel_event_names import KERNEL, in_one_spelling
from .report import now_utc, printable, read_json
from .strikes import read_strikes
from .verdict import FAIL, LEVELS, QUICK, UNKNOWN, judge
from .waiver_report import acknowledgement_lines, strike_lines
from .waivers import close_events, in_force, kept_message

USAGE_ERROR = 2
UNKNOWN_STATUS = 3
EVENT_FORM = "kernel.xid:CODE@ADDRESS, kernel.sxid:CODE@ADDRESS or kernel.CHECK:KIND[@PLACE]"


class Refused(Exception):
    """Nothing was changed; the message says why and what to do."""


def add_waiver_options(parser, output):
    """Add the options to a parser and to its group of options of which only one may be given."""
    words = "root accepts a check that FAILs, or one event of the kernel's log ({}); it counts as WARN".format(
        EVENT_FORM
    )
    output.add_argument("--acknowledge", metavar="ID", help=words)
    output.add_argument("--withdraw", metavar="ID", help="take an acknowledgement back")
    output.add_argument("--acknowledgements", action="store_true", help="list what is acknowledged")
    output.add_argument("--strikes", action="store_true", help="list the cards that have failed, by serial number")
    parser.add_argument("--reason", metavar="TEXT", help="why it is accepted; needed by --acknowledge")
    how_long = "how long: 30m, 12h, 7d (default {}, at most {}d)".format(DEFAULT_FOR, LONGEST_DAYS)
    parser.add_argument("--for", metavar="TIME", dest="how_long", help=how_long)


def refuse_waiver_options(parser, options):
    """End with a usage error where options do not belong together."""
    if options.acknowledge is None and (options.reason is not None or options.how_long is not None):
        parser.error("--reason and --for belong to --acknowledge ID")
    if options.acknowledge is not None and options.reason is None:
        parser.error("--acknowledge needs --reason TEXT: why the finding is accepted")
    if options.record and (options.acknowledge is not None or options.withdraw is not None):
        parser.error("--acknowledge and --withdraw refresh the record themselves: leave out --record")


def asks_for_waivers(options):
    return (
        options.acknowledgements or options.strikes or options.acknowledge is not None or options.withdraw is not None
    )


def waiver_option(options, root, examine):
    """Do what one of the options asks for; returns the exit status.

    examine   function(expectations, root, level, recorded) -> report
    """
    try:
        if options.strikes:
            _say(*strike_lines(read_strikes(root)["cards"]))
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


def _end(error, status):
    # The standard error stream of Python escapes by itself what it cannot show.
    print("gpu-doctor: " + printable(str(error)), file=sys.stderr)
    return status


def _say(*lines):
    """Print lines in whatever the output can show: under Python 3.6 and a C locale that is ASCII."""
    encoding = sys.stdout.encoding or "ascii"
    print("\n".join(lines).encode(encoding, "backslashreplace").decode(encoding))


def _require_root(option):
    if os.geteuid() != 0:
        raise Refused("{} changes what opens the gate and is for root: run it with sudo".format(option))


def _expectations(path):
    try:
        return parse_expectations(read_json(path))
    except (OSError, ValueError) as error:
        raise ValueError(
            "{}: {}; the role verify writes this file: ansible-playbook site.yml --tags verify".format(
                path, getattr(error, "strerror", None) or error
            )
        )


def _acknowledge(options, root, expectations, examine):
    try:
        # Python 3.6 keeps bytes that a C locale cannot decode as surrogates.
        reason = acknowledgements.parse_reason(os.fsencode(options.reason).decode("utf-8", "replace"))
    except ValueError as error:
        raise Refused("--reason: {}".format(error))
    try:
        seconds = acknowledgements.parse_duration(options.how_long or DEFAULT_FOR)
    except ValueError as error:
        raise Refused("--for: {}".format(error))
    name = in_one_spelling(options.acknowledge)
    check = _check(name)
    report = examine(expectations, root, check.level if check else QUICK, True)
    found = dict(report["readings"], smoke=smoke_record(report["smoke"]), performance=report.get("performance"))
    added = [
        dict(entry, **_who(reason, seconds, root))
        for entry in findings_to_acknowledge(name, check, found, expectations)
    ]
    with one_writer(root):
        kept = acknowledgements.read_acknowledgements(root)
        acknowledgements.write_acknowledgements(root, acknowledgements.with_entries(kept, added, now_utc()))
    for entry in added:
        _say("acknowledged {id} until {until}: {message}".format(**entry))


def findings_to_acknowledge(name, check, readings, expectations):
    """What `name` stands for on this node now, as entries without who, when and why; `Refused` when it is nothing.

    check   the `Check` of that name, None for the name of an event
    """
    readings = close_events(readings, in_force(readings))
    events = waivable_events.failing(readings, expectations, CHECKS)
    events = [found for found in events if _is_countable(found[1])]
    opened = [found for found in events if waivable_events.is_open(found[1])]
    if check is None:
        chosen = [found for found in events if found[2] == name]
        if not chosen:
            raise Refused(_no_such_event(name, readings, opened))
    else:
        if not check.waivable:
            raise Refused("{} cannot be acknowledged: {}".format(name, check.firm_because))
        record = judge(check, readings, expectations)
        if record["status"] != FAIL:
            more = "; make it readable first" if record["status"] == UNKNOWN else ""
            words = "{} is {} now ({}): only a FAIL can be acknowledged{}"
            raise Refused(words.format(name, record["status"], printable(record["message"]), more))
        # A check of the kernel's log stands for all events that fail it now, each by its own name.
        chosen = [found for found in opened if name in [bad["id"] for bad in found[3]]]
        if not chosen:
            return [_entry(name, record, None, None)]
    firm = {row.id: row.firm_because for row in CHECKS if not row.waivable}
    for _list, _event, event_id, bad in chosen:
        for record in bad:
            if record["id"] in firm:
                raise Refused("{} cannot be acknowledged: {}".format(event_id, firm[record["id"]]))
    return _one_for_each(chosen)


def _is_countable(event):
    """Whether it says how often and when it came last; otherwise nobody could tell whether it came again."""
    count = event.get("count")
    return waivable_events.last_second(event) is not None and isinstance(count, int) and not isinstance(count, bool)


def _one_for_each(chosen):
    """An entry for each name: an event that was closed and came again is in the log twice."""
    entries = {}
    for _list, event, name, bad in chosen:
        last_s, count = waivable_events.last_second(event), event.get("count")
        entry = entries.setdefault(name, _entry(name, bad[0], last_s, count))
        entry["last_s"], entry["count"] = max(entry["last_s"], last_s), max(entry["count"], count)
    return list(entries.values())


def _entry(name, record, last_s, count):
    message = kept_message(record["message"])
    return {
        "id": name,
        "message": message,
        "remedy": record["remedy"],
        "value": record["value"],
        "expected": record["expected"],
        "unit": record["unit"],
        "cards": cards_in(message),
        "last_s": last_s,
        "count": count,
    }


def _who(reason, seconds, root):
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


def _name_of(uid):
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _number(text, otherwise):
    return int(text) if text and text.isdigit() and len(text) < 11 else otherwise


def _check(name):
    """The check of that name, None when it may be an event; `Refused` for what is neither."""
    check = next((check for check in CHECKS if check.id == name), None)
    if check is None and not name.startswith(KERNEL):
        near = difflib.get_close_matches(name, [check.id for check in CHECKS], 1)
        words = "did you mean {}?".format(near[0]) if near else "gpu-doctor lists the checks that FAIL"
        raise Refused("there is no check {!r}: {}".format(name, words))
    return check


def _no_such_event(name, readings, opened):
    """Why an event cannot be acknowledged, and what could be."""
    if any(event_id == name for _list, _event, event_id in waivable_events.events(readings)):
        return "{} is in the kernel's log and is no FAIL: there is nothing to acknowledge".format(name)
    there = sorted({event_id for _list, _event, event_id, _bad in opened})
    what = "open are {}".format(", ".join(there)) if there else "it shows no event that FAILs"
    near = difflib.get_close_matches(name, there + [check.id for check in CHECKS], 1)
    meant = "; did you mean {}?".format(near[0]) if near else ""
    return "the kernel's log of this boot does not show {!r}: {}{}".format(name, what, meant)


def _withdraw(name, root):
    name = in_one_spelling(name)
    with one_writer(root):
        kept = acknowledgements.read_acknowledgements(root)
        # A check of the kernel's log stands for its events, as when it was acknowledged.
        gone = [e for e in kept if e["id"] == name or is_event(e) and e["id"].startswith(name + ":")]
        if not gone:
            there = ", ".join(entry["id"] for entry in kept) or "nothing is"
            raise Refused("{} is not acknowledged; acknowledged: {}".format(name, there))
        acknowledgements.write_acknowledgements(root, [entry for entry in kept if entry not in gone])
    for entry in gone:
        _say("withdrawn: {}".format(entry["id"]))


def _refresh(root, expectations, examine):
    """Check again as the kept record was made, so that the gate follows at once, and say how the gate stands."""
    try:
        record = read_json(below(root, RECORD_PATH))
        level, holds_s = record["level"], record["holds_s"]
    except (OSError, ValueError, KeyError):
        level, holds_s = None, None
    if level in LEVELS and isinstance(holds_s, int) and holds_s > 0:
        keep_record(examine(expectations, root, level, True), level, holds_s, root)
    else:
        _say("no check is recorded on this node; the gate follows the next one: {}".format(CHECK_NOW))
    _say("gate {}".format(gate(root)[1]))
