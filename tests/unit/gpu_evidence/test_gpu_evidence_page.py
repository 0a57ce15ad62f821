"""The page of the GPU evidence: made from its JSON, "not yet" without one; a part for each row that waits for a GPU."""

from __future__ import annotations

import ast
import copy
import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY
from module_files import load_file

sys.path.insert(0, str(REPOSITORY / "tests/gpu"))
from gpu_evidence import goals
from gpu_evidence.drawing import svg
from gpu_evidence.host import unknown_fields, unknown_lines
from gpu_evidence.page import NOT_YET, kept, page
from gpu_evidence.parts import BY_NAME, MINUTES, PARTS

sys.path.append(str(REPOSITORY / "tests/bench/runtime"))
BENCHMARKS = REPOSITORY / "docs/benchmarks"
WAITS = re.compile(r"needs (?:a GPU|two sockets)", re.IGNORECASE)
CARD = {"name": "NVIDIA H100 80GB HBM3", "capability": "9.0"}


def results(part: str, found: dict[str, Any], **machine: Any) -> dict[str, Any]:
    about = {"smi": {"busy": []}, "torch": {"gpus": [CARD]}, **machine}
    row = {"why": "", "trial": False, "title": part, "status": "done", "share": 1.0, "seconds": 1.0}
    parts = [{**row, "name": "machine", "found": about}, {**row, "name": part, "found": found}]
    head = {"schema": 1, "kind": "gpu-evidence", "time": "t", "commit": "c", "took": 1.0, "minutes": 9, "stopped": ""}
    return {**head, "trial": False, "problems": [], "parts": parts, "goals": []}


def case(size: str, **rates: list[float]) -> dict[str, Any]:
    rows = [{"name": name, "rates": own, "gemm": "40%"} for name, own in rates.items()]
    return {"name": f"{size} px, DCGAN", "rows": rows, "wait": 0.01}


def verdict(name: str, record: dict[str, Any]) -> tuple[str, str]:
    found = next(goal for goal in goals.judged(record) if goal["name"] == name)
    return found["verdict"], found["why"]


def bench(ours: list[float], other: list[float], **machine: Any) -> dict[str, Any]:
    made = case("256", **{goals.OURS[3]: ours, goals.STRICT: other, goals.EAGER_AMP[0]: other})
    return results("bench", {"bench": {"cases": [made]}}, **machine)


@pytest.mark.parametrize(
    ("ours", "expected", "words"),
    [
        ([410.0, 420.0, 430.0], goals.HOLDS, goals.OURS[3]),
        ([310.0, 320.0, 330.0], goals.DOES_NOT, goals.OURS[3]),
        ([380.0, 420.0, 430.0], goals.NOT_MEASURED, "inconclusive: 3.8 to 4.3"),
        ([420.0, 420.0], goals.NOT_MEASURED, "2 rounds, expected 3 or more"),
    ],
)
def test_a_promise_holds_only_where_its_whole_interval_does(ours: list[float], expected: str, words: str) -> None:
    found, why = verdict("strict", bench(ours, [100.0] * len(ours)))
    assert found == expected and words in why


def test_a_figure_whose_condition_is_not_met_is_none() -> None:
    good = bench([410.0, 420.0, 430.0], [100.0] * 3)
    assert verdict("strict", good)[0] == goals.HOLDS
    trial = copy.deepcopy(good)
    trial["parts"][1]["trial"] = True
    hot = copy.deepcopy(good)
    hot["parts"][1]["found"]["held"] = [["sw_power_cap"], ["hw_thermal_slowdown"]]
    capped = copy.deepcopy(good)
    capped["parts"][1]["found"]["held"] = [["sw_power_cap"], ["gpu_idle"]]
    busy = {"smi": {"busy": ["0000:19:00.0: python (pid 7)"]}}
    older = {"torch": {"gpus": [{"name": "Tesla V100", "capability": "7.0"}]}}
    for record, words in (
        (trial, "a trial on the CPU"),
        (hot, "held down by hw_thermal_slowdown"),
        (bench([410.0, 420.0, 430.0], [100.0] * 3, **busy), "others used the card"),
        (bench([410.0, 420.0, 430.0], [100.0] * 3, **older), "promised for Hopper's class, and this is Tesla V100"),
        (results("bench", {}), "its part did not run"),
        (results("bench", {"bench": {"cases": [{"name": "256 px"}]}}), "its record is damaged"),
    ):
        found, why = verdict("strict", record)
        assert found == goals.NOT_MEASURED and words in why
    assert verdict("strict", capped)[0] == goals.HOLDS


def test_an_arm_that_joined_late_is_paired_with_the_rounds_since_then() -> None:
    """The first two rounds were twice as fast; nobody may gain by them."""
    record = bench([420.0] * 3, [200.0, 200.0, 100.0, 100.0, 100.0])
    (goal,) = [goal for goal in goals.judged(record) if goal["name"] == "strict"]
    assert (goal["measured"], goal["low"], goal["high"]) == (4.2, 4.2, 4.2)


def test_the_launcher_is_judged_by_its_worst_figure() -> None:
    row = {"ratio": 1.0, "low": 0.99, "high": 1.01, "rounds": 9}
    good = {"back": {"gpu-run": row}, "to": {"gpu-run": row}}
    assert verdict("launcher", results("launcher", {"ratios": good}))[0] == goals.HOLDS
    good["to"] = {"gpu-run": {**row, "low": 0.90, "high": 0.97}}
    assert verdict("launcher", results("launcher", {"ratios": good})) == (goals.DOES_NOT, "to")


def test_arms_have_the_bench_s_own_names() -> None:
    """Importing it would take PyTorch."""
    tree = ast.parse((REPOSITORY / "tests/bench/trainer/gpu_goals.py").read_text())
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert texts >= {*goals.OURS, goals.STRICT, goals.TF32, goals.ITEM, *goals.EAGER_AMP}


def waiting_rows() -> list[tuple[str, str]]:
    """(page, row or section) of docs/benchmarks that says that it waits for a GPU, or for two sockets."""
    found = []
    for file in sorted(BENCHMARKS.glob("*.md")):
        section = ""
        for line in file.read_text().splitlines():
            section = line.lstrip("# ") if line.startswith("#") else section
            if WAITS.search(line):
                found.append((file.name, line.split("|")[1].strip() if line.startswith("|") else section))
    return found


def test_every_row_that_waits_for_a_gpu_is_filled_by_a_goal_or_a_part() -> None:
    rows = waiting_rows()
    if not (BENCHMARKS / "gpu.json").exists():
        assert len(rows) >= 10
    for name, row in rows:
        assert row in goals.FILLS, f"{name}: nothing fills {row!r}"
    known = {goal.name for goal in goals.GOALS} | set(BY_NAME)
    assert all(set(fillers) <= known for fillers in goals.FILLS.values())
    assert {goal.part for goal in goals.GOALS} <= set(BY_NAME)


def test_the_page_is_made_from_its_json_and_says_not_yet_until_there_is_one() -> None:
    file = BENCHMARKS / "gpu.json"
    found = json.loads(file.read_text()) if file.exists() else None
    text = (BENCHMARKS / "gpu.md").read_text()
    assert text == page(found)
    if found is None:
        assert text.count(f"| {NOT_YET} |") == len(PARTS) + len(goals.GOALS)


def test_the_tool_takes_a_run_on_a_gpu_and_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tool = load_file("tools/gpu_page.py")
    record = bench([410.0, 420.0, 430.0], [100.0] * 3)
    record["goals"] = goals.judged(record)
    plot = {"title": "Rates", "unit": "images/s", "rows": [{"name": "a", "value": 1.0, "low": 0.9, "high": 1.1}]}
    rows = [[str(number), "b"] for number in range(100)]
    record["parts"][1]["found"].update(bars=[plot], tables=[{"title": "t", "head": ["a", "b"], "rows": rows}])
    file = tmp_path / "evidence.json"
    for change, words in (
        ({"trial": True}, "this run was made without a GPU"),
        ({"stopped": "SIGINT"}, "this run was stopped by SIGINT"),
        ({"kind": "other"}, "expected the evidence.json of tests/gpu/evidence"),
    ):
        file.write_text(json.dumps({**record, **change}))
        assert tool.main([str(file)], tmp_path) == 2 and words in capsys.readouterr().err
    file.write_text("{")
    assert tool.main([str(file)], tmp_path) == 2
    file.write_text(json.dumps(record))
    (tmp_path / "gpu-old.svg").write_text("")
    assert tool.main([str(file)], tmp_path) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("evidence.json", "gpu-bench-rates.svg", "gpu.json", "gpu.md"),
    ]
    text, small = (tmp_path / "gpu.md").read_text(), json.loads((tmp_path / "gpu.json").read_text())
    assert "(gpu-bench-rates.svg)" in text and f"| {goals.HOLDS} | " in text and page(small) == text
    assert "bench" not in small["parts"][1]["found"] and small == kept(small)
    assert tool.main([], tmp_path) == 0 and (tmp_path / "gpu.md").read_text() == text


def test_bars_are_drawn_whatever_their_names_and_values() -> None:
    rows = [
        {"name": "<a & b>", "value": 3.0, "low": 2.0, "high": 4.0, "floor": 3.5},
        {"name": "none", "value": 0.0},
        {"name": "x" * 200, "value": 1e9, "low": None, "high": None, "floor": None},
    ]
    for shown in (rows, rows[1:2], []):
        ElementTree.fromstring(svg({"title": "A & B", "unit": "GB/s", "rows": shown}))


def test_shares_fit_into_nine_minutes_as_far_as_the_promises_go() -> None:
    """The last part may be left out of a run; what comes before has its time even if each spends its share."""
    needed = [part.seconds for part in PARTS if part.name in ("machine", "scan", "compilers", "bench", "launcher")]
    assert sum(needed) < 60 * MINUTES and all(part.least <= part.seconds for part in PARTS)
    place = [part.name for part in PARTS]
    assert place.index("bench") < place.index("launcher") < place.index("calibration")


def test_fields_and_lines_that_nothing_reads_are_listed() -> None:
    gpu = "<gpu id='1'><uuid>GPU-1</uuid><new_block><deep>7</deep></new_block><serial>1</serial></gpu>"
    assert unknown_fields(f"<nvidia_smi_log>{gpu}</nvidia_smi_log>") == [("new_block/deep", "7")]
    assert unknown_fields("NVIDIA-SMI has failed") == []
    assert unknown_fields("<nvidia_smi_log><gpu></nvidia_smi_log>")[0][0] == "the answer is damaged"
    log = (
        "[    1.000000] Linux version 6.1\n"
        "[   12.000000] NVRM: Xid (PCI:0000:19:00): 79, pid=0, GPU has fallen off the bus.\n"
        "[   13.000000] NVRM: a sentence of 2031 that nobody has met\n"
        "[   14.000000] NVRM: a sentence of 2032 that nobody has met\n"
        "[   15.000000] usb 1-1: new device\n"
    )
    assert unknown_lines(log) == [(2, "NVRM: a sentence of # that nobody has met")]
