# SPDX-License-Identifier: Apache-2.0
"""How the ranks that run at this moment are placed."""

from typing import Any, Set

from ...launch.running.processes import set_of
from ...launch.running.rule import FAR_MIB, FAR_SHARE, RunningRank, findings
from ...verdict.check import STANDARD, WARN, Check, Outcome, passed, skipped, warned
from ...verdict.evidence import Evidence, Unreadable
from ...verdict.reader import Reader, Seen
from ...verdict.reading_sources import by_hand


def placement(readings: Evidence, expected: Evidence) -> Outcome:
    """No two running ranks share CPUs or a GPU, none has more OpenMP threads than cores, is bound away from its GPU, or
    has much of its memory on a far NUMA node."""
    ranks = [_rank(row) for row in readings.each("ranks")]
    if not ranks:
        return skipped("no-rank", "no rank is running, and nothing computes on a GPU")
    wrong = findings(ranks)
    if wrong:
        return warned("wrong-place", len(wrong), 0, "; ".join(wrong))
    return passed(0, 0, f"{len(ranks)} running rank(s) do not interfere with each other")


def _rank(row: Evidence) -> RunningRank:
    return RunningRank(
        pid=row.number("pid"),
        name=row.text("name"),
        cpus=_cpus(row, "cpus"),
        cores=_cpus(row, "cores"),
        threads=row.number("threads"),
        cards=[card.pci_id() for card in row.each("cards")],
        near=_cpus(row, "near"),
        memory_mib=row.number("memory_mib"),
        far_mib=row.number("far_mib"),
    )


def _cpus(row: Evidence, name: str) -> Set[int]:
    try:
        return set_of(row.text(name))
    except ValueError as error:
        raise Unreadable(f"{row.name}.{name} is not a list of CPUs: {error}", f"{row.name}.{name}")


def _read_ranks(seen: Seen) -> Any:
    from .ranks_reading import read_running

    return read_running(seen.root, seen.nvidia_smi)


READ_RANKS = Reader(
    name="ranks",
    level=STANDARD,
    read=_read_ranks,
    source=by_hand("/proc and who computes on which GPU", "gpu-run --check ; nvidia-smi"),
    scanned=False,
)

CHECKS = (
    Check(
        id="runtime.ranks",
        layer="system",
        level=STANDARD,
        severity=WARN,
        question="Are the running ranks placed so that they do not interfere with each other?",
        judge=placement,
        unit="findings",
        action="Start each rank with gpu-run: gpu-run -- torchrun --nproc-per-node=8 --no-python gpu-run -- python "
        "train.py ; gpu-run --check lists the ranks",
        source=f"own: {FAR_SHARE:.0%} and {FAR_MIB} MiB of far memory",
        readers=(READ_RANKS,),
    ),
)
