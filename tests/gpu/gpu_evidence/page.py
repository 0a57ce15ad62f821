"""The page, from the results alone: what was promised, what each part found, and why one did not run."""

from __future__ import annotations

from typing import Any

from .drawing import file_name
from .goals import GOALS
from .parts import PARTS

MOST_ROWS, KEPT_ROWS, KEPT_LETTERS = 60, 20, 140
NOT_YET = "not yet"
HEAD = """# Evidence from a GPU

Written by `tests/gpu/evidence` (`make gpu-evidence`) and `tools/gpu_page.py`; do not edit. One run of at most nine
minutes measures on one machine what this project promises about GPUs.
"""
NOTHING_YET = """
**There is no run on a physical GPU yet.** What stands below is what a run will fill in. Until then every statement of
this project about a GPU's speed comes from others' published figures, and cards, drivers and `nvidia-smi` in the tests
are simulated ([what is simulated](../../tests/fleet/README.md)). The program itself was tried to its end on machines
without a GPU, where its parts run as trials of their code on the CPU, and with made-up cards.
"""


def cell(value: Any) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")


def table(head: list[str], rows: list[list[Any]]) -> list[str]:
    lines = [f"| {' | '.join(map(cell, head))} |", f"|{'---|' * len(head)}"]
    return lines + [f"| {' | '.join(map(cell, row))} |" for row in rows[:MOST_ROWS]]


def page(results: dict[str, Any] | None) -> str:
    """Markdown; None where there has been no run."""
    if results is None:
        parts = [[part.title, f"`{part.name}`", NOT_YET] for part in PARTS]
        goals = [
            [goal.text, f"{'at most' if goal.at_most else 'at least'} {goal.limit:g} {goal.unit}", NOT_YET]
            for goal in GOALS
        ]
        lines = [HEAD, NOTHING_YET, "## What is promised\n", *table(["what", "goal", "measured"], goals)]
        return "\n".join([*lines, "\n## What is run\n", *table(["part", "name", "result"], parts), ""])
    lines = [HEAD, summary(results), "## What is promised\n", *goal_lines(results), "\n## What was run\n"]
    rows = [
        [part["title"], part["status"], f"{part['seconds']:.0f} of {part['share']:.0f}", part["why"]]
        for part in results["parts"]
    ]
    lines += table(["part", "", "seconds", "why"], rows)
    for part in results["parts"]:
        lines += section(part)
    return "\n".join(lines) + "\n"


def summary(results: dict[str, Any]) -> str:
    words = [
        f"{results['time']}, commit {results['commit']}, {results['took']:.0f} s of {results['minutes']:g} minutes."
    ]
    if results["stopped"]:
        words.append(f"**It was stopped by {results['stopped']}**: what follows is what it had until then.")
    if results["trial"]:
        words.append(
            "**No GPU was used**: parts that ran are trials of their code on the CPU and say nothing about a GPU."
        )
    words += [f"**{problem}**" for problem in results["problems"]]
    return "\n" + "\n".join(words) + "\n"


def goal_lines(results: dict[str, Any]) -> list[str]:
    rows = []
    for goal in results["goals"]:
        between = "" if goal["low"] is None else f"{goal['measured']:.3g} ({goal['low']:.3g} to {goal['high']:.3g})"
        rows.append([goal["text"], goal["goal"], between or "-", goal["verdict"], goal["why"]])
    return table(["what", "goal", "measured", "verdict", "of what, or why not"], rows)


def section(part: dict[str, Any]) -> list[str]:
    found = part.get("found") or {}
    lines = [f"\n## {part['title']}\n"]
    if part["why"]:
        lines.append(f"{part['status'].capitalize()}: {cell(part['why'])}\n")
    if part["trial"]:
        lines.append("A trial on the CPU at small size: its figures say nothing about a GPU.\n")
    lines += [f"* {cell(line)}" for line in found.get("lines", [])]
    for one in found.get("tables", []):
        lines.append(f"\n**{cell(one['title'])}**\n")
        lines += table(one["head"], one["rows"]) if one["rows"] else ["none"]
    for plot in found.get("bars", []):
        if plot["rows"]:
            lines.append(f"\n![{cell(plot['title'])}]({results_name(part['name'], plot['title'])})")
    return lines


def kept(results: dict[str, Any]) -> dict[str, Any]:
    """What docs/benchmarks keeps of a run: all that the page shows, no single values."""
    parts = []
    for part in results["parts"]:
        found = part.get("found") or {}
        shown = {
            "lines": found.get("lines", []),
            "tables": [{**one, "rows": short(one["rows"])} for one in found.get("tables", [])],
            "bars": found.get("bars", []),
        }
        parts.append({**part, "found": shown})
    return {**results, "parts": parts}


def short(rows: list[list[Any]]) -> list[list[Any]]:
    return [[str(value)[:KEPT_LETTERS] for value in row] for row in rows[:KEPT_ROWS]]


def results_name(part: str, title: str) -> str:
    return f"gpu-{file_name(part, title)}"
