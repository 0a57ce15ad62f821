"""The pages of a large fleet: `make bench-page` writes docs/benchmarks/page.json and page.md.

A thousand made-up reports, all pages from them, and the index in Chromium from the file: medians of several runs.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "tests/node_library"), str(REPOSITORY / "collections"), str(Path(__file__).parent)]
sys.path[:0] = [*map(str, (REPOSITORY / "tests/unit").glob("**"))]
page_samples = importlib.import_module("page_samples")
made = importlib.import_module("ansible_collections.gpuwright.node.plugins.action.report_page").made
Chromium = importlib.import_module("chromium").Chromium

HOSTS, RUNS = 1000, 9
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

One file for the fleet, as it was before, was 14.6 MB for 500 hosts.
"""


def write_reports(folder: Path) -> None:
    (folder / "previous").mkdir()
    for name, report, before, _problem in page_samples.fleet(HOSTS):
        (folder / f"{name}.json").write_text(json.dumps(report) if report else "")
        if before:
            (folder / "previous" / f"{name}.json").write_text(json.dumps(before))


def seconds(folder: Path) -> float:
    start = time.monotonic()
    answer = made(str(folder), False)
    assert answer["hosts"] == HOSTS, answer
    return time.monotonic() - start


def medians(browser: Any, page: Path) -> dict[str, float]:
    browser.times(page)
    runs = [browser.times(page) for _ in range(RUNS)]
    return {name: round(statistics.median(run[name] for run in runs)) for name in runs[0]}


def main() -> None:
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
    (OUT / "page.json").write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")
    (OUT / "page.md").write_text(TEXT.format(**found))
    print(TEXT.format(**found))


if __name__ == "__main__":
    main()
