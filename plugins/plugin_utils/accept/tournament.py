# SPDX-License-Identifier: Apache-2.0
"""Which groups of nodes are tried next, until the slow ones and the ones that do not work are known.

First all nodes work together, then in pairs that share no node, all pairs at the same time, three times with other
partners. Halving a large group would take more steps, and would not see two slow nodes of which each half has one: both
halves would be equally slow. A pair is as slow as its slower node, so a node is named that is slow with one that is
fast in another pair; a node for which that is not known yet is tried again with a fast one. What is then left must
also work together; if it does not although its pairs do, it is halved until the smallest such group is found, which is
what a slow switch between them looks like.

Everything here is a pure function of the rounds so far.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

TOGETHER, PAIRS, AGAIN, REST, HALVES = "together", "pairs", "again", "rest", "halves"
# Moved over the slowest link, and steps of all processors together: both do not depend on the size of a group.
FIGURES = {"reduce_gb_s": "GB/s", "steps_per_s": "steps/s"}
# More nodes lose more time on waiting for each other: a group of more than two is slow below this part of a pair.
GROUP_SHARE = 0.5
# Each node has this many partners, one after the other: if two of four nodes are slow, two partners may both be.
MOST_PAIRINGS = 3

Result = dict[str, Any]
Round = dict[str, Any]


class Step(NamedTuple):
    """What is run next: groups that share no node; none if the tournament is over."""

    kind: str
    groups: list[list[str]]


class Standing(NamedTuple):
    """What is known of the nodes. `named` have failed or were slow with a node that is good with another one."""

    good: list[str]
    named: list[str]
    open: list[str]


def results_of(history: Sequence[Round]) -> list[Result]:
    return [result for row in history for result in row["results"]]


def pair_results(history: Sequence[Round]) -> list[Result]:
    return [result for result in results_of(history) if len(result["group"]) == 2]


def reference(history: Sequence[Round]) -> dict[str, float]:
    """The best figures of any pair: many things make a pair slower than it should be, and none makes it faster."""
    found: dict[str, float] = {}
    for result in pair_results(history):
        for name, value in (result["figures"] or {}).items():
            found[name] = max(found.get(name, 0.0), value)
    return found


def shortfall(result: Result, best: dict[str, float], share: float) -> tuple[str, float, float] | None:
    """(figure, its value, the limit) of the figure that is furthest below its limit; None if none is.

    `share` is the part by which a pair may stay below the best one, 0.1 for 10 %.
    """
    part = 1.0 - share if len(result["group"]) == 2 else GROUP_SHARE * (1.0 - share)
    below = []
    for name, value in (result["figures"] or {}).items():
        limit = best.get(name, 0.0) * part
        if value < limit:
            below.append((value / limit, (name, value, limit)))
    return min(below)[1] if below else None


def is_good(result: Result, best: dict[str, float], share: float) -> bool:
    """A group passes with figures, without a problem, and with each figure at its limit or above."""
    return bool(result["figures"]) and not result["problem"] and shortfall(result, best, share) is None


def standing(nodes: Iterable[str], history: Sequence[Round], share: float, lost: Collection[str] = ()) -> Standing:
    """What the pairs say of these nodes; one that failed with a node that is `lost` says nothing of the other node."""
    best, pairs = reference(history), pair_results(history)
    good = {name for result in pairs if is_good(result, best, share) for name in result["group"]}
    bad = [set(result["group"]) for result in pairs if not is_good(result, best, share)]
    bad = [pair for pair in bad if not pair & set(lost)]
    named = {name for pair in bad for name in pair - good if pair & good}
    listed = list(nodes)
    return Standing(
        [name for name in listed if name in good],
        [name for name in listed if name in named],
        [name for name in listed if name not in good and name not in named],
    )


def next_step(nodes: Sequence[str], alive: Sequence[str], history: Sequence[Round], share: float) -> Step:
    """The next groups. `alive` are the nodes that still take part; `nodes` are all that began, in their order."""
    done = Step("", [])
    here = [name for name in nodes if name in alive]
    if len(here) < 2:
        return done
    if not history:
        return Step(TOGETHER, [here])
    done_pairings = sum(row["kind"] == PAIRS for row in history)
    for pairs in pairings(nodes)[done_pairings:]:
        here_too = [pair for pair in pairs if set(pair) <= set(here)]
        if len(here) > 2 and here_too:
            return Step(PAIRS, here_too)
    now = standing(here, history, share, set(nodes) - set(here))
    again = pairs_again(now, history)
    if again:
        return Step(AGAIN, again)
    return next_groups(now.good, history, share)


def pairings(nodes: Sequence[str]) -> list[list[list[str]]]:
    """Up to MOST_PAIRINGS ways of pairing the nodes, no pair twice: the first rounds of a round robin.

    One node stays and the others move around it by one place; of an odd number, each in turn has no partner.
    """
    ring: list[str | None] = [*nodes, None] if len(nodes) % 2 else [*nodes]
    found = []
    for _ in range(min(MOST_PAIRINGS, len(ring) - 1)):
        couples = [(ring[place], ring[-1 - place]) for place in range(len(ring) // 2)]
        found.append([[one, other] for one, other in couples if one is not None and other is not None])
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return found


def pairs_again(now: Standing, history: Sequence[Round]) -> list[list[str]]:
    """Each node of which it is not known yet, with another one that is good; none without a good one."""
    tried = {frozenset(result["group"]) for result in results_of(history)}
    partners, found = list(now.good), []
    for name in now.open:
        partner = next((other for other in partners if frozenset((name, other)) not in tried), None)
        if partner is not None:
            partners.remove(partner)
            found.append([partner, name])
    return found


def next_groups(good: Sequence[str], history: Sequence[Round], share: float) -> Step:
    """The nodes that are left, together; then halves of each group that does not work together."""
    best, known = reference(history), {frozenset(result["group"]): result for result in results_of(history)}
    if len(good) > 2 and frozenset(good) not in known:
        return Step(REST, [list(good)])
    halves = []
    for result in known.values():
        inside = set(result["group"]) <= set(good)
        if inside and len(result["group"]) > 3 and not is_good(result, best, share):
            middle = len(result["group"]) // 2
            parts = [result["group"][:middle], result["group"][middle:]]
            halves += [part for part in parts if frozenset(part) not in known]
    return Step(HALVES, halves)


def slow_groups(good: Sequence[str], history: Sequence[Round], share: float) -> list[Result]:
    """The smallest groups of good nodes that do not work together."""
    best, kept = reference(history), set(good)
    bad = [r for r in results_of(history) if set(r["group"]) <= kept and not is_good(r, best, share)]
    larger = [result for result in bad if len(result["group"]) > 2]
    return [one for one in larger if not any(set(other["group"]) < set(one["group"]) for other in larger)]


def gathered(step: Step, answers: dict[str, Any], number: int) -> Round:
    """One round of the history, from what each node of its groups has answered; an answer of another round is none."""
    return {"kind": step.kind, "results": [result_of(group, answers, number) for group in step.groups]}


def result_of(group: Sequence[str], answers: dict[str, Any], number: int) -> Result:
    """{group, figures, problem, own_product_s}: the lowest median of its nodes, or why there is none."""
    found, problems, own = [], [], {}
    for name in group:
        answer = answers.get(name)
        if not isinstance(answer, dict) or answer.get("round") != number:
            problems.append(f"{name} gave no answer")
            continue
        record = answer.get("record")
        if not isinstance(record, dict) or record.get("problems") or record.get("faults"):
            problems.append(f"{name}: {why(answer, record)}")
            continue
        series = record.get("series") or {}
        found.append({key: statistics.median(series[key]) if series.get(key) else None for key in FIGURES})
        own[name] = record.get("own_product_s")
    figures = None
    if not problems and found and all(value is not None for row in found for value in row.values()):
        figures = {key: min(float(row[key] or 0.0) for row in found) for key in FIGURES}
    problem = "; ".join(problems) or ("" if figures else "nothing was measured")
    return {"group": list(group), "figures": figures, "problem": problem, "own_product_s": own}


def why(answer: dict[str, Any], record: Any) -> str:
    """The reason in a node's answer, in one line."""
    if not isinstance(record, dict):
        return str(answer.get("problem") or "it printed no record")
    return "; ".join(str(text) for text in (record.get("problems") or record.get("faults") or []))
