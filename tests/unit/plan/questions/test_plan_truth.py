"""The answer key of `make bench-plan-truth`, and its page, which is what its JSON says."""

from __future__ import annotations

import json

from conftest import REPOSITORY
from gpuwright.gpu.devices import describe_device
from module_files import load_file

BENCH = load_file(REPOSITORY / "tests/bench/plan_truth.py")
PAGE = REPOSITORY / "docs/benchmarks/plan-truth.md"


def test_each_situation_has_a_source_and_a_card_that_exists() -> None:
    rows = BENCH.situations()
    assert len({(row["id"], row["driver"], row["system"]) for row in rows}) == len(rows) >= 40
    assert all(row["source"] and row["torch"] and describe_device(row["id"]).architecture != "unknown" for row in rows)
    assert rows[0]["id"] == "1db4" and rows[0]["driver"].startswith("580.")


def test_the_page_is_what_was_measured() -> None:
    kept = json.loads(PAGE.with_suffix(".json").read_text())
    assert BENCH.page(kept["rows"], kept["score"]) == PAGE.read_text()
    # The key is right where the plan is wrong, too: what it says is kept beside what works.
    assert len(kept["rows"]) == len(BENCH.situations())
    shares = {name.split()[0]: right / most for name, (right, most) in kept["score"].items() if most}
    assert all(shares["gpuwright"] > share for name, share in shares.items() if name != "gpuwright")
