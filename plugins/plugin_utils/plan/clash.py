# SPDX-License-Identifier: Apache-2.0
"""Say why a question has no answer, and which answers are close."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import is_version, major, version_key

from .candidates import AT_LEAST, ON_DEMAND, PINS, Candidate, Fact, as_sentence, has_ended
from .search import Problem

MOST_CHOICES = 3
MOST_REASONS = 3


def conflict(what: str, clash: Sequence[str] = (), choices: Sequence[dict[str, str]] = ()) -> dict[str, Any]:
    """One entry of `conflicts`.

    what     sentences that say why it does not work
    clash    the facts that contradict each other, as text
    choices  up to three changes, each `{pin: value}`; "" means to leave the pin empty. `variables` are the same, as
             they are written in an inventory
    """
    variables = [{PINS[pin]: value for pin, value in choice.items()} for choice in choices]
    # A fault that is no clash of pins has an `id` of its own (docs/faults.md), and says in `next` what helps.
    return {"what": what, "clash": list(clash), "choices": list(choices), "variables": variables}


def with_choice(entry: dict[str, Any], choice: dict[str, str]) -> dict[str, Any]:
    """The same conflict with an additional choice, the last of at most three."""
    return conflict(entry["what"], entry["clash"], entry["choices"][: MOST_CHOICES - 1] + [choice])


def find_conflicts(problem: Problem, facts: list[Fact]) -> list[dict[str, Any]]:
    """Every independent clash among `facts`, for which `problem` has no answer."""
    clashes = []
    left = list(facts)
    while problem.search(left) is None:
        clash = problem.smallest_clash(left)
        clashes.append(clash)
        # Without its pins the rest may still clash elsewhere; a clash without pins ends the search.
        if not _pins(clash):
            break
        left = [fact for fact in left if fact not in _pins(clash)]
    choices = [_choices(problem, facts, clashes[0])] if len(clashes) == 1 else _joint_choices(problem, facts, clashes)
    return [
        conflict(_explain(problem, clash, facts), [fact.label for fact in clash], choices[index])
        for index, clash in enumerate(clashes)
    ]


def _pins(facts: list[Fact]) -> list[Fact]:
    return [fact for fact in facts if fact.kind == "pin"]


def _explain(problem: Problem, clash: list[Fact], facts: list[Fact]) -> str:
    reasons = _reasons(problem, clash, facts)
    return ". ".join(as_sentence(reason) for reason in reasons[:MOST_REASONS]) + "."


def _reasons(problem: Problem, clash: list[Fact], facts: list[Fact]) -> list[str]:
    """Sentences, the most informative first, and about what `facts` ask for, also by pins that are not to blame."""
    refusals = collections.OrderedDict()
    domains = collections.OrderedDict()
    for kind in problem.kinds_for(clash):
        pinned = _asked_first(problem, facts, problem.pinned(kind, clash))
        if not pinned:
            return [_pins_disagree(problem, kind, clash)]
        refusals[kind] = _first_refusals(problem, pinned, clash)
        domains[kind] = problem.allowed(kind, clash)
        if not domains[kind]:
            return refusals[kind]
    pair = problem.hopeless_pair(domains)
    if pair is None:
        found = _reasons_of_three(problem, domains) or _reasons_of_pins(problem, domains, clash)
        found += [reason for kind in refusals for reason in refusals[kind][:1]]
        return found or ["these do not fit together"]
    first, second = (_asked_first(problem, facts, domains[kind]) for kind in pair)
    # Candidates of one CUDA if there are any: a difference in CUDA explains least. But what was asked for is explained.
    asked = {id(one) for one in problem.pinned(first[0].kind, facts)}
    own = [one for one in first if id(one) in asked] or first
    alike = [one for one in own if _cuda_major(one) == _cuda_major(second[0])]
    return [problem.pair_refusal((alike or own)[0], second[0])] + refusals[pair[0]][:1] + refusals[pair[1]][:1]


def _asked_first(problem: Problem, facts: list[Fact], candidates: list[Candidate]) -> list[Candidate]:
    """The candidates of one kind, the best first, but before all those that every pin of the question leaves."""
    if not candidates:
        return []
    asked = {id(one) for one in problem.pinned(candidates[0].kind, facts)}
    return sorted(problem.best_first(candidates), key=lambda one: id(one) not in asked)


def _cuda_major(candidate: Candidate) -> str:
    """The CUDA that a candidate brings, "" for none."""
    inside = candidate.row.get("cuda", "")
    return major(inside) if inside else ""


def _reasons_of_three(problem: Problem, domains: dict[str, list[Candidate]]) -> list[str]:
    """If any two kinds fit together: a kind of which each candidate is ruled out by some other kind."""
    for kind in reversed(list(domains)):
        reasons: dict[str, Any] = {}
        refused = True
        for candidate in problem.best_first(domains[kind]):
            others = (other for other in domains if problem.rules_out(other, domains[other], candidate))
            by = next(others, None)
            refused = refused and by is not None
            if by is not None and by not in reasons:
                reasons[by] = problem.pair_refusal(candidate, problem.best_first(domains[by])[0])
        if refused:
            return list(reasons.values())
    return []


def _reasons_of_pins(problem: Problem, domains: dict[str, list[Candidate]], clash: list[Fact]) -> list[str]:
    """Why the best candidates of the pinned parts do not fit together."""
    pinned = {fact.name for fact in _pins(clash)}
    best = [
        problem.best_first(domains[kind])[0]
        for kind in domains
        if pinned.intersection(problem.candidates[kind][0].pins)
    ]
    found = [problem.pair_refusal(one, two) for index, one in enumerate(best) for two in best[index + 1 :]]
    return [reason for reason in found if reason]


def _first_refusals(problem: Problem, candidates: list[Candidate], clash: list[Fact]) -> list[str]:
    """For each GPU and for the operating system, its reason against the best candidate that it rules out.

    And against the best one that it rules out for a different reason.
    """
    found: list[str] = []
    for fact in clash:
        if fact.kind != "pin":
            ways: dict[tuple[str, ...], str] = {}
            for candidate in candidates:
                reason = problem.refusal(fact, candidate)
                verb = reason.partition(candidate.label)[2].split(" ")[1:2]
                if reason:
                    ways.setdefault(tuple(verb), reason)
            found += ways.values()
    return found


def _pins_disagree(problem: Problem, kind: str, clash: list[Fact]) -> str:
    """Two pins of one kind that no row of the matrix unites, such as driver 620 and its proprietary module."""
    pins = [fact for fact in clash if fact.kind == "pin" and fact.name in problem.candidates[kind][0].pins]
    alone = [problem.pinned(kind, [fact for fact in pins if fact is not left]) for left in pins]
    known = [
        candidate.label
        for candidate in problem.candidates[kind]
        if any(candidate is other for group in alone for other in group)
    ]
    wanted = " with ".join(fact.label for fact in pins)
    return f"there is no {wanted}; there is {', '.join(known[:6]) or 'none for either pin alone'}"


def _choices(problem: Problem, facts: list[Fact], clash: list[Fact]) -> list[dict[str, str]]:
    """What resolves the only clash: one pin changed, everything else kept."""
    found: list[dict[str, str]] = []
    for fact in _pins(clash):
        rest = [other for other in facts if other is not fact]
        for answer in (problem.search(rest + _any_of(fact)), _closest(problem, rest, fact), problem.search(rest)):
            choice = {fact.name: value_in(answer, fact.name)} if answer else {}
            if choice and choice not in found and (choice[fact.name] or not (found or _is_held(fact))):
                found.append(choice)
    return found[:MOST_CHOICES] or _joint_choices(problem, facts, [clash])[0]


def _is_held(fact: Fact) -> bool:
    """Whether a pin is the profile's: an empty variable would not change it."""
    return fact.origin.startswith("the profile")


def _any_of(fact: Fact) -> list[Fact]:
    """The pin of an optional part, for any version of it; nothing for other pins, whose part always exists."""
    return [fact._replace(value=AT_LEAST + "0")] if fact.name in ON_DEMAND else []


def _joint_choices(problem: Problem, facts: list[Fact], clashes: list[list[Fact]]) -> list[list[Any]]:
    """One choice for each of several clashes, such that all of them together lead to a plan."""
    blamed = [fact for fact in facts if any(fact in _pins(clash) for clash in clashes)]
    kept = [fact for fact in facts if fact not in blamed]
    # As many pins as possible stay: first come, first kept.
    for fact in blamed:
        if problem.search(kept + [fact]) is not None:
            kept.append(fact)
    for fact in blamed:
        loose = _any_of(fact) if fact not in kept else []
        if loose and problem.search(kept + loose) is not None:
            kept += loose
    answer = problem.search(kept)
    if answer is None:
        return [[] for _clash in clashes]
    changed = [[fact.name for fact in _pins(clash) if fact not in kept] for clash in clashes]
    held = {fact.name for fact in facts if _is_held(fact)}
    choices = [{name: value_in(answer, name) for name in names} for names in changed]
    return [[] if any(not choice[name] for name in held & set(choice)) else [choice] for choice in choices]


def _closest(problem: Problem, rest: list[Fact], fact: Fact) -> dict[str, Candidate] | None:
    """The answer whose value is closest to what was pinned, among those that are maintained and verified; or None.

    The best answer may be far away: somebody who asks for PyTorch 2.15 may prefer 2.14 from another index to 2.10.
    """
    if not is_version(fact.value):
        return None
    values = {
        candidate.pins[fact.name]
        for group in problem.candidates.values()
        for candidate in group
        if candidate.pins.get(fact.name)
        and fact.name not in candidate.needs
        and candidate.row["verified"]
        and not ("eol" in candidate.row and has_ended(candidate.row, problem.as_of))
    }
    order = sorted(values | {fact.value}, key=version_key)
    here = order.index(fact.value)
    for value in sorted(order, key=lambda value: abs(order.index(value) - here)):
        answer = problem.search(rest + [fact._replace(value=value)]) if value != fact.value else None
        if answer is not None:
            return answer
    return None


def value_in(answer: dict[str, Candidate], pin: str) -> str:
    """The value that a pin would need for this answer; "" if the plan does not have that part."""
    for candidate in answer.values():
        if pin in candidate.pins:
            return candidate.row["version"] if pin in ("cudnn", "nccl") else candidate.pins[pin]
    return ""


def host_title(host: dict[str, Any]) -> str:
    """The name of a host in messages: "a5-01 (rhel 8.8, Tesla V100-PCIE-16GB)"."""
    names = sorted({gpu["name"] for gpu in host["gpus"]}) or ["no NVIDIA GPU"]
    system = "{id} {version}".format(**host["os"])
    return f"{host.get('hostname') or 'this host'} ({', '.join([system] + names)})"


def _as_inventory(choice: dict[str, str]) -> str:
    return ", ".join(f'{PINS[pin]}: "{value}"' for pin, value in choice.items())


def conflict_message(
    host: dict[str, Any],
    conflicts: list[dict[str, Any]],
    together: dict[str, str] | None = None,
    remarks: Sequence[str] = (),
) -> str:
    """The message for people: every conflict with its choices, and how to write them into the inventory.

    together  `{pin: value}` that leads to a plan at once (plan.one_way_out); given if there are several conflicts
    remarks   what else is to be told, each on a line of its own
    """
    lines = [f"No plan fits {host_title(host)}. Nothing was changed. [plan.conflict]"]
    if len(conflicts) > 1:
        lines.append(f"{len(conflicts)} conflicts prevent a plan; each needs one of its choices.")
    for number, entry in enumerate(conflicts, 1):
        lines.append("")
        lines.append(" ".join(filter(None, (f"{number}. {entry['what']}", entry.get("next")))))
        if "id" in entry:
            lines[-1] += f" [{entry['id']}]"
        if len(entry["clash"]) > 1:
            lines.append(f"   What clashes: {' + '.join(entry['clash'])}")
        if entry["choices"]:
            how = "set it" if len(entry["choices"]) == 1 else "set one of these"
            lines.append(f"   What fits ({how} in the inventory):")
        for choice in entry["choices"]:
            lines.append("     " + _as_inventory(choice))
    if together and len(conflicts) > 1:
        lines += ["", "All of these together lead to a plan: " + _as_inventory(together)]
    return "\n".join([*lines, *remarks])
