"""The search asks the rules about groups of candidates: here each candidate is asked about by itself."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.candidates import KINDS, list_candidates
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.input import kinds_of_gpu
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.question import imagined_host
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.rules import Rules
from gpuwright.gpu.devices import NAMES, describe_device
from test_plan_questions import MATRIX

RULES = Rules(MATRIX)
PAIRS = [pair for pair in itertools.combinations(KINDS, 2) if RULES.relate(*pair)]


def imagined_gpus(device_id: str) -> list[dict[str, Any]]:
    return imagined_host("10de:" + device_id, "rhel 8.8")["gpus"]


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
                expected = same.setdefault(RULES.seen(candidate.kind, other)(candidate), row)
                assert row == expected, f"{family}: {candidate.label} fits other {other} than those of its key"
    assert answers == {True, False}, "a rule that refuses nothing, or everything"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if Rules.seen(kind, "gpu") is not id])
def test_candidates_with_equal_keys_serve_the_same_gpus(kind: str) -> None:
    """The keys of "gpu": no rule about a GPU may look at more than they hold."""
    kinds = {describe_device(device_id)[1:]: device_id for device_id in sorted(NAMES)}
    gpus, strangers = kinds_of_gpu(MATRIX, [gpu for one in kinds.values() for gpu in imagined_gpus(one)])
    assert not strangers
    answers = set()
    for family in MATRIX["os_families"]:
        for gpu in gpus:
            same: dict[object, bool] = {}
            for candidate in list_candidates(MATRIX, {"driver_version": "535.261.03"}, family)[kind]:
                serves = not RULES.gpu_refuses(gpu, candidate)
                expected = same.setdefault(RULES.seen(kind, "gpu")(candidate), serves)
                assert serves == expected, f"{family}, {gpu.name}: {candidate.label} is not like those of its key"
                answers.add(serves)
    assert answers == {True, False}, "a rule that refuses nothing, or everything"
