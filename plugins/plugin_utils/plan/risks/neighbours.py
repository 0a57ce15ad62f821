# SPDX-License-Identifier: Apache-2.0
"""What was next to each choice and was not taken, and why: one sentence for each part of a plan."""

from __future__ import annotations

from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import version_key

from ..candidates import Candidate, Fact, has_ended, short_support
from ..search import Problem

KINDS = ("driver", "cuda", "cudnn", "python", "pytorch")
# A pinned part has no neighbours: somebody else chose it.
LASTING = ("lts", "production")


def release_of(candidate: Candidate) -> tuple[int, ...]:
    """The version that decides which is newer."""
    pin = "driver_branch" if candidate.kind == "driver" else candidate.kind
    return version_key(candidate.pins[pin])


def why_not(problem: Problem, facts: list[Fact], answer: dict[str, Candidate], better: Candidate) -> str:
    """Why a candidate that would have been preferred was not chosen: it does not fit a fact, or another choice."""
    refusals = [problem.refusal(fact, better) for fact in facts if fact.kind != "pin"]
    refusals += [problem.pair_refusal(better, other) for kind, other in answer.items() if kind != better.kind]
    return next((refusal for refusal in refusals if refusal), "")


def why_later(newest: Candidate, as_of: str, margin: int) -> str:
    """Why something newer that also fits was not preferred."""
    row = newest.row
    if "eol" in row and has_ended(row, as_of):
        return f"{newest.label} is newer, but past its end of life"
    if newest.kind == "driver" and short_support(row, as_of, margin):
        return f"{newest.label} is newer, but {short_support(row, as_of, margin)}"
    if row.get("index", "pypi") != "pypi":
        return f"{newest.label} is newer, but PyPI does not serve it"
    if not row["verified"]:
        return f"{newest.label} is newer, but this was not verified: {row['unverified']}"
    return ""


def neighbours(problem: Problem, facts: list[Fact], answer: dict[str, Candidate]) -> dict[str, str]:
    """`{part: sentence}`: the next newer release and why it was not taken; for a driver, else the next older one."""
    pinned = {fact.name for fact in facts if fact.kind == "pin"}
    found = {}
    for kind in (kind for kind in KINDS if kind in answer and not pinned & set(answer[kind].pins)):
        chosen = release_of(answer[kind])
        others = problem.best_first(problem.pinned(kind, facts), answer)
        newer = sorted((one for one in others if release_of(one) > chosen), key=release_of)
        said = ""
        if newer:
            # The first in the order of preference stands for its release.
            nearest = next(one for one in others if release_of(one) == release_of(newer[0]))
            said = why_not(problem, facts, answer, nearest) or why_later(nearest, problem.as_of, problem.margin)
        elif kind == "driver":
            said = _older(others, chosen, problem)
        if said:
            found[kind] = said
    return found


def _older(others: list[Candidate], chosen: tuple[int, ...], problem: Problem) -> str:
    older = [one for one in others if release_of(one) < chosen and one.row["status"] in LASTING]
    if not older:
        return ""
    nearest = max(older, key=release_of)
    if has_ended(nearest.row, problem.as_of):
        return f"{nearest.label} is past its end of life"
    short = short_support(nearest.row, problem.as_of, problem.margin)
    return f"{nearest.label} {short or 'is older, and has updates until ' + nearest.row['eol']}"
