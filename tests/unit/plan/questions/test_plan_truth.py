"""The answer key of `make bench-plan-truth`, and its page, which is what its JSON says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
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


def test_a_run_without_the_other_tools_leaves_the_page_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their answers would be gone from it."""
    monkeypatch.setattr(BENCH, "OUT", tmp_path)
    monkeypatch.delenv("NVIDIA_DETECT", raising=False)
    monkeypatch.setenv("UV", "")
    BENCH.main()
    assert list(tmp_path.iterdir()) == []


def test_the_plan_as_a_module_has_all_that_it_imports(tmp_path: Path) -> None:
    """`make bench-plan` compares it with the plan on the controller; a module brings module_utils and nothing else."""
    load_file(REPOSITORY / "tests/bench/plan_on_controller.py").as_module(tmp_path)
    solve = "ansible_collections.gpuwright.node.plugins.module_utils.plan.solve"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", f"import sys, {solve}; print([n for n in sys.modules if 'plugin_utils' in n])"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
