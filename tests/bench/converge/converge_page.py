"""docs/benchmarks/converge.md and .json: the page is made from the JSON alone."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from converge_text import ENTERED, HEAD, PAPER, REAL_TEXT, STUB, TRIED, WAYS
from page import word_of

# Key of a figure, its heading, and a factor for the page.
KINDS = {
    "wall": "wall, s",
    "tasks": "tasks",
    "modules": "modules",
    "calls": "calls",
    "MB": "MB sent",
    "controller CPU": "controller, CPU s",
    "target CPU": "target, CPU s",
    "memory": "memory, MiB",
    "smoke": "of wall, smoke test, s",
}
STEPS = ("first", "second", "no-op", "changed variable")
OURS, BARE = "gpuwright", "bare script"
# The part with real packages.
REAL = "real packages"
# Folder of an environment, which has another name for each plan.
ENVIRONMENT = re.compile(r"/[0-9a-f]{16}/")
# Modules of a run that enters no role, and some more.
SHORT = 10
VERDICT = {True: "met", False: "not met", None: "not measured"}


def line(cells: list[Any]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def table(head: list[str], rows: list[list[Any]]) -> str:
    """Markdown, numbers to the right."""
    return "\n".join([line(head), f"|---|{'---:|' * (len(head) - 1)}", *map(line, rows)]) + "\n"


def number(figure: dict[str, Any] | None) -> str:
    """Such as "12.3 (11.9 to 14)"; a single run has no interval, and what is not there is "-"."""
    if figure is None or figure["median"] == 0:
        return "-"
    low, high = figure["interval"]
    return f"{figure['median']:g}" + ("" if figure["n"] == 1 or low == high else f" ({low:g} to {high:g})")


def part(result: dict[str, Any], kind: str) -> dict[int, dict[str, Any]]:
    """The parts "hosts N" or "endpoints N", by N."""
    found = {int(name.split()[1]): value for name, value in result.items() if name.startswith(f"{kind} ")}
    return dict(sorted(found.items()))


def about(found: dict[str, Any]) -> str:
    """When and where a part was measured."""
    was = found["measured"]
    return (
        f"Measured {was['date']} in {was['minutes']} minutes, {was['CPU']}, {was['cores']} cores; load average "
        f"{was['load before']} before and {was['load after']} after" + (f" ({was['note']})" if "note" in was else "")
    )


def hosts_part(count: int, found: dict[str, Any]) -> list[str]:
    """The tables of one number of hosts."""
    title = "One host" if count == 1 else f"{count} hosts at once"
    rounds = found["rounds"]
    runs = f"of each way {rounds} first, {rounds * found['repeats']} no-op, {rounds * found['changes']} with a change"
    parts = [f"## {title}\n", f"{about(found)}; {runs}.\n"]
    if count > 1:
        parts.append("Wall time and memory are of the whole run, all else of one host.\n")
    for step in STEPS:
        rows = [
            [arm, *(number(steps[step].get(kind)) for kind in KINDS)]
            for arm, steps in found["arms"].items()
            if step in steps
        ]
        if rows:
            parts += [f"### {TITLES[step]}\n", table(["way", *KINDS.values()], rows)]
    if found["short from"]:
        parts.append(f"Run {found['short from']} was the first that entered no role.\n")
    if found["arms"].get(OURS, {}).get("no-op", {}).get("modules", {"interval": [0, 0]})["interval"][1] > SHORT:
        parts.append(ENTERED)
    parts += [verdict_line(row) for row in found["verdicts"]]
    parts += [
        f"* {arm} did not succeed, and was left out from there on:\n\n{block(text)}"
        for arm, text in found["errors"].items()
    ]
    parts += same_part(found.get("same", {}))
    return parts


TITLES = {
    "first": "First run, from bare",
    "second": "Second run, which enters all roles and settles",
    "no-op": "No-op: nothing is to do",
    "changed variable": "One changed variable: the interval of the node's checks",
}


def block(lines: list[str]) -> str:
    return "\n".join(["```", *lines, "```"]) + "\n"


def verdict_line(row: dict[str, Any]) -> str:
    """Faster is said of CPU time, too: ours costs less of it."""
    low, high = row["interval"]
    told = f"({row['ratio']:.2f}x, 95 % interval {low:.2f} to {high:.2f})"
    step = TITLES[row["step"]].split(",")[0].split(":")[0]
    return f"* {step}, {row['kind']}: {word_of(low, high)} {row['other']} {told}"


def same_part(found: dict[str, Any]) -> list[str]:
    """What was not the same after the run, though it was meant to be."""
    parts = ["\n### Was it the same work?\n"] if found else []
    for arm, told in found.items():
        odd = ", ".join(told["packages that differ"]) or "none"
        rows = [f"* {arm}: {told['packages']} packages, of which differ: {odd}. Files that are equal: {told['equal']}."]
        for kind, title in (
            ("differ", "differ"),
            ("only gpuwright", "only after gpuwright"),
            ("only here", "only after the other"),
        ):
            names = ", ".join(f"`{ENVIRONMENT.sub('/*/', name)}`" for name in told[kind]["names"])
            more = told[kind]["count"] - len(told[kind]["names"])
            listed = f": {names}" + (f" and {more} more" if more > 0 else "") if names else ""
            rows.append(f"  {title}: {told[kind]['count']}{listed}.")
        parts.append("\n".join(rows))
    return [*parts, ""] if found else []


def real_part(result: dict[str, Any]) -> list[str]:
    """The table of first runs with real packages."""
    parts = ["## First run with real packages\n", REAL_TEXT]
    found = result.get(REAL)
    if not found:
        return [*parts, 'Not measured yet: `make bench-converge BENCH="--hosts none --endpoints none --real 1"`.\n']
    runs = "one run" if found["rounds"] == 1 else f"{found['rounds']} runs"
    rows = [[way, *(number(steps["first"].get(kind)) for kind in KINDS)] for way, steps in found["arms"].items()]
    return [
        *parts,
        f"{about(found)}; {runs} of each way.\n",
        table(["way", *KINDS.values()], rows),
        *same_part(found["same"]),
    ]


def endpoints_part(result: dict[str, Any]) -> list[str]:
    """The tables of many small endpoints."""
    parts = ["## 100 hosts: many small ssh endpoints\n", STUB]
    found = part(result, "endpoints")
    if not found:
        return [*parts, "Not measured yet.\n"]
    kinds = [kind for kind in KINDS if kind != "smoke"] + ["memory with files"]
    rows = [
        [count, one["forks"], *(number(one["arms"][OURS]["no-op"].get(kind)) for kind in kinds)]
        for count, one in found.items()
    ]
    heads = [*(KINDS[kind] for kind in kinds if kind in KINDS), "memory with files, MiB"]
    parts += [f"{about(one)}; {count} endpoints, {one['repeats']} no-op runs.\n" for count, one in found.items()]
    return [*parts, table(["endpoints", "forks", *heads], rows)]


def seen(result: dict[str, Any], place: str, step: str, kind: str, arm: str = OURS) -> dict[str, Any] | None:
    """A figure; None where it was not measured."""
    return result.get(place, {}).get("arms", {}).get(arm, {}).get(step, {}).get(kind)


def median(result: dict[str, Any], place: str, step: str, kind: str, arm: str = OURS) -> float | None:
    """None where it was not measured."""
    figure = seen(result, place, step, kind, arm)
    return None if figure is None else figure["median"]


def conditions(result: dict[str, Any], place: str, step: str) -> str:
    """What a time has to be read with, if anything: that it was one run, and that the machine was busy."""
    figure, was = seen(result, place, step, "wall"), result.get(place, {}).get("measured")
    if figure is None or was is None:
        return ""
    busy = max(was["load before"], was["load after"]) > was["cores"]
    return ("" if figure["n"] > 1 else ", one run") + (", on a busy machine" if busy else "")


def over_bare(result: dict[str, Any], place: str) -> float | None:
    """Our first run without its smoke test, as a multiple of the bare script's."""
    first, floor = (median(result, place, "first", "wall", way) for way in (OURS, BARE))
    return None if first is None or not floor else (first - (median(result, place, "first", "smoke") or 0.0)) / floor


def goal_lines(result: dict[str, Any]) -> list[str]:
    """Each goal with what was measured, as lines of Markdown."""

    def told(title: str, value: float | None, most: float, unit: str, read_with: str = "") -> str:
        verdict = VERDICT[None if value is None else value <= most]
        shown = "-" if value is None else f"{value:.4g}"
        return line([title, f"at most {most:g}{unit}", shown, verdict + ("" if value is None else read_with)])

    one, many = "hosts 1", "endpoints 100"
    noop, first_run, crowd, real_run = (
        conditions(result, *at) for at in ((one, "no-op"), (one, "first"), (many, "no-op"), (REAL, "first"))
    )
    wall, smoke = median(result, one, "no-op", "wall"), median(result, one, "no-op", "smoke")
    without = None if wall is None or smoke is None else wall - smoke
    ratio, real = over_bare(result, one), over_bare(result, REAL)
    cpu, memory = median(result, many, "no-op", "controller CPU"), median(result, many, "no-op", "memory with files")
    real_time = (" times", real_run)
    calls, modules = median(result, one, "no-op", "calls"), median(result, one, "first", "modules")
    return [
        line(["what", "goal", "measured", "verdict"]),
        "|---|---|---:|---|",
        told("no-op, one host: modules executed on the node, with the smoke test", calls, 5, ""),
        told("no-op, one host: wall without the smoke test, goal on a quiet machine", without, 3, " s", noop),
        told("the same, gate", without, 6, " s", noop),
        line(["beside it, the smoke test", "shown only", "-" if smoke is None else f"{smoke:.3g}", "-"]),
        told("first run, one host: modules executed on the node", modules, 60, ""),
        told(
            "first run with real packages, without the smoke test, over the bare script, gate", real, 1.15, *real_time
        ),
        told("the same, goal", real, 1.10, *real_time),
        told("the same with stand-ins, of which none is large, gate", ratio, 1.15, " times", first_run),
        told("100 endpoints: controller, CPU seconds for each", cpu, 0.5, " s", crowd),
        told("the same, stretch", cpu, 0.3, " s", crowd),
        told("100 endpoints: memory of the controller, files included", memory, 1024, " MiB"),
        told("100 endpoints that answer from a stub: wall", median(result, many, "no-op", "wall"), 25, " s", crowd),
    ]


def paper(result: dict[str, Any]) -> str:
    """Arithmetic with what was measured of 100 endpoints; without it, only what the numbers do not change."""
    cpu = median(result, "endpoints 100", "no-op", "controller CPU")
    if cpu is None:
        return PAPER.format(table="Without a measurement of 100 endpoints there is nothing to multiply.\n")
    rows = []
    for hosts in (100, 1000, 10000):
        seconds = cpu * hosts
        gbit = hosts * 4.5 * 8 / 3600
        rows.append(
            [f"{hosts:,}", f"{seconds:,.0f}", *(f"{seconds / cores / 60:,.1f}" for cores in (2, 8, 32)), f"{gbit:,.3g}"]
        )
    heads = ["hosts", "controller, CPU s", "min on 2 cores", "on 8", "on 32", "mirror, Gbit/s for an hour"]
    return PAPER.format(table=table(heads, rows))


def write_page(result: dict[str, Any]) -> str:
    """Markdown."""
    parts = [HEAD, "## Goals\n", "\n".join(goal_lines(result)) + "\n", "![Costs of the ways](converge.png)\n", WAYS]
    for count, found in part(result, "hosts").items():
        parts += hosts_part(count, found)
    if 10 not in part(result, "hosts"):
        parts.append(
            "## 10 hosts at once\n\nWhole hosts, ten at once: not measured yet. "
            'To measure: `make bench-converge BENCH="--hosts 10 --repeats 1 --endpoints none"`.\n'
        )
    return "\n".join([*parts, *real_part(result), *endpoints_part(result), TRIED, paper(result)]).rstrip("\n") + "\n"


def compact(value: Any, depth: int = 0) -> str:
    """JSON with a line for each step of an arm: small enough to keep, and still readable in a diff."""
    if depth >= 4 or not isinstance(value, dict) or not value:
        return json.dumps(value)
    pad = " " * (depth + 1)
    rows = [f"{pad}{json.dumps(name)}: {compact(inner, depth + 1)}" for name, inner in value.items()]
    return "{\n" + ",\n".join(rows) + f"\n{' ' * depth}}}"


def write_all(folder: Path, parts: dict[str, Any]) -> dict[str, Any]:
    """Put parts in place of those of the last run, and write JSON, page and picture; the whole JSON."""
    from trainer_kinds import trainer_python

    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "converge.json"
    result = {**(json.loads(file.read_text()) if file.exists() else {"schema": 1}), **parts}
    file.write_text(compact(result) + "\n")
    (folder / "converge.md").write_text(write_page(result))
    python = trainer_python()
    if python:
        plot = Path(__file__).with_name("converge_plot.py")
        subprocess.run([str(python), str(plot), str(file), str(folder / "converge.png")], check=True)
    return result
