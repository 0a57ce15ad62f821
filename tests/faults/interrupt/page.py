"""The second part of docs/faults.md: what was interrupted where, by what, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable

from interrupt import record
from interrupt.choice import may_strike
from interrupt.faults import FAULTS
from interrupt.holes import HOLES, result_of
from interrupt.results import Result, read
from interrupt.steps import STEPS

HEAD = """
## Interruptions and their repair

Each pair is one fault at one point of one command. A host of the test fleet is set back to the snapshot on which the
command begins, the command is run until the point, where the fault strikes; the fault passes, and **the same command is
run again, with nothing done in between**. It has to end with status 0 and leave the host as an undisturbed run leaves
it: packages with versions, files with mode, owner and content, units and which of them run, links, holds, module
streams, users, keys, repositories, kernel arguments, half-made folders, locks.

`make interruptions` tries three pairs that the commit's id chooses, as `.ci/run` does when it is their turn, and `make
faults` ten. Whoever releases tries all with `make interrupt-all`, whose results this page shows: each holds for the
commit beside it, and none is renewed in between. `make interrupt POINT=... FAULT=... SEED=...` repeats one. The hosts
are containers ([tests/fleet/README.md](../tests/fleet/README.md)); for a power cut their root is a file system of its
own, which loses what was not yet written to it.
"""

HOLES_HEAD = """
## Holes that were found by reading

An interruption at these moments cost earlier versions something. Each is tried by name, before all others.

| what could be lost | point | fault | left behind |
|---|---|---|---|
"""

FAULTS_HEAD = """
## How each fault is made

| fault | how |
|---|---|
"""

WORD = {"equal": "equal", "differs": "**differs**", "failed": "**failed**", "unnoticed": "**did not strike**"}


def counted(results: list[Result]) -> str:
    equal = sum(each.outcome == "equal" for each in results)
    kinds = {(step.name, fault.name) for step in STEPS if step.inside for fault in FAULTS if may_strike(step, fault)}
    met = kinds & {(each.point.partition(": ")[0], each.fault) for each in results}
    return (
        f"\n{len(results)} pairs have been tried: {equal} ended equal, {len(results) - equal} did not. "
        f"Steps with a task that takes long have met {len(met)} of the {len(kinds)} faults that can strike them.\n"
    )


def matrix(results: list[Result]) -> str:
    """Faults by step: how many pairs ended equal, of how many."""
    lines = ["\n## Faults and steps\n", "Pairs that ended equal, of those that were tried; - where it cannot strike.\n"]
    lines += [f"| fault | {' | '.join(step.name for step in STEPS)} |", "|---" * (len(STEPS) + 1) + "|"]
    for fault in FAULTS:
        cells = []
        for step in STEPS:
            found = [each for each in results if each.fault == fault.name and each.point.startswith(step.name + ": ")]
            equal = sum(each.outcome == "equal" for each in found)
            cells.append(f"{equal}/{len(found)}" if found else "" if may_strike(step, fault) else "-")
        lines.append(f"| {fault.name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def named(results: list[Result]) -> str:
    lines = []
    for hole in HOLES:
        found = result_of(hole, results)
        cells = (hole.what, found.point if found else f"{hole.step}: {hole.place}...", hole.fault)
        lines.append(f"| {' | '.join(cells)} | {WORD[found.outcome] if found else 'none yet'} |\n")
    return HOLES_HEAD + "".join(lines)


def listed(results: list[Result]) -> str:
    head = "| point | fault | interrupted run | plain run | left behind | seed | commit |"
    lines = ["\n## Every pair\n", "Of both runs the exit status, negative where a signal ended it.\n", head]
    lines.append("|---" * 7 + "|")
    for each in results:
        cells = (each.point, each.fault, each.interrupted, each.again, WORD[each.outcome], each.seed, each.commit)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    wrong = [each for each in results if each.outcome != "equal"]
    for each in wrong:
        lines += [f"\n{each.fault}, {each.point}:\n", *(f"* `{line}`" for line in each.differences)]
    return "\n".join(lines) + "\n"


def reasons() -> str:
    lines = ["\n## What may differ, and why\n"]
    lines += [
        f"* {why}{'' if what == 'all' else '; kind, mode and owner are compared'}" for _, what, why in record.LAWFUL
    ]
    lines += [f"* unit `{unit}`: {why}" for unit, why in record.LAWFUL_UNITS.items()]
    lines += [f"* unit `{unit}`, exited with success: {why}" for unit, why in record.DONE_AT_BOOT.items()]
    lines += ["* a kernel module's signature: it is made with the key above"]
    lines += ["* in /etc/shadow, the day on which a password was last set or locked"]
    return "\n".join(lines) + "\n"


def page(results: Iterable[Result]) -> str:
    rows = list(results)
    how = FAULTS_HEAD + "".join(f"| {fault.name} | {fault.how} |\n" for fault in FAULTS)
    return HEAD + counted(rows) + matrix(rows) + named(rows) + how + listed(rows) + reasons()


def text() -> str:
    """The page as it has to be now."""
    return page(read())
