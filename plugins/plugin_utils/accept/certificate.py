# SPDX-License-Identifier: Apache-2.0
"""The certificate of a node: a record, docs/accept.md has its keys, and the page that shows it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.verdict.check import FAIL as RED
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.check import PASS, UNKNOWN
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.check import WARN as YELLOW
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.cells import Badge, Cell, Marked, Table
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.folder import page_files
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.render import environment
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.speed import WORDS

from . import tournament
from .figures import Answer, Figure, Fleet, devices_of
from .judge import ACCEPTED, FAIL, NOTE, ON_CPU, WARN, Finding, judge, verdict_of

SCHEMA = 1
# Of each device's record; `series` has seconds since the start and the value of each point.
KEPT = ("device", "name", "pci_id", "series", "counts", "left_out")
# In the message that ends a node's run; its page has them all.
MOST_REASONS = 4
OWN_TEMPLATES = Path(__file__).parent / "templates"
TRIAL = "a trial on the CPUs with the same code: it certifies nothing about GPUs"
COLOURS = {FAIL: RED, WARN: YELLOW, NOTE: UNKNOWN}
Certificate = dict[str, Any]


def certificates(
    answers: Mapping[str, Answer | None],
    expected: Mapping[str, Mapping[str, Any]],
    history: Sequence[Any],
    run: Mapping[str, Any],
    lost: Collection[str] = (),
) -> dict[str, Certificate]:
    """The certificate of each node. `run`: began, ended (times in UTC), minutes, share_percent.

    lost  names of nodes that did not take part to the end
    """
    fleet, share = Fleet(answers), float(run["share_percent"]) / 100.0
    found = {}
    for host, answer in answers.items():
        findings = judge(host, fleet, answer, expected[host], history, share, lost)
        found[host] = certificate(host, fleet, answer, expected[host], findings, history, run)
    files = page_files(list(found))
    return {host: {**record, "file": files[host].removesuffix(".html")} for host, record in found.items()}


def certificate(
    host: str,
    fleet: Fleet,
    answer: Answer | None,
    expected: Mapping[str, Any],
    findings: Sequence[Finding],
    history: Sequence[Any],
    run: Mapping[str, Any],
) -> Certificate:
    told = (answer or {}).get("record")
    record = told if isinstance(told, dict) else {}
    cards = (answer or {}).get("cards") or {}
    looks = (answer or {}).get("looks") or []
    return {
        "schema": SCHEMA,
        "kind": "acceptance",
        "host": host,
        "verdict": verdict_of(findings),
        "trial": TRIAL if expected["device"] == ON_CPU else None,
        "simulated": expected.get("simulated") or None,
        **{name: run[name] for name in ("began", "ended", "minutes", "share_percent")},
        "model": fleet.models[host] or None,
        "versions": {"torch": record.get("torch"), "cuda": record.get("cuda"), "driver": cards.get("driver")},
        "system": {name: expected.get(name) for name in ("os", "kernel")},
        "cards": cards.get("gpus") or [],
        "findings": [finding._asdict() for finding in findings],
        "figures": [_figure(host, fleet, figure) for figure in fleet.figures[host]],
        "devices": [{name: device.get(name) for name in KEPT} for device in devices_of(answer)],
        "heat": heat(looks),
        "looks": looks,
        "between": [row for row in history if any(host in result["group"] for result in row["results"])],
    }


def _figure(host: str, fleet: Fleet, figure: Figure) -> dict[str, Any]:
    return {**figure._asdict(), **fleet.against(host, figure)._asdict()}


def heat(looks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each card's highest temperature (C), its lowest and highest SM clock (MHz), and why its clock was held down."""
    found: dict[str, dict[str, Any]] = {}
    for look in looks:
        for gpu in look.get("gpus") or []:
            row = found.setdefault(str(gpu.get("pci_id")), {"temperature": [], "clock": [], "reasons": set()})
            row["temperature"] += _numbers(gpu.get("temperature_c"))
            row["clock"] += _numbers(gpu.get("clock_sm_mhz"))
            reasons = gpu.get("throttle_reasons")
            row["reasons"] |= set(reasons if isinstance(reasons, list) else [])
    return [
        {
            "pci_id": card,
            "hottest_c": max(row["temperature"], default=None),
            "clock_lowest_mhz": min(row["clock"], default=None),
            "clock_highest_mhz": max(row["clock"], default=None),
            "held_down_by": sorted(row["reasons"] - {"gpu_idle"}),
        }
        for card, row in sorted(found.items())
    ]


def _numbers(value: Any) -> list[float]:
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


def refusal(record: Certificate, folder: str) -> str:
    """Why a node is not accepted, in one message; "" for one that is."""
    if record["verdict"] == ACCEPTED:
        return ""
    reasons = [f"{row['text']} ({row['id']})" for row in record["findings"] if row["status"] == FAIL]
    if len(reasons) > MOST_REASONS:
        reasons = [*reasons[:MOST_REASONS], f"and {len(reasons) - MOST_REASONS} more reasons"]
    trial = f" This was {record['trial']}." if record["trial"] else ""
    return (
        f"{record['host']} is not accepted: {'; '.join(reasons)}.{trial} "
        f"Look at {folder}/{record['file']}.html, correct or replace what it names, and run the acceptance again. "
        "[accept.refused]"
    )


def page(record: Certificate) -> str:
    """The certificate as a page that needs no network; every value is escaped when it is inserted."""
    return (
        environment(OWN_TEMPLATES)
        .get_template("certificate.html.j2")
        .render(
            name=record["host"],
            record=record,
            verdict=Badge(record["verdict"], PASS if record["verdict"] == ACCEPTED else RED),
            reasons=[row for row in record["findings"] if row["status"] == FAIL],
            remarks=[f"{row['text']} ({row['id']})" for row in record["findings"] if row["status"] != FAIL],
            figures=_figures(record),
            cards=_cards(record),
            between=_between(record),
        )
    )


def _figures(record: Certificate) -> Table:
    head = ("Measurement", "Median", "Lowest", "Floor", "Fleet's median", "Against the fleet", "Points")
    rows: list[tuple[Cell, ...]] = []
    allowed = float(record["share_percent"]) / 100.0
    for row in record["figures"]:
        unit, below = row["unit"], row["below"]
        floor = "no floor" if row["floor"] is None else f"{row['floor']:.4g} {unit}"
        low = row["floor"] is not None and row["value"] < row["floor"]
        told: Cell = "no fleet"
        if below is not None:
            words = f"{100 * abs(below):.0f} % {'below' if below > 0 else 'above'}"
            told = Marked(words, RED) if below > allowed else words
        fleet = "" if row["median"] is None else f"{row['median']:.4g} {unit} of {row['nodes']}"
        value = f"{row['value']:.4g} {unit}"
        lowest = f"{row['lowest']:.4g} {unit}"
        name = f"{row['device']}: {WORDS[row['measure']]}"
        rows.append((name, Marked(value, RED) if low else value, lowest, floor, fleet, told, str(row["points"])))
    return Table("What was measured, and against what", head, rows, looks="measures")


def _cards(record: Certificate) -> Table:
    head = ("Card", "Serial number", "UUID", "VBIOS", "Hottest", "SM clock", "Held down by")
    warm = {row["pci_id"]: row for row in record["heat"]}
    rows = []
    for card in record["cards"]:
        heat = warm.get(card.get("pci_id"), {})
        clocks = f"{_told(heat.get('clock_lowest_mhz'))} to {_told(heat.get('clock_highest_mhz'))} MHz"
        texts = [_told(card.get(name)) for name in ("serial", "uuid", "vbios")]
        held = ", ".join(heat.get("held_down_by") or []) or "nothing"
        name = f"{_told(card.get('pci_id'))} {_told(card.get('name'))}"
        rows.append((name, *texts, f"{_told(heat.get('hottest_c'))} °C", clocks, held))
    return Table("Cards, and how warm they became", head, rows)


def _between(record: Certificate) -> Table:
    head = ("Nodes", "Step", *(f"{name}" for name in ("All-reduce", "Steps together")), "Problem")
    rows = []
    for row in record["between"]:
        for result in row["results"]:
            if record["host"] in result["group"]:
                figures = result["figures"] or {}
                texts = [
                    f"{figures[key]:.4g} {unit}" if key in figures else "" for key, unit in tournament.FIGURES.items()
                ]
                rows.append((", ".join(result["group"]), row["kind"], *texts, result["problem"] or "none"))
    return Table("With other nodes", head, rows)


def _told(value: Any) -> str:
    return "unknown" if value is None else str(value)
