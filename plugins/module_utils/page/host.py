# SPDX-License-Identifier: Apache-2.0
"""The part of the page that belongs to one host: what to do, what changed, and what it is."""

import collections

from ..doctor.by_hand import done_by, sentence_of
from ..verdict.causes import consequences, own_findings
from ..verdict.check import PASS, SEVERITY, SKIP, UNKNOWN, WARN
from ..verdict.report import counts, summary_line
from .bench import seed_report
from .drawing import draw_bar, draw_topology
from .facts import AS_WANTED, DIFFERS, as_built, changes, skipped, tuning
from .markup import Markup, el, join, listed, soft, table, word
from .people import question, since, usable
from .speed import missing_measures, performance_bars, smoke_bars, status_of, why_no_performance
from .values import NOT_READ, look
from .waivers import strikes, waivers

RANK = {status: rank for rank, status in enumerate(SEVERITY + (SKIP,))}
BAR_HEAD = ("Measurement", "Value", "Against its floor", "Floor", "Peak")
STATES = {AS_WANTED: PASS, DIFFERS: WARN, NOT_READ: UNKNOWN}
# Names of checks in one entry of a list.
NAMED_CHECKS = 3
NOTHING_TO_DO = "Nothing: the node is as it should be."


def verdict_of(report):
    return report["verdict"] if report else UNKNOWN


def anchor(name):
    """A name that is one word in a link, and another for every host."""
    return "host-" + "".join(c if c.isalnum() or c == "-" else "_{:x}".format(ord(c)) for c in name)


def host_card(name, report, before, problem, unfolded):
    """One host; `unfolded`: its parts are open, as on a page of few hosts."""
    title = el("h2", name, " ", word(verdict_of(report)))
    if report is None:
        words = "The report of this host cannot be read: {}. Run: ansible-playbook playbooks/verify.yml -l {}"
        return el("section", title, el("p", words.format(problem, name)), class_="host", id=anchor(name))

    def part(title, content, class_=None):
        return folded(title, content, unfolded, class_)

    measured = el(
        "div",
        part("Smoke test", _smoke(report)),
        part("Bandwidth and computing speed", _performance(report)),
    )
    card = [
        title,
        el("p", "GPUs that can be used: ", el("b", usable(report))),
        soft("{}; {}".format(report["time"], summary_line(report["checks"]))),
        el("div", el("div", _to_do(report, before)), el("div", _drift(changes(before, report), before)), class_="pair"),
        *[part(title, content) for title, content in _decided(report) if content],
        part("As built", _as_built(report)),
        el("div", part("Topology", draw_topology(look(report, "readings", "probe"))), measured, class_="beside"),
        part("Tuning", _tuning(report)),
        part("Training speed, documented and measured", seed_report(report)),
        # On paper the table of all checks says it.
        part("Not checked, and why", _not_checked(report), "noprint"),
        _all_checks(report),
        el("p", el("a", "To the fleet", href="#fleet"), class_="soft noprint"),
    ]
    return el("section", *card, class_="host", id=anchor(name))


def _decided(report):
    return (
        ("Acknowledged and switched off", waivers(report)),
        ("What a warranty claim needs", strikes(report)),
    )


def folded(title, content, unfolded, class_=None):
    return el("details", el("summary", el("h3", title)), content, open="open" if unfolded else None, class_=class_)


def to_do(report):
    """`[(status, ids, message, action)]`, worst first: what asks for something.

    Checks that end so for one reason, such as a log that nobody may read, are one entry; what follows from another
    finding is none. Nothing without a report.
    """
    found = own_findings(report["checks"]) if report else []
    groups = collections.OrderedDict()
    for check in sorted(found, key=lambda check: RANK[check["status"]]):
        groups.setdefault((check["status"], check["message"], check["action"]), []).append(check["id"])
    return [(status, tuple(names), message, action) for (status, message, action), names in groups.items()]


def entry(status, names, after, message, action, notes=()):
    """One thing to do. Of many checks the first are named, and all where they are unfolded, as they are on paper.

    names  the ids of its checks        after  what follows them        notes  sentences for people, such as who acts
    """
    few, all_of_them = ", ".join(names), ""
    if len(names) > NAMED_CHECKS + 1:
        few = "{} and {} more".format(", ".join(names[:NAMED_CHECKS]), len(names) - NAMED_CHECKS)
        all_of_them = el("details", el("summary", "All {} checks".format(len(names))), el("p", ", ".join(names)))
    asked = question(names)
    parts = [el("p", word(status), " ", el("b", asked)), el("p", few, *after)] if asked else []
    parts = parts or [el("p", word(status), " ", el("b", few), *after)]
    if message:
        parts.append(message if isinstance(message, Markup) else el("p", message))
    parts += [el("p", action, class_="next"), all_of_them, soft(sentence_of(notes)) if notes else ""]
    return el("li", *parts, class_=status)


def notes_of(report, before, names, action):
    """For people: who must act, since when, and how much follows from it."""
    record = next(check for check in report["checks"] if check["id"] == names[0])
    follows = [name for cause in names for name in consequences(report["checks"], cause)]
    found = done_by(names[0], action, record.get("remedy", "")) + [since(names[0], report, before)]
    return found + (["{} more findings are because of this".format(len(follows))] if follows else [])


def _to_do(report, before):
    items = [
        entry(status, names, [" ", message], "", action, notes_of(report, before, names, action))
        for status, names, message, action in to_do(report)
    ]
    body = el("ul", *items, class_="plain") if items else el("p", NOTHING_TO_DO)
    return join([el("h3", "What to do next"), body])


def _drift(found, before):
    title = el("h3", "What changed")
    if found is None:
        return join([title, soft("This is the first report that was kept of this host.")])
    return join([title, listed(found, "Nothing since the report of {}.".format(before["time"]))])


def _as_built(report):
    rows = as_built(report)
    cells = [
        (row.part, el("b", row.found, class_=WARN) if row.differs else row.found, row.planned, row.why) for row in rows
    ]
    groups = [row.group for row in rows]
    return table(("Part", "Found", "Planned", "Why"), cells, "What this node is made of", groups, "wide built")


def _tuning(report):
    rows = tuning(report)
    if not isinstance(rows, list):
        return el("p", rows)
    cells = [
        (name, el("b", state, class_=STATES[state]), found, wanted, why) for name, wanted, found, why, state in rows
    ]
    head, caption = ("Setting", "State", "Found", "Wanted", "Why"), "Settings of the system, wanted and found"
    return table(head, cells, caption, class_="wide tuned")


def _smoke(report):
    bars = smoke_bars(report)
    outcome = next((check for check in report["checks"] if check["id"] == "smoke.amp"), None)
    parts = [
        el("p", word(outcome["status"]), " ", outcome["message"]) if outcome else el("p", "It was not part of it.")
    ]
    reasons = sorted({"Mixed precision: {}.".format(look(device, "amp_dtype_because")) for device in _devices(report)})
    parts += [soft(text) for text in reasons]
    return join(parts + ([bars_table(bars, "Measured in the smoke test")] if bars else []))


def _devices(report):
    devices = look(report, "smoke", "devices")
    return [d for d in devices if look(d, "amp_dtype_because")] if isinstance(devices, list) else []


def _performance(report):
    why = why_no_performance(report)
    if why:
        return el("p", why)
    parts = [bars_table(performance_bars(report), "What the GPUs reach")]
    left = missing_measures(report)
    parts += [soft("Not measured: {}.".format(", ".join(left)))] if left else []
    problems = look(report, "performance", "problems")
    parts += [listed(problems, "")] if isinstance(problems, list) and problems else []
    return join(parts)


def bars_table(bars, caption):
    """Numbers as text, and a bar for the eye: up to its peak or floor, and without these on a scale for its unit."""
    longest = {}
    for bar in bars:
        longest[bar.unit] = max(longest.get(bar.unit, 0), bar.value)
    rows = []
    for bar in bars:
        status = status_of(bar)
        end = max(bar.value, bar.floor or 0, bar.peak or 0) if bar.floor or bar.peak else longest[bar.unit]
        drawing = [draw_bar(bar, end, status)] + ([" ", word(status)] if status else [])
        rows.append(
            (
                bar.name,
                amount(bar.value, bar.unit),
                join(drawing),
                amount(bar.floor, bar.unit) or "no floor",
                amount(bar.peak, bar.unit),
            )
        )
    sources = sorted({bar.source for bar in bars if bar.source not in ("", "none")})
    return join(
        [table(BAR_HEAD, rows, caption, class_="wide measures")] + [soft("Floor: {}.".format(text)) for text in sources]
    )


def amount(value, unit):
    return "" if value is None else "{:.4g} {}".format(value, unit)


def _not_checked(report):
    return listed(
        ["{}: {}".format(check["id"], check["message"]) for check in skipped(report)], "Everything was checked."
    )


def _all_checks(report):
    ordered = sorted(report["checks"], key=lambda check: RANK[check["status"]])
    rows = [(check["id"], word(check["status"]), check["message"]) for check in ordered]
    title = "All {} checks ({} passed)".format(len(rows), counts(report["checks"])[PASS])
    found = table(("Check", "Status", "Message"), rows, "Every check of this verification")
    return folded(title, el("div", found, class_="twice"), False)
