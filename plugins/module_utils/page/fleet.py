# SPDX-License-Identifier: Apache-2.0
"""One page for the fleet from saved reports: self-contained, without scripts, worst host first."""

import os

from ..doctor.by_hand import done_by
from ..verdict.check import SEVERITY, SKIP
from ..verdict.report import SCHEMA, age_seconds, read_json
from .drawing import draw_share
from .facts import changes
from .host import anchor, entry, host_card, to_do, verdict_of
from .markup import el, join, soft, table, word
from .people import usable
from .style import STYLE
from .values import in_words, look, shorten

PREVIOUS = "previous"
CHECK_KEYS = ("id", "status", "message", "action")
RANK = {status: rank for rank, status in enumerate(SEVERITY)}
HEAD = ("Host", "Verdict", "To do", "GPUs usable", "Driver", "CUDA", "PyTorch", "Checked")
# On a page of more hosts than this, what a host is made of is folded.
FEW = 3
STALE_S = 7 * 86400
NAMED_HOSTS = 6
# Letters of a version in the overview, whose columns must fit beside each other.
CELL = 18


def read_folder(folder):
    """`[(name, report or None, previous report or None, problem)]` of the JSON files in `folder`, sorted by name.

    A report that cannot be read is kept with its problem: a host must not vanish from the page with its file.
    """
    names = sorted(name[:-5] for name in os.listdir(folder) if name.endswith(".json") and not name.startswith("."))
    found = []
    for name in names:
        try:
            report, problem = parse_report(read_json(os.path.join(folder, name + ".json"))), ""
        except (OSError, ValueError, RecursionError) as error:
            report, problem = None, str(error)
        try:
            before = parse_report(read_json(os.path.join(folder, PREVIOUS, name + ".json")))
        except (OSError, ValueError, RecursionError):
            before = None
        found.append((name, report, before, problem))
    return found


def parse_report(record):
    """`record` when the page can show it; ValueError otherwise."""
    if record.get("schema") != SCHEMA:
        raise ValueError("schema {}; this program knows {}".format(record.get("schema"), SCHEMA))
    checks = record.get("checks")
    whole = isinstance(checks, list) and all(
        isinstance(check, dict)
        and all(isinstance(check.get(key), str) for key in CHECK_KEYS)
        and check["status"] in SEVERITY + (SKIP,)
        for check in checks
    )
    if not whole or record.get("verdict") not in SEVERITY or not isinstance(record.get("time"), str):
        raise ValueError("no report: verdict, time or checks are missing or damaged")
    return record


def make_page(hosts, now):
    """The page as text; `hosts` are `read_folder`'s, `now` is the time in the report's format."""
    ordered = sorted(hosts, key=lambda host: (RANK[verdict_of(host[1])], -len(to_do(host[1])), host[0]))
    fleet = [
        el("h1", "GPU nodes"),
        soft("Made {} from the last verification of each host. Worst first.".format(now)),
        _tiles(ordered),
        _overview(ordered, now),
        _next_steps(ordered),
        _changed(ordered),
    ]
    cards = [host_card(*host, unfolded=len(ordered) <= FEW) for host in ordered]
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("title", "GPU nodes: {}".format(_headline(ordered))),
        el("style", STYLE),
    )
    body = el("body", el("main", el("section", *fleet, id="fleet"), *cards))
    return "<!DOCTYPE html>\n" + el("html", head, body, lang="en")


def _numbers(hosts):
    return [(status, sum(verdict_of(host[1]) == status for host in hosts)) for status in SEVERITY]


def _headline(hosts):
    return ", ".join("{} {}".format(number, status) for status, number in _numbers(hosts) if number) or "none"


def _tiles(hosts):
    numbers = [(status, number) for status, number in _numbers(hosts) if number]
    items = [el("li", el("b", len(hosts)), "host" if len(hosts) == 1 else "hosts")]
    items += [el("li", el("b", number), status, class_=status) for status, number in numbers]
    return join([el("ul", *items, class_="tiles"), draw_share(numbers)])


def _overview(hosts, now):
    rows = []
    for host in hosts:
        name, report, _before, problem = host
        rows.append(
            (
                el("a", name, href="#" + anchor(name)),
                word(verdict_of(report)),
                len(to_do(report)) if report else "?",
                usable(report),
                shorten(in_words(look(report, "readings", "probe", "nvidia", "loaded", "version")), CELL),
                shorten(in_words(look(report, "readings", "cuda", "version_file")), CELL),
                shorten(in_words(look(report, "readings", "venv", "versions", "torch")), CELL),
                when(report["time"], now) if report else "never: " + problem,
            )
        )
    return table(HEAD, rows, "The fleet", class_="wide fleet")


def when(time, now):
    """The time of a report with its age, marked when it is more than a week old."""
    try:
        age = age_seconds(time, now)
    except ValueError:
        return time
    unit, words = next(
        (u, w) for u, w in ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second")) if age >= u or u == 1
    )
    number = max(0, age) // unit
    text = "{} {}{} ago".format(number, words, "" if number == 1 else "s") if number else "just now"
    text = el("b", "stale: " + text, class_="stale") if age > STALE_S else text
    return join([text, el("span", " ({})".format(time), class_="soft small")])


def _next_steps(hosts):
    """Each finding once, with the hosts that have it: in a fleet the same thing is wrong on many."""
    groups = {}
    for host in hosts:
        for status, names, message, action in to_do(host[1]):
            groups.setdefault((status, names, action), []).append((host[0], message))
    ordered = sorted(groups.items(), key=lambda item: (RANK[item[0][0]], -len(item[1]), item[0]))
    if len(hosts) <= FEW or not ordered:
        return ""
    items = [
        entry(
            status,
            checks,
            [" on {}: ".format(how_many(hosts_of)), *links(hosts_of)],
            one_message(hosts_of),
            action,
            done_by(checks[0], action),
        )
        for (status, checks, action), hosts_of in ordered
    ]
    return join([el("h2", "What to do next in the fleet"), el("ul", *items, class_="plain")])


def one_message(hosts_of):
    """What all these hosts say, or what each of the first says: one host's detail is never told of another."""
    if len({message for _name, message in hosts_of}) == 1:
        return hosts_of[0][1]
    items = [el("li", name, ": ", message) for name, message in hosts_of[:NAMED_HOSTS]]
    more = len(hosts_of) - NAMED_HOSTS
    return el("ul", *items, el("li", "{} more, each on its own card".format(more)) if more > 0 else "")


def how_many(names):
    return "{} host{}".format(len(names), "" if len(names) == 1 else "s")


def links(names):
    """Links to the first hosts, and how many more there are."""
    found = []
    for name, _message in names[:NAMED_HOSTS]:
        found += [", "] * bool(found) + [el("a", name, href="#" + anchor(name))]
    return found + ([" and {} more".format(len(names) - NAMED_HOSTS)] if len(names) > NAMED_HOSTS else [])


def _changed(hosts):
    """Hosts that are not what they were at the report before."""
    found = [(host[0], changes(host[2], host[1])) for host in hosts if host[1] and host[2]]
    found = [(name, len(sentences)) for name, sentences in found if sentences]
    if len(hosts) <= FEW:
        return ""
    title = el("h2", "What changed in the fleet")
    if not found:
        return join([title, soft("Nothing since the report before of each host.")])
    items = [
        el("li", el("a", name, href="#" + anchor(name)), ": {} change{}".format(number, "" if number == 1 else "s"))
        for name, number in found
    ]
    return join([title, el("ul", *items, class_="columns")])
