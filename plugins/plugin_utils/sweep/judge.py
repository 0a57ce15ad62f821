# SPDX-License-Identifier: Apache-2.0
"""What a sweep says about one node: pure functions of what it has answered and of the fleet's history.

A FAIL keeps the node out of service. What could not be measured is UNKNOWN: the node is returned, and named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from ansible_collections.gpuwright.node.plugins.module_utils.verdict.causes import first_finding
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.check import FAIL, PASS, SEVERITY, UNKNOWN, WARN
from ansible_collections.gpuwright.node.plugins.plugin_utils.accept import judge as acceptance
from ansible_collections.gpuwright.node.plugins.plugin_utils.accept.figures import Answer, Fleet
from ansible_collections.gpuwright.node.plugins.plugin_utils.accept.products import Product, unlike
from ansible_collections.gpuwright.node.plugins.plugin_utils.history import kept, trend
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.speed import measure_words

from . import load
from .cards import CardNow, cards_now

# What the host decides as well: its slot, processor and memory, which cards of one model need not have in common.
HOSTS_TOO = {"h2d_gb_s", "d2h_gb_s", "h2d_remote_gb_s", "d2h_remote_gb_s", "p2p_gb_s", "link_gt_s"}
# Of the acceptance's findings, those that say nothing bad of the node: something was not measured.
DOUBT = ("accept.no_record", "accept.problem", "accept.unmeasured", "accept.device")
# Of the whole node.
NO_CARD = ""
# A decline that lasts is told from this part of the share on.
EARLY = 0.5
LONGEST_REASON = 300


class Told(NamedTuple):
    """What a node has told a sweep.

    answer    of the burn-in; None if it gave none       expected  as for an acceptance: device, gpus
    report    of level deep, None if it gave none        troubles  what failed besides, in words
    seen      its boot and cards after the load (tasks/look.yml)
    """

    answer: Answer | None
    expected: Mapping[str, Any]
    report: Mapping[str, Any] | None
    troubles: Sequence[str] = ()
    seen: Mapping[str, Any] = MappingProxyType({})


def finding(name: str, status: str, text: str, card: str = NO_CARD) -> dict[str, str]:
    return {"id": name, "status": status, "text": text, "card": card}


def with_rows(host: str, told: Told, histories: Mapping[str, kept.History], now: str) -> kept.History:
    """The node's history with a row of this sweep for each card, not yet judged.

    All nodes of a batch are here before any of them is judged, so that each is held against all others.
    """
    own, before = histories.get(host) or kept.empty(host), kept.cards_of(histories)
    rows = {}
    for card in cards_of_answer(host, told, now):
        _host, old = before.get(card.key, ("", None))
        product = card.product._asdict() if card.product else None
        rows[card.key] = {**kept.with_row(old, card.row, now), "now": product}
    # What could not be measured must not cost the history of cards that were there.
    return {**own, "cards": rows or own["cards"]}


def judged(host: str, told: Told, histories: Mapping[str, kept.History], share: float, now: str) -> kept.History:
    """The node's history, which has this sweep's rows, with its verdict and findings. `share`: 0.1 for 10 %."""
    own, known = histories[host], {key: card for key, (_host, card) in kept.cards_of(histories).items()}
    found = of_load(host, own, told) + of_report(told.report)
    found += [finding("sweep.failed", UNKNOWN, text) for text in told.troubles]
    found += of_burn_in(host, told, share)
    cards, medians, rows = cards_of_answer(host, told, now), trend.fleet_medians(known.values()), dict(own["cards"])
    for card in cards:
        wrong = of_product(card, cards, known)
        if card.product and not any(row["status"] == FAIL for row in wrong):
            rows[card.key] = {**rows[card.key], "product": card.product._asdict()}
        found += wrong + of_trend(card, rows[card.key], medians, share) + of_counters(card, rows[card.key])
    told_now = verdict(found)
    swept = now if told_now == FAIL or (cards and told_now != UNKNOWN) else own["swept"]
    return {**own, "swept": swept, "verdict": told_now, "findings": found, "cards": rows, "load": None}


def left(host: str, history: kept.History, seen: Mapping[str, Any], now: str) -> kept.History:
    """The history of a node that an earlier sweep has left: judged then, or by what its load has cost it."""
    if history["verdict"] == FAIL and history["swept"] >= history["tried"]:
        return history
    found = of_load(host, history, Told(None, {}, None, (), seen))
    ended = {**history, "load": None}
    return {**ended, "swept": now, "verdict": FAIL, "findings": found} if found else {**ended, "verdict": ""}


def of_load(host: str, history: kept.History, told: Told) -> list[dict[str, str]]:
    """What the load has cost the node: a card or node that dies of it has measured nothing, and is bad."""
    had, record = history["load"], (told.answer or {}).get("record")
    if not had:
        return []
    loaded = isinstance(record, dict) and not record.get("problems")
    found = load.cost(host, had, told.seen) + load.xids(had, told.report, loaded)
    return [finding(name, status, text, card) for name, status, text, card in found]


def cards_of_answer(host: str, told: Told, now: str) -> list[CardNow]:
    answer = told.answer or {}
    return cards_now(host, answer, told.report, now) if isinstance(answer.get("record"), dict) else []


def of_report(report: Mapping[str, Any] | None) -> list[dict[str, str]]:
    """The finding of level deep that explains the others, if its verdict is bad."""
    if report is None or report["verdict"] not in (FAIL, UNKNOWN):
        return []
    worst = first_finding(report["checks"], report["verdict"])
    if worst is None:
        return [finding("verdict", report["verdict"], "see the report")]
    return [finding(str(worst["id"]), report["verdict"], str(worst["message"]))]


def of_burn_in(host: str, told: Told, share: float) -> list[dict[str, str]]:
    """What an acceptance would say of the same record; `of_trend` compares it with the fleet, card by card."""
    answer = told.answer or {}
    if not isinstance(answer.get("record"), dict):
        text = f"the burn-in gave no record: {answer.get('problem') or 'no reason is known'}"
        return [] if told.troubles and not answer else [finding("accept.no_record", UNKNOWN, text)]
    fleet = Fleet({host: answer})
    found = [acceptance.Finding("accept.problem", FAIL, str(text)) for text in answer["record"].get("problems") or []]
    found += acceptance.whole(answer["record"], answer, told.expected)
    found += acceptance.errors_of_memory(answer, told.expected)
    found += [row for one in fleet.figures[host] for row in acceptance.of_figure(host, fleet, one, share)]
    return [finding(row.id, UNKNOWN if row.id in DOUBT else row.status, row.text) for row in found]


def of_product(card: CardNow, cards: Sequence[CardNow], known: Mapping[str, Any]) -> list[dict[str, str]]:
    if card.product is None:
        return []
    others = {key: Product(**one["now"]) for key, one in known.items() if one["now"]}
    right = known[card.key]["product"]
    found = unlike(card.key, card.product, others, Product(**right) if right else None, [one.key for one in cards])
    return [finding("accept.product", status, f"{name_of(card)}: {text}", card.key) for status, text in found]


def of_trend(card: CardNow, row: Mapping[str, Any], medians: trend.Medians, share: float) -> list[dict[str, str]]:
    """A card that is slower than on its own first days, or than the others of its model: with the numbers."""
    found = []
    for measure in row["figures"]:
        bad = WARN if measure in HOSTS_TOO or measure.startswith("smoke_") else FAIL
        own = trend.since_its_first_days(row, measure)
        if own and own.below > share:
            found.append(finding("sweep.slower", bad, f"{words(card, own)}, {limit(share)}", card.key))
        elif own and own.lasts and own.below > share * EARLY:
            found.append(finding("sweep.declines", WARN, words(card, own), card.key))
        fleet = trend.against_the_fleet(row, measure, medians)
        if fleet and fleet.below > share:
            found.append(finding("sweep.outlier", bad, f"{words(card, fleet)}, {limit(share)}", card.key))
    return found


def of_counters(card: CardNow, row: Mapping[str, Any]) -> list[dict[str, str]]:
    return [
        finding("sweep.errors", WARN, f"{name_of(card)}: {name} {before:g} → {now:g} since the sweep before", card.key)
        for name, before, now in trend.grown(row)
    ]


def name_of(card: CardNow) -> str:
    return f"{card.row.place} ({card.key})"


def words(card: CardNow, drop: trend.Drop) -> str:
    what, unit = measure_words(drop.measure)
    of = f"its own first {drop.days} days" if drop.days else f"{drop.cards} cards of its model"
    return (
        f"{name_of(card)}: {what} {drop.value:.4g} {unit} is {100 * drop.below:.0f} % below the median of {of}, "
        f"{drop.usual:.4g} {unit}"
    )


def limit(share: float) -> str:
    return f"{100 * share:g} % is allowed"


def verdict(findings: Sequence[Mapping[str, str]]) -> str:
    statuses = {row["status"] for row in findings}
    return next((status for status in SEVERITY if status in statuses), PASS)


def reason(history: kept.History) -> str:
    """What others read of a node that stays drained: its first FAIL, and how many more there are; "" for none."""
    bad = [row for row in history["findings"] if row["status"] == FAIL]
    if not bad:
        return ""
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    text = f"{bad[0]['id']}: {bad[0]['text']}".replace('"', "'").encode("ascii", "replace").decode()
    text = " ".join(text.split())
    return text[: LONGEST_REASON - len(more)] + more
