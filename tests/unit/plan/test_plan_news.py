"""When a run shows the plan and its reasons: for a node that has none yet, or was built by another one."""

from __future__ import annotations

import copy
import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from gpuwright.probe.plan_choices import plan_choices, read_kept_plan
from host_tree import HostTree
from test_plan_questions import MATRIX, make_host
from test_summary_callback import STUB, Run

plans = importlib.import_module("ansible_collections.gpuwright.node.plugins.plugin_utils.summary.plans")

HOST = make_host()
# As a result of a module comes back.
PLAN, OTHER = (json.loads(json.dumps(solve(MATRIX, HOST, pins))) for pins in ({}, {"cuda": "12.6"}))
EXPECTATIONS = "/etc/gpuwright/expectations.json"
FIRST = "first plan of this node"


def kept(tmp_path: Path, text: str) -> Any:
    host = HostTree(tmp_path)
    host.put(EXPECTATIONS, text)
    return read_kept_plan(host.root)


def test_the_plan_that_a_node_keeps_is_read(tmp_path: Path) -> None:
    # As the role writes it: the driver is there by then.
    held = copy.deepcopy(PLAN)
    held["driver"]["present"] = True
    assert kept(tmp_path, json.dumps({"schema": 1, "plan": held})) == plan_choices(PLAN)


def test_a_part_that_an_older_release_did_not_plan_is_left_out(tmp_path: Path) -> None:
    held = {name: part for name, part in PLAN.items() if name not in ("dcgm", "tensorflow")}
    found = kept(tmp_path, json.dumps({"plan": held}))
    assert set(plan_choices(PLAN)) - set(found) == {"DCGM", "TensorFlow"}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"plan": 3}', '{"plan": {}}', '{"plan": {"cudnn": []}}', "[" * 100000]
)
def test_what_cannot_be_read_is_no_plan(tmp_path: Path, text: str) -> None:
    assert kept(tmp_path, text) is None


def test_only_another_choice_is_news() -> None:
    assert plans.news(PLAN, {}) == FIRST and plans.news(PLAN, {"kept_plan": None}) == FIRST
    assert plans.news(PLAN, {"kept_plan": plan_choices(PLAN)}) == ""
    told = plans.news(OTHER, {"kept_plan": plan_choices(PLAN)})
    assert told.startswith("changed, ") and "CUDA toolkit: cuda-toolkit-12-9 -> cuda-toolkit-12-6" in told
    assert "driver" not in told
    older = {part: choice for part, choice in plan_choices(PLAN).items() if part != "Python"}
    assert plans.news(PLAN, {"kept_plan": older}).startswith("changed, Python: none -> 3.1")


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_reasons_fit_and_are_whole(columns: int) -> None:
    hosts = {f"a5-{number:02}": (PLAN, HOST, FIRST) for number in range(1, 6)}
    lines = plans.plan_lines({**hosts, "b": (OTHER, HOST, "")}, columns)
    assert all(len(line) <= columns for line in lines)
    assert lines[0] == f"Plan for a5-01..a5-05 ({FIRST})" and "Plan for b" in lines
    said = " ".join(" ".join(lines).split())
    for reason in (*PLAN["because"].values(), *PLAN["warnings"]):
        assert not reason or " ".join(reason.split()) in said


def test_a_fleet_of_many_kinds_shows_a_few_and_names_the_others() -> None:
    cards = ["Tesla T4", "Tesla V100-PCIE-16GB", "NVIDIA L4", "NVIDIA A10", "NVIDIA A30", "NVIDIA L40"]
    found = {}
    for number, card in enumerate(cards):
        host = {**HOST, "gpus": [{**HOST["gpus"][0], "name": card}]}
        found[f"n{number}"] = (PLAN, host, FIRST)
    lines = plans.plan_lines(found, 80)
    assert sum(line.startswith("Plan for") for line in lines) == 4
    assert lines[-1].endswith("playbooks/plan.yml -e gpu=n4") or "-e gpu=n4" in " ".join(lines[-2:])
    assert len(lines) < 150


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(tmp_path)
    for name in ("gpu_probe", "gpu_plan"):
        (run.folder / "library" / f"{name}.py").write_text(STUB)
    return run


PROBE = {"name": "Read", "gpu_probe": {"answer": {"ansible_facts": {"gpu_node": "{{ node }}"}}}}
DECIDE = {"name": "Decide", "gpu_plan": {"answer": {"ansible_facts": {"gpu_node_plan": "{{ plan }}"}}}}
TASKS = [PROBE, DECIDE, DECIDE, {"name": "Go on", "ansible.builtin.ping": {}}]


def node(kept_plan: Any) -> dict[str, Any]:
    return {"os": HOST["os"], "gpus": HOST["gpus"], "kept_plan": kept_plan}


def test_a_run_shows_the_plan_once_and_before_anything_follows(run: Run) -> None:
    run.host("a5-01", plan=PLAN, node=node(None))
    run.host("a5-02", plan=PLAN, node=node(plan_choices(PLAN)))
    run.host("a5-03", plan=OTHER, node=node(plan_choices(PLAN)))
    code, output = run(TASKS)
    assert code == 0
    assert output.count("Plan for ") == 2 and "a5-02 (" not in output
    assert output.index("Plan for a5-01 (first plan of this node)") < output.index("TASK [Go on]")
    assert "Plan for a5-03 (changed, CUDA toolkit: cuda-toolkit-12-9 ->" in output
    assert PLAN["because"]["cuda"][:40] in output


def test_check_mode_ends_with_the_plan_of_every_node(run: Run) -> None:
    run.host("a5-01", plan=PLAN, node=node(None))
    run.host("a5-02", plan=PLAN, node=node(plan_choices(PLAN)))
    code, output = run(TASKS, "--check")
    assert code == 0 and output.count("Plan for ") == 2
    assert output.index("TASK [Go on]") < output.index("PLAY RECAP") < output.index("Plan for a5-01")


def test_a_question_without_a_node_is_answered_by_the_playbook(run: Run) -> None:
    run.host("a5-01", plan=PLAN)
    _code, output = run([DECIDE, {"name": "Go on", "ansible.builtin.ping": {}}])
    assert "Plan for " not in output
