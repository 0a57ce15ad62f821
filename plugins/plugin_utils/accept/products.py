# SPDX-License-Identifier: Apache-2.0
"""The same product on all cards, and on the same card on earlier days: whose bits differ.

Products of the same inputs have the same bits on cards of one model with the same libraries. A card that computes
something else is named by the others; where too few of them are known, by what it computed itself before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from ansible_collections.gpuwright.node.plugins.module_utils.verdict.check import FAIL, WARN

# Two others agree by chance as little as one, and two of three name the third.
LEAST_AGREEING = 2


class Product(NamedTuple):
    """What one card computed: `kind` is what cards must have in common, `bits` a digest for each format, `at` when."""

    kind: str
    bits: Mapping[str, str]
    at: str = ""


def product_of(record: Mapping[str, Any], device: Mapping[str, Any], at: str = "") -> Product | None:
    """The product in a burn-in's record of one device; None if it has none, as those of earlier releases."""
    told = device.get("products")
    told = told if isinstance(told, dict) else {}
    bits = told.get("bits")
    if not isinstance(bits, dict) or not bits:
        return None
    parts = (device.get("name"), told.get("of"), f"torch {record.get('torch')}", f"CUDA {record.get('cuda')}")
    return Product(", ".join(map(str, parts)), {str(name): str(word) for name, word in bits.items()}, at)


def unlike(
    card: str, own: Product, others: Mapping[str, Product], before: Product | None, same_node: Collection[str]
) -> list[tuple[str, str]]:
    """[(FAIL or WARN, text)] where the product of `card` is not what it should be.

    others     products of other cards, by card; those of another kind do not count
    before     what the card itself computed earlier, and was right
    same_node  cards of the same node: where two of them differ, the node is bad whichever of them it is
    """
    alike = {name: one for name, one in others.items() if one.kind == own.kind and name != card}
    found = []
    for name, bits in sorted(own.bits.items()):
        told = {other: one.bits[name] for other, one in alike.items() if name in one.bits}
        earlier = before.bits.get(name) if before and before.kind == own.kind else None
        right, number = (Counter(told.values()).most_common(1) or [("", 0)])[0]
        if number >= LEAST_AGREEING and 2 * number > len(told):
            if bits != right:
                text = f"its product in {name} differs in its bits from that of {number} of {len(told)} other cards"
                found.append((FAIL, f"{text} ({bits}, they have {right})"))
        elif earlier and earlier != bits:
            text = f"its product in {name} differs in its bits from its own of {before.at if before else ''}"
            found.append((FAIL, f"{text} ({bits}, then {earlier})"))
        elif told and bits not in told.values():
            other = next((one for one in told if one in same_node), min(told))
            text = f"its product in {name} differs in its bits from that of {other}, and it is not known which is wrong"
            found.append((FAIL if other in same_node else WARN, f"{text} ({bits}, {told[other]})"))
    return found
