# SPDX-License-Identifier: Apache-2.0
"""The page of one host: what to do, what has drifted, and what the host consists of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.verdict.check import PASS, UNKNOWN, WARN
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.report import counts, summary_line

from .bench import seed_report
from .cards import CardLine
from .cells import Bar, Cell, Marked, Table, badge
from .drawing import meter, topology
from .facts import AS_WANTED, DIFFERS, as_built, changes, from_plan, skipped, tuning
from .findings import RANK, Report, host_entries, verdict_of
from .people import usable
from .render import render
from .speed import Measured, missing_measures, performance_bars, smoke_bars, status_of, why_no_performance
from .values import NOT_READ, as_list, in_words, look, simulated
from .waivers import idle, strikes, waivers

BAR_HEAD = ("Measurement", "Value", "Against its floor", "Floor", "Peak")
STATES = {AS_WANTED: PASS, DIFFERS: WARN, NOT_READ: UNKNOWN}


def host_page(
    name: str, report: Report | None, before: Report | None, problem: str, cards: Sequence[CardLine] = ()
) -> str:
    """The page as text; without a report, it names the problem, and how to make a new report."""
    head = {"name": name, "verdict": badge(verdict_of(report)), "simulated": simulated(report)}
    if report is None:
        return render("unread.html.j2", **head, problem=problem)
    return render(
        "host.html.j2",
        **head,
        usable=usable(report),
        time=report["time"],
        counted=summary_line(report["checks"]),
        entries=host_entries(report, before),
        drift=from_plan(report),
        changes=changes(before, report),
        before=before["time"] if before else "",
        waivers=waivers(report),
        idle=idle(report),
        strikes=strikes(report),
        built=_as_built(report),
        topology=topology(look(report, "readings", "probe")),
        smoke=_smoke(report),
        performance=_performance(report),
        tuning=_tuning(report),
        seed=seed_report(report),
        skipped=[f"{check['id']}: {check['message']}" for check in skipped(report)],
        checks=_all_checks(report),
        passed=counts(report["checks"])[PASS],
        cards=cards,
    )


def _as_built(report: Report) -> Table:
    rows = as_built(report)
    cells = [(row.part, Marked(row.found, WARN) if row.differs else row.found, row.planned, row.why) for row in rows]
    head = ("Part", "Found", "Planned", "Why")
    return Table("What this node is made of", head, cells, [row.group for row in rows], "built")


def _tuning(report: Report) -> Table | str:
    """The settings, or a sentence if there are none."""
    rows = tuning(report)
    if isinstance(rows, str):
        return rows
    cells = [(name, Marked(state, STATES[state]), found, wanted, why) for name, wanted, found, why, state in rows]
    head = ("Setting", "State", "Found", "Wanted", "Why")
    return Table("Settings of the system, wanted and found", head, cells, looks="tuned")


def _smoke(report: Report) -> dict[str, Any]:
    bars = smoke_bars(report)
    devices = [device for device in as_list(look(report, "smoke", "devices")) if look(device, "amp_dtype_because")]
    outcome = next((check for check in report["checks"] if check["id"] == "smoke.amp"), None)
    return {
        "badge": badge(outcome["status"]) if outcome else None,
        "message": outcome["message"] if outcome else "It was not part of the smoke test.",
        "reasons": sorted({f"Mixed precision: {in_words(look(device, 'amp_dtype_because'))}." for device in devices}),
        "bars": bars_table(bars, "Measured in the smoke test") if bars else None,
        "sources": sources(bars),
    }


def _performance(report: Report) -> dict[str, Any]:
    """What was measured, or `why` nothing was."""
    why = why_no_performance(report)
    if why:
        return {"why": why}
    bars, left = performance_bars(report), missing_measures(report)
    return {
        "why": "",
        "bars": bars_table(bars, "What the GPUs achieve"),
        "sources": sources(bars),
        "missing": f"Not measured: {', '.join(left)}." if left else "",
        "problems": [in_words(problem) for problem in as_list(look(report, "performance", "problems"))],
    }


def bars_table(bars: list[Measured], caption: str) -> Table:
    """Numbers as text, and a bar: up to its peak or floor or, without these, on a scale for its unit."""
    longest: dict[str, float] = {}
    for bar in bars:
        longest[bar.unit] = max(longest.get(bar.unit, 0), bar.value)
    rows: list[tuple[Cell, ...]] = []
    for bar in bars:
        status = status_of(bar)
        end = max(bar.value, bar.floor or 0, bar.peak or 0) if bar.floor or bar.peak else longest[bar.unit]
        drawing = Bar(meter(bar.value, bar.floor, end, status), badge(status) if status else None)
        floor, peak = (amount(limit, bar.unit) for limit in (bar.floor, bar.peak))
        rows.append((bar.name, amount(bar.value, bar.unit), drawing, floor or "no floor", peak))
    return Table(caption, BAR_HEAD, rows, looks="measures")


def sources(bars: list[Measured]) -> list[str]:
    """Where the floors come from, each once."""
    return sorted({bar.source for bar in bars if bar.source not in ("", "none")})


def amount(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:.4g} {unit}"


def _all_checks(report: Report) -> Table:
    ordered = sorted(report["checks"], key=lambda check: RANK[check["status"]])
    rows = [(check["id"], badge(check["status"]), check["message"]) for check in ordered]
    return Table("Every check of this verification", ("Check", "Status", "Message"), rows)
