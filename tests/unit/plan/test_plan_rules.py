"""The search asks the rules about groups of candidates: here each candidate is asked about by itself."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.candidates import KINDS, list_candidates
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.rules import Rules
from test_plan_questions import MATRIX

RULES = Rules(MATRIX)
PAIRS = [pair for pair in itertools.combinations(KINDS, 2) if RULES.relate(*pair)]


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_candidates_with_equal_keys_fit_the_same_others(pair: tuple[str, str]) -> None:
    first, second = pair
    answers = set()
    for family in MATRIX["os_families"]:
        candidates = list_candidates(MATRIX, {"driver_version": "535.261.03"}, family)
        ones, twos = candidates[first], candidates[second]
        fits = [[not RULES.pair_refuses(one, two) for two in twos] for one in ones]
        answers |= {answer for row in fits for answer in row}
        for members, other, rows in (
            (ones, second, fits),
            (twos, first, [list(column) for column in zip(*fits, strict=True)]),
        ):
            same: dict[object, list[bool]] = {}
            for candidate, row in zip(members, rows, strict=True):
                expected = same.setdefault(RULES.pair_key(candidate, other), row)
                assert row == expected, f"{family}: {candidate.label} fits other {other} than those of its key"
    assert answers == {True, False}, "a rule that refuses nothing, or everything"
