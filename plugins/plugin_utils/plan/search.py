# SPDX-License-Identifier: Apache-2.0
"""Find the best combination of candidates under a set of facts, or the smallest set of facts that leaves none.

A fact is a pin, a GPU or the operating system. A clash is found by leaving facts out: it consists of the facts that
have to stay for the question to remain without an answer.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Sequence
from typing import Any

from .candidates import ON_DEMAND, Candidate, Fact, accepts, is_from_pypi
from .groups import by_friends, by_needs
from .preference import preference
from .rules import Rules


class Problem:
    """The choices of one host; `kinds` are the parts that its plan has."""

    def __init__(self, rules: Rules, candidates: dict[str, list[Candidate]], kinds: Sequence[str]) -> None:
        self.as_of, self.margin = rules.matrix["as_of"], rules.matrix["support_margin_months"]
        self.rules = rules
        self.candidates = candidates
        self.kinds = tuple(kinds)
        self._fact_answers: dict[Any, Any] = {}
        self._pair_answers: dict[Any, Any] = {}
        self._pinned: dict[Any, Any] = {}
        self._fitting: dict[Any, Any] = {}
        self._answers: dict[Any, Any] = {}
        # Sets of candidates are whole numbers here, one bit for each: one operation finds what clashes.
        self._orders: dict[Any, Any] = {}
        self._all = {kind: [(1 << place, one) for place, one in enumerate(candidates[kind])] for kind in kinds}
        self._bits = {id(one): bit for members in self._all.values() for bit, one in members}
        self._by_needs = {kind: by_needs(members) for kind, members in self._all.items()}
        self._related = {one: [two for two in self.kinds if self.rules.relate(one, two)] for one in self.kinds}
        self._groups: dict[Any, Any] = {}
        # Pins that count as set if a candidate needs one: see smallest_clash.
        self._unlocked: dict[Any, Any] = {}

    def over(self, candidates: dict[str, list[Candidate]], kinds: Sequence[str]) -> Problem:
        """A problem over other lists of candidates: what is known of the lists that both have is not asked again."""
        other = Problem(self.rules, candidates, kinds)
        shared = {kind for kind in self.kinds if kind in kinds and candidates[kind] is self.candidates[kind]}
        other._pinned = {key: found for key, found in self._pinned.items() if key[0] in shared}
        other._fitting = {key: fits for key, fits in self._fitting.items() if key[1] in shared}
        other._groups = {key: groups for key, groups in self._groups.items() if shared.issuperset(key)}
        return other

    def kinds_for(self, facts: list[Fact]) -> list[str]:
        """The parts that an answer to these facts has: without its pin, an optional part is not among them."""
        pinned = {fact.name for fact in facts if fact.kind == "pin"}
        return [kind for kind in self.kinds if kind not in ON_DEMAND or kind in pinned]

    def refusal(self, fact: Fact, candidate: Candidate) -> str:
        """Why a GPU or the operating system rules a candidate out; "" if it does not."""
        key = (id(fact), id(candidate))
        if key not in self._fact_answers:
            ask = self.rules.gpu_refuses if fact.kind == "gpu" else self.rules.os_refuses
            self._fact_answers[key] = ask(fact.value, candidate)
        return self._fact_answers[key]

    def pair_refusal(self, first: Candidate, second: Candidate) -> str:
        """Why two candidates of different kinds do not fit together; "" if they do."""
        if self.kinds.index(first.kind) > self.kinds.index(second.kind):
            first, second = second, first
        key = (id(first), id(second))
        if key not in self._pair_answers:
            self._pair_answers[key] = self.rules.pair_refuses(first, second)
        return self._pair_answers[key]

    def pinned(self, kind: str, facts: list[Fact]) -> list[Candidate]:
        """The candidates of a kind that the pins among `facts` leave."""
        mask = self._pinned_set(kind, facts)
        return [candidate for bit, candidate in self._all[kind] if bit & mask]

    def _pinned_set(self, kind: str, facts: list[Fact]) -> int:
        own = self.candidates[kind][0].pins
        pins = {fact.name: fact.value for fact in facts if fact.kind == "pin" and fact.name in own}
        left = 0
        for needs, group in self._by_needs[kind]:
            for name in needs:
                if name not in pins:
                    group &= self._accepting(kind, name, self._unlocked[name]) if name in self._unlocked else 0
            left |= group
        for name, value in pins.items():
            left &= self._accepting(kind, name, value)
        return left

    def _accepting(self, kind: str, name: str, value: str) -> int:
        """The candidates that are what a pin asks for."""
        key = (kind, name, value)
        if key not in self._pinned:
            self._pinned[key] = sum(bit for bit, candidate in self._all[kind] if accepts(name, value, candidate))
        return self._pinned[key]

    def _is_needed(self, pin: Fact) -> bool:
        """Whether a pin cannot be met without it, such as PyTorch's cpu build."""
        own = [group for group in self.candidates.values() if pin.name in group[0].pins]
        asked = [one for group in own for one in group if accepts(pin.name, pin.value, one)]
        return all(pin.name in one.needs for one in asked)

    def allowed(self, kind: str, facts: list[Fact]) -> list[Candidate]:
        """The candidates of a kind that pins, GPUs and operating system leave."""
        others = [fact for fact in facts if fact.kind != "pin"]
        return [
            candidate
            for candidate in self.pinned(kind, facts)
            if not any(self.refusal(fact, candidate) for fact in others)
        ]

    def _allowed_set(self, kind: str, facts: list[Fact]) -> int:
        """The same as a set, from one set for each fact, which the many questions behind a refusal share."""
        left = self._pinned_set(kind, facts)
        for fact in facts:
            if fact.kind != "pin" and left:
                key = (id(fact), kind)
                if key not in self._fitting:
                    groups = self._alike(kind, fact.kind).items()
                    self._fitting[key] = sum(group for group, one in groups if not self.refusal(fact, one))
                left &= self._fitting[key]
        return left

    def best_first(self, candidates: list[Candidate], chosen: dict[str, Candidate] | None = None) -> list[Candidate]:
        """Candidates of one kind in the order in which they are tried beside what is chosen."""
        return self._members(candidates[0].kind, self._set_of(candidates), chosen or {}) if candidates else []

    def _members(self, kind: str, mask: int, chosen: dict[str, Candidate]) -> list[Candidate]:
        """The candidates of a set, the best first."""
        # Of all preferences, only that for a toolkit depends on another choice.
        key = (kind, id(chosen.get("driver")) if kind == "cuda" else None)
        if key not in self._orders:
            ordered = sorted(
                self.candidates[kind], key=lambda candidate: preference(candidate, chosen, self.as_of, self.margin)
            )
            self._orders[key] = [(self._bits[id(candidate)], candidate) for candidate in ordered]
        return [candidate for bit, candidate in self._orders[key] if bit & mask]

    def _groups_of(self, kind: str, other: str) -> list[tuple[int, ...]]:
        """`[(friends, group)]`: all of a kind as groups that fit the same ones of the other kind, their `friends`."""
        if (kind, other) not in self._groups:
            first, second = sorted((kind, other), key=self.kinds.index)
            ones, twos = self._alike(first, second), self._alike(second, first)
            friends_of_ones, friends_of_twos = dict.fromkeys(ones, 0), dict.fromkeys(twos, 0)
            rule = self.rules.pair_rule(first, second)
            for group, one in ones.items():
                for other_group, two in twos.items():
                    if not rule(one, two):
                        friends_of_ones[group] |= other_group
                        friends_of_twos[other_group] |= group
            self._groups[first, second] = by_friends(friends_of_ones)
            self._groups[second, first] = by_friends(friends_of_twos)
        return self._groups[kind, other]

    def _alike(self, kind: str, other: str) -> dict[Any, Candidate]:
        """`{set: one of it}`: candidates that look the same to the rule for the other kind, "gpu" or "os"."""
        seen = self.rules.seen(kind, other)
        sets: dict[Any, list[Any]] = {}
        for bit, candidate in self._all[kind]:
            group = sets.setdefault(seen(candidate), [0, candidate])
            group[0] |= bit
        return {members: first for members, first in sets.values()}

    def best(self, facts: list[Fact]) -> dict[str, Candidate] | None:
        """The answer for a plan: with a PyTorch from PyPI itself, and so a lock file, whenever there is one.

        That takes precedence over all other preferences: a better Python is worth less than an environment with hashes.
        """
        return self.search(facts, from_pypi=True) or self.search(facts)

    def search(self, facts: list[Fact], from_pypi: bool = False) -> dict[str, Candidate] | None:
        """The best `{kind: Candidate}` under these facts, or None. An earlier kind has its best value first."""
        # A refusal is explained by many questions, some of which are repeated.
        key = (from_pypi, tuple(sorted(self._unlocked.items()))) + tuple(
            (fact.name, fact.value if fact.kind == "pin" else id(fact.value)) for fact in facts
        )
        if key not in self._answers:
            masks = self._allowed_sets(facts)
            if from_pypi and masks:
                masks["pytorch"] &= sum(bit for bit, candidate in self._all["pytorch"] if is_from_pypi(candidate))
            self._answers[key] = self._complete(masks)
        return self._answers[key]

    def _complete(self, masks: dict[str, int]) -> dict[str, Candidate] | None:
        """The best answer out of these sets, which are changed; None where there is none, or no sets at all."""
        if not masks or not all(masks.values()) or not self._agree(masks, list(masks)):
            return None
        return self._extend(collections.OrderedDict(), masks)

    def with_answer(self, facts: list[Fact], others: dict[str, Fact]) -> list[str]:
        """The names of those of `others` with which these facts have any answer.

        Pairs are compared only of what the facts leave beside one of the others.
        """
        masks = {name: self._allowed_sets(facts + [other]) for name, other in others.items()}
        masks = {name: sets for name, sets in masks.items() if sets}
        left = {
            kind: [one for bit, one in self._all[kind] if any(bit & sets[kind] for sets in masks.values())]
            for kind in self.kinds_for(facts)
        }
        smaller = Problem(self.rules, left, list(left))
        found = []
        for name, sets in masks.items():
            bits = smaller._bits
            same = {kind: sum(bits[id(one)] for one in left[kind] if self._bits[id(one)] & sets[kind]) for kind in sets}
            if smaller._complete(same):
                found.append(name)
        return found

    def _allowed_sets(self, facts: list[Fact]) -> dict[str, int]:
        """`{kind: set}` of what the facts leave, or nothing once they leave none of a kind."""
        masks: dict[str, int] = {}
        for kind in self.kinds_for(facts):
            masks[kind] = self._allowed_set(kind, facts)
            if not masks[kind]:
                return {}
        return masks

    def _agree(self, masks: dict[str, int], changed: Sequence[str]) -> bool:
        """Remove from the sets what clashes with all of another kind, until nothing does; False if one is empty.

        changed  the kinds whose sets are smaller than when the others last agreed with them
        """
        waiting = [kind for kind in changed if kind in masks]
        while waiting:
            other = waiting.pop()
            for kind in self._related[other]:
                before = left = masks.get(kind, 0)
                for friends, group in self._groups_of(kind, other) if before else ():
                    if not friends & masks[other]:
                        left &= ~group
                if left != before:
                    if not left:
                        return False
                    masks[kind] = left
                    if kind not in waiting:
                        waiting.append(kind)
        return True

    def hopeless_pair(self, domains: dict[str, list[Candidate]]) -> tuple[str, str] | None:
        """Two kinds of which no candidates fit together, or None. Finding them early saves trying them all."""
        masks = {kind: self._set_of(candidates) for kind, candidates in domains.items()}
        for kind, other in itertools.combinations(domains, 2):
            if other not in self._related[kind]:
                continue
            groups = self._groups_of(kind, other)
            if not any(group & masks[kind] and friends & masks[other] for friends, group in groups):
                return kind, other
        return None

    def rules_out(self, kind: str, candidates: list[Candidate], candidate: Candidate) -> bool:
        """Whether none of the candidates of a kind goes together with a candidate of another kind."""
        if kind not in self._related[candidate.kind]:
            return False
        bit, others = self._bits[id(candidate)], self._set_of(candidates)
        return not any(group & bit and friends & others for friends, group in self._groups_of(candidate.kind, kind))

    def _set_of(self, candidates: list[Candidate]) -> int:
        return sum(self._bits[id(candidate)] for candidate in candidates)

    def _extend(self, chosen: dict[str, Candidate], masks: dict[str, int]) -> dict[str, Candidate] | None:
        if len(chosen) == len(masks):
            return chosen
        kind = next(kind for kind in self.kinds if kind in masks and kind not in chosen)
        for candidate in self._members(kind, masks[kind], chosen):
            left = dict(masks, **{kind: self._bits[id(candidate)]})
            if self._agree(left, [kind]):
                extended = collections.OrderedDict(chosen)
                extended[kind] = candidate
                found = self._extend(extended, left)
                if found is not None:
                    return found
        return None

    def smallest_clash(self, facts: list[Fact]) -> list[Fact]:
        """A part of `facts` that still has no answer, and of which no fact can be left out."""
        clash = list(facts)
        # A pin that is left out must not take away what only it allows: the rest would fail for want of that.
        self._unlocked = {fact.name: fact.value for fact in facts if fact.kind == "pin" and self._is_needed(fact)}
        # The least likely causes are left out first: the operating system, then the later pins, then the GPUs.
        for fact in reversed(facts):
            rest = [other for other in clash if other is not fact]
            if self.search(rest) is None:
                clash = rest
        self._unlocked = {}
        return clash
