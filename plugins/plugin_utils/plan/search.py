# SPDX-License-Identifier: Apache-2.0
"""Find the best combination of candidates under a set of facts, or the smallest set of facts that leaves none.

A fact is a pin, a GPU or the operating system. A clash is found by leaving facts out: it consists of the facts that
have to stay for the question to remain without an answer.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any, NamedTuple

from .candidates import ON_DEMAND, Candidate, accepts, is_from_pypi, preference
from .rules import Rules


class Fact(NamedTuple):
    """Something that an answer must respect.

    kind   pin, gpu or os     name   of the pin     value  the pin's value, a Gpu, or a row of os_releases
    label  for people: system_driver_branch "590"            origin  of a pin: the variable, or the profile that asked
    """

    kind: str
    name: str
    value: Any
    label: str
    origin: str


def _by_friends(friends_of: dict[Any, int]) -> list[tuple[int, ...]]:
    """`[(friends, group)]`, each set of friends once."""
    groups: dict[int, int] = {}
    for group, friends in friends_of.items():
        groups[friends] = groups.get(friends, 0) | group
    return list(groups.items())


class Problem:
    """The choices of one host; `kinds` are the parts that its plan has."""

    def __init__(self, matrix: dict[str, Any], candidates: dict[str, list[Candidate]], kinds: Sequence[str]) -> None:
        self.as_of = matrix["as_of"]
        self.rules = Rules(matrix)
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
        self._arcs = [(one, two) for one in self.kinds for two in self.kinds if self.rules.relate(one, two)]
        self._groups: dict[Any, Any] = {}
        # Pins that count as set if a candidate needs one: see smallest_clash.
        self._unlocked: dict[Any, Any] = {}

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
        own = self.candidates[kind][0].pins
        pins = {fact.name: fact.value for fact in facts if fact.kind == "pin" and fact.name in own}
        key = (kind, tuple(sorted(pins.items())), tuple(sorted(self._unlocked.items())))
        if key not in self._pinned:
            self._pinned[key] = [
                candidate
                for candidate in self.candidates[kind]
                if all(name in pins or self._unlocks(name, candidate) for name in candidate.needs)
                and all(accepts(name, value, candidate) for name, value in pins.items())
            ]
        return self._pinned[key]

    def _is_needed(self, pin: Fact) -> bool:
        """Whether a pin cannot be met without it, such as PyTorch's cpu build."""
        own = [group for group in self.candidates.values() if pin.name in group[0].pins]
        asked = [one for group in own for one in group if accepts(pin.name, pin.value, one)]
        return all(pin.name in one.needs for one in asked)

    def _unlocks(self, name: str, candidate: Candidate) -> bool:
        return name in self._unlocked and accepts(name, self._unlocked[name], candidate)

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
        left = sum(self._bits[id(candidate)] for candidate in self.pinned(kind, facts))
        for fact in facts:
            if fact.kind != "pin":
                key = (id(fact), kind)
                if key not in self._fitting:
                    fits = [bit for bit, candidate in self._all[kind] if not self.refusal(fact, candidate)]
                    self._fitting[key] = sum(fits)
                left &= self._fitting[key]
        return left

    def best_first(self, candidates: list[Candidate], chosen: dict[str, Candidate]) -> list[Candidate]:
        return sorted(candidates, key=lambda candidate: preference(candidate, chosen, self.as_of))

    def _members(self, kind: str, mask: int, chosen: dict[str, Candidate]) -> list[Candidate]:
        """The candidates of a set, the best first."""
        # Of all preferences, only that for a toolkit depends on another choice.
        key = (kind, id(chosen.get("driver")) if kind == "cuda" else None)
        if key not in self._orders:
            ordered = self.best_first(self.candidates[kind], chosen)
            self._orders[key] = [(self._bits[id(candidate)], candidate) for candidate in ordered]
        return [candidate for bit, candidate in self._orders[key] if bit & mask]

    def _groups_of(self, kind: str, other: str) -> list[tuple[int, ...]]:
        """`[(friends, group)]`: all of a kind as groups that fit the same ones of the other kind, their `friends`."""
        if (kind, other) not in self._groups:
            first, second = sorted((kind, other), key=self.kinds.index)
            ones, twos = self._alike(first, second), self._alike(second, first)
            friends_of_ones, friends_of_twos = dict.fromkeys(ones, 0), dict.fromkeys(twos, 0)
            for group, one in ones.items():
                for other_group, two in twos.items():
                    if not self.rules.pair_refuses(one, two):
                        friends_of_ones[group] |= other_group
                        friends_of_twos[other_group] |= group
            self._groups[first, second] = _by_friends(friends_of_ones)
            self._groups[second, first] = _by_friends(friends_of_twos)
        return self._groups[kind, other]

    def _alike(self, kind: str, other: str) -> dict[Any, Candidate]:
        """`{set: one of it}`: the candidates of a kind that the rule for the other kind cannot distinguish."""
        sets: dict[Any, Any] = {}
        for bit, candidate in self._all[kind]:
            key = self.rules.pair_key(candidate, other)
            members, first = sets.get(key, (0, candidate))
            sets[key] = (members | bit, first)
        return dict(sets.values())

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
            found = bool(masks) and self._agree(masks)
            self._answers[key] = self._extend(collections.OrderedDict(), masks) if found else None
        return self._answers[key]

    def has_answer(self, facts: list[Fact]) -> bool:
        """Whether there is any answer, for a single question: only pairs that the facts leave are compared."""
        masks = self._allowed_sets(facts)
        if not masks:
            return False
        left = {kind: [one for bit, one in self._all[kind] if bit & mask] for kind, mask in masks.items()}
        return Problem(self.rules.matrix, left, list(left)).search(facts) is not None

    def _allowed_sets(self, facts: list[Fact]) -> dict[str, int]:
        """`{kind: set}` of what the facts leave, or nothing once they leave none of a kind."""
        masks: dict[str, int] = {}
        for kind in self.kinds_for(facts):
            masks[kind] = self._allowed_set(kind, facts)
            if not masks[kind]:
                return {}
        return masks

    def _agree(self, masks: dict[str, int]) -> bool:
        """Remove from the sets what clashes with all of another kind, until nothing does; False if one is empty."""
        changed = all(masks.values())
        if not changed:
            return False
        while changed:
            changed = False
            for kind, other in self._arcs:
                if kind not in masks or other not in masks:
                    continue
                for friends, group in self._groups_of(kind, other):
                    if group & masks[kind] and not friends & masks[other]:
                        masks[kind] &= ~group
                        changed = True
                if not masks[kind]:
                    return False
        return True

    def hopeless_pair(self, domains: dict[str, list[Candidate]]) -> tuple[str, str] | None:
        """Two kinds of which no candidates fit together, or None. Finding them early saves trying them all."""
        kinds = list(domains)
        for index, kind in enumerate(kinds):
            for other in kinds[index + 1 :]:
                if all(self.pair_refusal(one, two) for one in domains[kind] for two in domains[other]):
                    return kind, other
        return None

    def _extend(self, chosen: dict[str, Candidate], masks: dict[str, int]) -> dict[str, Candidate] | None:
        if len(chosen) == len(masks):
            return chosen
        kind = next(kind for kind in self.kinds if kind in masks and kind not in chosen)
        for candidate in self._members(kind, masks[kind], chosen):
            left = dict(masks, **{kind: self._bits[id(candidate)]})
            if self._agree(left):
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
