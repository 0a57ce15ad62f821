"""A node without GPUs (verify_expected_gpu_count: 0) passes; one that has a GPU nevertheless is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from ansible_collections.gpuwright.node.plugins.plugin_utils.variables import rules as variables
from conftest import REPOSITORY
from gpuwright.checks.gpu.cards import count
from gpuwright.preflight.host_checks import find_problems
from gpuwright.verdict.check import PASS, WARN
from gpuwright.verdict.evidence import Evidence
from test_plan_questions import MATRIX, make_host
from test_preflight import facts, wishes
from test_preflight import host as probed

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
CPU = {"verify_expected_gpu_count": 0, "framework_pytorch_build": "cpu", "verify_smoke_device": "cpu"}


def specs() -> dict[str, Any]:
    files = {role: REPOSITORY / f"roles/{role}/meta/argument_specs.yml" for role in ("verify", "framework_pytorch")}
    return {role: yaml.safe_load(file.read_text())["argument_specs"]["main"]["options"] for role, file in files.items()}


@pytest.mark.parametrize("value", [0, "0"])
def test_the_inventory_may_say_it(value: Any) -> None:
    assert variables.variable_problems({**CPU, "verify_expected_gpu_count": value}, specs()) == []


def test_preflight_has_nothing_against_it() -> None:
    without = probed(gpus="")
    made = solve(MATRIX, make_host(gpus=""), {"pytorch_build": "cpu"})
    assert find_problems(without, made, facts(), wishes(gpu_count=0, gpu_model="")) == []


def test_a_gpu_that_nobody_expects_is_a_remark_and_a_warning() -> None:
    made = solve(MATRIX, make_host(), {"pytorch_build": "cpu"})
    rows = find_problems(probed(), made, facts(), wishes(gpu_count=0, gpu_model=""))
    assert [row["stops"] for row in rows] == [False] and "verify_expected_gpu_count" in rows[0]["next"]
    readings = {"probe": {"gpus": [{"pci_id": "0000:3b:00.0"}]}, "nvidia_smi": {"reachable": False}}
    judged = count(Evidence(readings, "readings"), Evidence({"gpu_count": 0}, "expectations"))
    assert judged.status == WARN and "1" in judged.message
    assert (
        count(Evidence({"probe": {"gpus": []}}, "readings"), Evidence({"gpu_count": 0}, "expectations")).status == PASS
    )


def test_its_plan_can_be_asked_for(tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(json.dumps({"gpu_nodes": {"hosts": {"c1": CPU}}}))
    command = [str(PLAYBOOK), "-i", str(inventory), "playbooks/plan.yml", "-e", "gpu=c1", "-e", "format=json"]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1"}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and '"build": "cpu"' in done.stdout, done.stdout
