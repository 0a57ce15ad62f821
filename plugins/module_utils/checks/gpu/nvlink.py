# SPDX-License-Identifier: Apache-2.0
"""Checks of the connections between cards: NVLink, and the path between two GPUs."""

from typing import List, Optional

from ...gpu.cards import card_of
from ...readings.links import read_nvlink, read_ways
from ...verdict.by_hand import MACHINE, Hand
from ...verdict.check import (
    FAIL,
    POWER_CYCLE,
    STANDARD,
    WARN,
    Check,
    Outcome,
    failed,
    passed,
    skipped,
    unknown,
    unnamed,
    warned,
)
from ...verdict.evidence import Evidence
from ...verdict.reader import Reader
from ...verdict.reading_sources import by_hand
from ...verdict.report import Record

NO_WAY = "X"


def nvlink(readings: Evidence, expected: Evidence) -> Outcome:
    """Every NVLink of a card is up; cards on boards must have them, and a card without its bridge is not judged.

    On boards without switches, some links lead to GPUs that a virtual machine was not given: a warning there.
    """
    if readings.absent("nvlink"):
        return skipped("no-nvlink", "no card of this node has NVLink")
    bad, odd, without, silent, value = [], [], [], [], []
    for card in readings.each("nvlink"):
        links, active = card.number("links"), card.number("active")
        words = f"GPU {card.number('index')} ({card.text('name')}): {active} of {links} links are up"
        value.append(active)
        if "mig" in card.names() and not active:
            said = card.wish("mig") or "no link is up"
            silent.append(f"GPU {card.number('index')} is in MIG mode, which has no NVLink between cards: {said}")
            continue
        if active == links and links:
            continue
        if not active and not card.flag("wired"):
            without.append(words)
        elif active and card_of(card.text("name")).direct_links:
            odd.append(words)
        else:
            bad.append(words)
    if not value:
        return unknown("not-listed", "nvidia-smi nvlink -s lists no card", items=unnamed(expected.number("gpu_count")))
    if bad:
        return failed("down", min(value), "all", "; ".join(bad))
    if odd:
        return warned("partly-down", min(value), "all", "; ".join(odd))
    if silent:
        return skipped("not-reported", "; ".join(silent))
    if without:
        return skipped("no-bridge", f"no bridge: {'; '.join(without)}")
    return passed(min(value), "all", f"{len(value)} cards, all links are up")


def nvlink_errors(readings: Evidence, expected: Evidence) -> Outcome:
    """No NVLink had an error since the driver was loaded."""
    if readings.absent("nvlink"):
        return skipped("no-nvlink", "no card of this node has NVLink")
    cards = [card for card in readings.each("nvlink") if card.number("active")]
    if not cards:
        return skipped("none-up", "no NVLink is up")
    bad, counted = [], 0
    for card in cards:
        kinds = card.names("errors")
        numbers = {kind: card.number("errors", kind) for kind in kinds}
        counted += bool(kinds)
        bad += [f"GPU {card.number('index')}: {numbers[kind]} {kind}" for kind in kinds if numbers[kind]]
    slices = [card for card in cards if "mig" in card.names()]
    if counted < len(cards) and len(slices) == len(cards):
        return skipped("in-mig-mode", "nvidia-smi does not count them in MIG mode")
    if counted < len(cards):
        return unknown("not-reported", f"nvidia-smi nvlink -e says nothing about {len(cards) - counted} cards")
    if bad:
        return warned("errors", len(bad), 0, f"errors since the driver was loaded: {'; '.join(bad)}")
    return passed(0, 0, f"no error on {len(cards)} cards")


def topology(readings: Evidence, expected: Evidence) -> Outcome:
    """nvidia-smi knows a path from every GPU to every other one."""
    if readings.absent("gpu_ways"):
        return skipped("one-gpu", "there is one GPU")
    rows = [[word.text() for word in row.each()] for row in readings.each("gpu_ways")]
    wanted = expected.number("gpu_count")
    if len(rows) != wanted:
        return failed(
            "too-few",
            len(rows),
            wanted,
            f"nvidia-smi topo -m shows {len(rows)} of {wanted} GPUs",
            items=unnamed(wanted - len(rows)),
        )
    pairs = [(here, there) for here in range(len(rows)) for there in range(len(rows[here])) if here != there]
    lost = ["GPU{} to GPU{}".format(*pair) for pair in pairs if rows[pair[0]][pair[1]] == NO_WAY]
    if lost:
        return failed("no-path", "none", "a path", f"no path from {', '.join(lost)}")
    ways = ", ".join(sorted({rows[here][there] for here, there in pairs}))
    return passed(ways, "a path", f"{len(rows)} GPUs, connected by {ways}")


def mig_indexes(nvidia_smi: Optional[Record]) -> List[int]:
    """Indexes, as nvidia-smi counts, of the cards in MIG mode."""
    gpus = (nvidia_smi or {}).get("gpus") or []
    return [index for index, gpu in enumerate(gpus) if gpu.get("mig_mode") == "Enabled"]


READ_NVLINK = Reader(
    name="nvlink",
    level=STANDARD,
    read=lambda seen: read_nvlink(seen.cards(), mig_indexes(seen.nvidia_smi)),
    source=by_hand("nvidia-smi nvlink -s", "nvidia-smi nvlink -s ; nvidia-smi nvlink -e"),
)
READ_GPU_WAYS = Reader(
    name="gpu_ways",
    level=STANDARD,
    read=lambda seen: read_ways(seen.cards()),
    source=by_hand("nvidia-smi topo -m"),
)

CHECKS = (
    Check(
        id="gpu.nvlink",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=POWER_CYCLE,
        question="Are all links between the GPUs up?",
        judge=nvlink,
        unit="links",
        action=(
            "Look at nvidia-smi nvlink -s and journalctl -k --grep -i nvlink ; power off and reseat bridge or board."
        ),
        source="sichek, aznhc, gpud: any inactive link fails",
        readers=(READ_NVLINK,),
    ),
    Check(
        id="gpu.nvlink_errors",
        layer="system",
        level=STANDARD,
        severity=WARN,
        question="Do the links between the GPUs work without errors?",
        judge=nvlink_errors,
        unit="errors",
        action="Watch it: nvidia-smi nvlink -e ; reseat the bridge or the board if the numbers grow.",
        source="DCGM: 1 replay or recovery; AWS warns above 0",
        readers=(READ_NVLINK,),
    ),
    Check(
        id="gpu.topology",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=POWER_CYCLE,
        question="Is there a path from every GPU to every other one?",
        judge=topology,
        action="Look at nvidia-smi topo -m and lspci -tv ; power off and reseat the GPUs that it does not connect.",
        source="AWS checks/3-topology-check.sh",
        readers=(READ_GPU_WAYS,),
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "gpu.nvlink": Hand(MACHINE, "nvidia-smi nvlink -s shows every link with its speed"),
    "gpu.nvlink_errors": Hand(MACHINE, "nvidia-smi nvlink -e shows counters that do not grow under load"),
    "gpu.topology": Hand(MACHINE, "nvidia-smi topo -m shows the paths that the server's manual describes"),
}
