# SPDX-License-Identifier: Apache-2.0
"""One page for the fleet from saved reports: self-contained, without scripts, worst host first."""

import os

from .page_drawing import draw_bars, draw_topology
from .page_facts import as_built, bars, changes, look, skipped
from .page_markup import STYLE, Markup, el, join
from .report import SCHEMA, counts, read_json, summary_line
from .verdict import FAIL, PASS, SEVERITY, SKIP, UNKNOWN, WARN

PREVIOUS = "previous"
CHECK_KEYS = ("id", "status", "message", "action")
RANK = {status: rank for rank, status in enumerate(SEVERITY)}
ORDER = SEVERITY + (SKIP,)
HEAD = ("Host", "Verdict", "GPUs", "Driver", "CUDA", "PyTorch", "Checked")


def read_folder(folder):
    """`[(name, report or None, previous report or None, problem)]` of the JSON files in `folder`, sorted by name.

    A report that cannot be read is kept with its problem: a host must not vanish from the page with its file.
    """
    names = sorted(name[:-5] for name in os.listdir(folder) if name.endswith(".json") and not name.startswith("."))
    found = []
    for name in names:
        try:
            report, problem = parse_report(read_json(os.path.join(folder, name + ".json"))), ""
        except (OSError, ValueError) as error:
            report, problem = None, str(error)
        try:
            before = parse_report(read_json(os.path.join(folder, PREVIOUS, name + ".json")))
        except (OSError, ValueError):
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
        and check["status"] in ORDER
        for check in checks
    )
    if not whole or record.get("verdict") not in SEVERITY or not isinstance(record.get("time"), str):
        raise ValueError("no report: verdict, time or checks are missing or damaged")
    return record


def make_page(hosts, now):
    """The page as text; `hosts` are `read_folder`'s, `now` is the time in the report's format."""
    ordered = sorted(hosts, key=lambda host: (RANK[verdict_of(host[1])], host[0]))
    body = join(
        [
            el("h1", "GPU nodes"),
            el("p", "Made {} from the last verification of each host. Worst first.".format(now), class_="soft"),
            _tiles(ordered),
            _overview(ordered),
            el("main", *[_host(*host) for host in ordered]),
        ]
    )
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("title", "GPU nodes: {}".format(_headline(ordered))),
        el("style", STYLE),
    )
    return "<!DOCTYPE html>\n" + el("html", head, el("body", body), lang="en")


def verdict_of(report):
    return report["verdict"] if report else UNKNOWN


def _headline(hosts):
    number = {status: sum(verdict_of(host[1]) == status for host in hosts) for status in SEVERITY}
    return ", ".join("{} {}".format(number[status], status) for status in SEVERITY if number[status]) or "none"


def _tiles(hosts):
    tiles = [("hosts", len(hosts), "")]
    tiles += [(status, sum(verdict_of(host[1]) == status for host in hosts), status) for status in SEVERITY]
    items = [
        el("li", el("b", number, class_=status or None), word) for word, number, status in tiles if number or not status
    ]
    return el("ul", *items, class_="tiles")


def _overview(hosts):
    rows = []
    for name, report, _before, problem in hosts:
        gpus = look(report, "readings", "probe", "gpus")
        cells = (
            len(gpus) if isinstance(gpus, list) else "?",
            look(report, "readings", "probe", "nvidia", "loaded", "version") or "none",
            look(report, "readings", "cuda", "version_file") or "none",
            look(report, "readings", "venv", "versions", "torch") or "none",
            report["time"] if report else "never: " + problem,
        )
        rows.append(
            el(
                "tr",
                el("th", el("a", name, href="#" + anchor(name)), scope="row"),
                el("td", word(verdict_of(report)), data_name=HEAD[1]),
                *[el("td", cell, data_name=title) for title, cell in pairs(HEAD[2:], cells)],
            )
        )
    head = el("thead", el("tr", *[el("th", title, scope="col") for title in HEAD]))
    return el("table", head, el("tbody", *rows), class_="wide", aria_label="The fleet")


def pairs(titles, cells):
    return [(titles[index], cell) for index, cell in enumerate(cells)]


def word(status):
    return el("span", status, class_="word " + (status if status in ORDER else UNKNOWN))


def anchor(name):
    """A name that is one word in a link."""
    return "host-" + "".join(character if character.isalnum() else "-" for character in name)


def _host(name, report, before, problem):
    title = el("h2", name, " ", word(verdict_of(report)))
    if report is None:
        words = "The report of this host cannot be read: {}. Run: ansible-playbook playbooks/verify.yml -l {}"
        return el("section", title, el("p", words.format(problem, name)), class_="host", id=anchor(name))
    parts = [
        title,
        el("p", "{}; {}".format(report["time"], summary_line(report["checks"])), class_="soft"),
        _to_do(report),
        _drift(changes(before, report), before),
        el("h3", "As built"),
        _table(("Part", "Value", "Why"), as_built(report), "As built"),
        el("h3", "Topology"),
        draw_topology(look(report, "readings", "probe")),
        el("h3", "Smoke test"),
        _smoke(report),
        el("h3", "Not checked, and why"),
        _list(["{}: {}".format(check["id"], check["message"]) for check in skipped(report)], "Everything was checked."),
        _all_checks(report),
    ]
    return el("section", *parts, class_="host", id=anchor(name))


def _to_do(report):
    bad = sorted(
        (check for check in report["checks"] if check["status"] in (FAIL, UNKNOWN, WARN)),
        key=lambda check: RANK[check["status"]],
    )
    if not bad:
        return join([el("h3", "What to do next"), el("p", "Nothing: the node is as it should be.")])
    items = [
        el(
            "li",
            word(check["status"]),
            el("span", " {}: {}".format(check["id"], check["message"])),
            el("p", el("code", check["action"])),
            class_=check["status"],
        )
        for check in bad
    ]
    return join([el("h3", "What to do next"), el("ul", *items, class_="plain")])


def _drift(found, before):
    title = el("h3", "What changed")
    if found is None:
        return join([title, el("p", "This is the first report that was kept of this host.", class_="soft")])
    return join([title, _list(found, "Nothing since the report of {}.".format(before["time"]))])


def _list(sentences, otherwise):
    if not sentences:
        return el("p", otherwise, class_="soft")
    return el("ul", *[el("li", sentence) for sentence in sentences])


def _table(head, rows, caption):
    lines = [
        el(
            "tr",
            el("th", row[0], scope="row"),
            *[el("td", cell, data_name=name if cell != "" else None) for name, cell in pairs(head[1:], row[1:])],
        )
        for row in rows
    ]
    titles = el("thead", el("tr", *[el("th", title, scope="col") for title in head]))
    return el("table", titles, el("tbody", *lines), class_="wide", aria_label=caption)


def _smoke(report):
    found = bars(report)
    outcome = next((check for check in report["checks"] if check["id"] == "smoke.amp"), None)
    words = el("p", outcome["message"]) if outcome else el("p", "It was not part of this report.")
    floors = sorted({"Floor: {}.".format(bar[4]) for bar in found if bar[3]})
    return join([words, draw_bars(found) if found else Markup("")] + [el("p", text, class_="soft") for text in floors])


def _all_checks(report):
    ordered = sorted(report["checks"], key=lambda check: ORDER.index(check["status"]))
    rows = [(check["id"], word(check["status"]), check["message"]) for check in ordered]
    number = counts(report["checks"])[PASS]
    title = "All {} checks ({} passed)".format(len(rows), number)
    return el("details", el("summary", title), _table(("Check", "Status", "Message"), rows, title))
