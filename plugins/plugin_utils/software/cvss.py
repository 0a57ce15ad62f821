# SPDX-License-Identifier: Apache-2.0
"""The word for a vulnerability whose record has only a CVSS vector (https://www.first.org/cvss/v3.1/specification-document)."""

from __future__ import annotations

import math

WEIGHTS = {
    "AV": {"N": 0.85, "A": 0.62, "L": 0.55, "P": 0.2},
    "AC": {"L": 0.77, "H": 0.44},
    "UI": {"N": 0.85, "R": 0.62},
    "C": {"H": 0.56, "L": 0.22, "N": 0.0},
}
# Rights that an attacker needs, without and with another scope.
RIGHTS = {"U": {"N": 0.85, "L": 0.62, "H": 0.27}, "C": {"N": 0.85, "L": 0.68, "H": 0.5}}
LEAST = (("CRITICAL", 9.0), ("HIGH", 7.0), ("MEDIUM", 4.0), ("LOW", 0.0))


def word_of(vector: str) -> str:
    """CRITICAL, HIGH, MEDIUM or LOW for a vector of CVSS 3; "" for any other text."""
    kind, *parts = vector.split("/")
    given = dict(part.partition(":")[::2] for part in parts)
    if kind not in ("CVSS:3.0", "CVSS:3.1"):
        return ""
    try:
        score = _base(given, given["S"])
    except KeyError:
        return ""
    return next(word for word, least in LEAST if score >= least)


def _base(given: dict[str, str], scope: str) -> float:
    """The base score, 0.0 to 10.0. KeyError for a metric that is missing or has another value."""
    loss = 1 - math.prod(1 - WEIGHTS["C"][given[name]] for name in "CIA")
    ease = 8.22 * RIGHTS[scope][given["PR"]] * math.prod(WEIGHTS[name][given[name]] for name in ("AV", "AC", "UI"))
    impact = 6.42 * loss if scope == "U" else 7.52 * (loss - 0.029) - 3.25 * (loss - 0.02) ** 15
    if impact <= 0:
        return 0.0
    # Up to one decimal, as the specification rounds; of whole numbers, since 8.6 + 0.4 is not quite 9.
    score = round(min((impact + ease) * (1.08 if scope == "C" else 1.0), 10.0) * 100_000)
    return math.ceil(score / 10_000) / 10
