"""The pages of a large fleet: `make bench-page` writes docs/benchmarks/page.json and page.md.

A thousand made-up reports, all pages from them, and the index in Chromium from the file: medians of several runs.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "tests/node_library"), str(REPOSITORY / "collections"), str(Path(__file__).parent)]
sys.path[:0] = [*map(str, (REPOSITORY / "tests/unit").glob("**"))]
page_samples = importlib.import_module("page_samples")
made = importlib.import_module("ansible_collections.gpuwright.node.plugins.action.report_page").made
kept = importlib.import_module("ansible_collections.gpuwright.node.plugins.plugin_utils.history.kept")
Chromium = importlib.import_module("chromium").Chromium

HOSTS, RUNS = 1000, 9
# What sweeps add: nodes, cards of each, sweeps of each card; both ways in turn, so many times.
SWEPT, CARDS, SWEEPS, TURNS = 500, 8, 20, 5
WAYS = ("without", "with")
FORMATS = ("fp16", "bf16", "tf32", "fp32")
OUT = REPOSITORY / "docs/benchmarks"
TEXT = """\
# The pages of a large fleet

Written by `make bench-page`; do not edit. {hosts} made-up hosts with every part that a report may have; medians of
{runs} runs from the file system, in {browser}, on {cpus} cores that other work kept busy.

| | measured | limit |
|---|---|---|
| `index.html` | {index_kb:.0f} kB | 1,000 kB |
| first paint of the index | {first_paint_ms:.0f} ms | 1,000 ms |
| index loaded, its script has run | {loaded_ms:.0f} ms | |
| page of one host | {host_kb:.0f} kB | |
| first paint of a host's page | {host_first_paint_ms:.0f} ms | |
| all {hosts} pages and the index, made and written | {all_s:.1f} s | |
| made again, nothing has changed | {again_s:.1f} s | |

## With the history of sweeps

The same for {swept} hosts, without a history and with one of {cards} cards for each and {sweeps} sweeps of each card
([sweep.md](../sweep.md)): both in turn, {turns} times. Seconds are those of the
processor in the fastest run, as other work kept the cores busy.

| | without | with | more |
|---|---|---|---|
| `index.html` | {index_without_kb:.1f} kB | {index_with_kb:.1f} kB | {index_more:.1f} % |
| all pages and the index, made and written | {made_without_s:.2f} s | {made_with_s:.2f} s | {made_more:.1f} % |
| made again, nothing has changed | {again_without_s:.2f} s | {again_with_s:.2f} s | {again_more:.1f} % |

The histories are {history_kb:.0f} kB in all, {card_kb:.1f} kB for a card.

One file for the fleet, as it was before, was 14.6 MB for 500 hosts.
"""


def write_reports(folder: Path, hosts: int = HOSTS) -> None:
    (folder / "previous").mkdir(parents=True)
    for name, report, before, _problem in page_samples.fleet(hosts):
        (folder / f"{name}.json").write_text(json.dumps(report) if report else "")
        if before:
            (folder / "previous" / f"{name}.json").write_text(json.dumps(before))


def write_histories(folder: Path) -> None:
    """Eight cards for each host with a wave in all of their measures, and a decline in every tenth card."""
    measures = {"matmul_fp16_tflops": 95.0, "matmul_bf16_tflops": 95.0, "matmul_tf32_tflops": 50.0, "copy_gb_s": 780.0}
    measures |= {"matmul_fp32_tflops": 13.4, "h2d_gb_s": 12.3, "d2h_gb_s": 12.6, "p2p_gb_s": 130.0, "link_gt_s": 8.0}
    measures |= {"smoke_fp32": 9.5, "smoke_amp": 18.2}
    counters = dict.fromkeys(("ecc_corrected_volatile", "pcie_replays", "retired_pages_double_bit"), 0)
    bits = {
        "kind": "Tesla V100, 8192 80, torch 2.10.0, CUDA 12.8",
        "bits": {name: "0123456789abcdef" for name in FORMATS},
    }
    for number, (name, *_rest) in enumerate(page_samples.fleet(SWEPT)):
        cards = {}
        for place in range(CARDS):
            card = None
            for day in range(SWEEPS):
                factor = 1 - (0.002 * day if (number + place) % 10 == 0 else 0) + 0.002 * ((number + day) % 3)
                figures = {measure: float(f"{value * factor:.4g}") for measure, value in measures.items()}
                row = kept.Row("Tesla V100-PCIE-16GB", f"0000:{place:02x}:00.0", "torch 2.10.0, 580", figures, counters)
                card = kept.with_row(card, row, f"2026-{day // 28 + 1:02}-{day % 28 + 1:02}T10:00:00Z")
            told = {**bits, "at": "2026-01-05T10:00:00Z"}
            cards[f"13{number:05}{place}"] = {**(card or {}), "product": told, "now": told}
        kept.write(folder, {**kept.empty(name), "swept": "2026-01-05T10:00:00Z", "verdict": "PASS", "cards": cards})


def with_history(folder: Path) -> dict[str, Any]:
    """What the history of sweeps costs: both ways in turn."""
    rows: dict[str, list[float]] = {}
    for way in WAYS:
        write_reports(folder / way, SWEPT)
    write_histories(folder / "with")
    # The first one also compiles the templates.
    for way in ("without", *(WAYS * TURNS)):
        one = folder / way
        shutil.rmtree(one / "hosts", ignore_errors=True)
        (one / "index.html").unlink(missing_ok=True)
        rows.setdefault(f"made_{way}_s", []).append(seconds(one, SWEPT, time.process_time))
        rows.setdefault(f"again_{way}_s", []).append(seconds(one, SWEPT, time.process_time))
        rows.setdefault(f"index_{way}_kb", []).append((one / "index.html").stat().st_size / 1000)
    rows = {name: values[-TURNS:] for name, values in rows.items()}
    # Other work only ever makes a run slower.
    found: dict[str, Any] = {name: round(min(values), 2) for name, values in rows.items()}
    for name, unit in (("made", "s"), ("again", "s"), ("index", "kb")):
        found[f"{name}_more"] = round(100 * (found[f"{name}_with_{unit}"] / found[f"{name}_without_{unit}"] - 1), 1)
    size = sum(file.stat().st_size for file in (folder / "with/history").iterdir()) / 1000
    found |= {"history_kb": round(size), "card_kb": round(size / SWEPT / CARDS, 2)}
    return {**found, "swept": SWEPT, "cards": CARDS, "sweeps": SWEEPS, "turns": TURNS}


def seconds(folder: Path, hosts: int = HOSTS, clock: Callable[[], float] = time.monotonic) -> float:
    start = clock()
    answer = made(str(folder), False)
    assert answer["hosts"] == hosts, answer
    return clock() - start


def medians(browser: Any, page: Path) -> dict[str, float]:
    browser.times(page)
    runs = [browser.times(page) for _ in range(RUNS)]
    return {name: round(statistics.median(run[name] for run in runs)) for name in runs[0]}


def main() -> None:
    """All of it, or with the argument `history` that part alone, which needs no browser."""
    alone = sys.argv[1:] == ["history"]
    found = json.loads((OUT / "page.json").read_text()) if alone else pages()
    with tempfile.TemporaryDirectory() as swept:
        found |= with_history(Path(swept))
    (OUT / "page.json").write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")
    (OUT / "page.md").write_text(TEXT.format(**found))
    print(TEXT.format(**found))


def pages() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_reports(folder)
        found: dict[str, Any] = {"hosts": HOSTS, "runs": RUNS, "cpus": os.cpu_count()}
        found |= {"all_s": round(seconds(folder), 1), "again_s": round(seconds(folder), 1)}
        sizes = [file.stat().st_size for file in (folder / "hosts").iterdir()]
        found |= {"index_kb": (folder / "index.html").stat().st_size / 1000, "host_kb": statistics.median(sizes) / 1000}
        with Chromium() as browser:
            found |= {"browser": browser.version, **medians(browser, folder / "index.html")}
            host = medians(browser, folder / "hosts/a5-01.html")
        found |= {f"host_{key}": value for key, value in host.items()}
    return found


if __name__ == "__main__":
    main()
