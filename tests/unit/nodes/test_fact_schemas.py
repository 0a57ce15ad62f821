"""The schemas themselves: closed, described, as the modules' documentation has it; and that they notice what is wrong.

What the probe and the planner return is held to them where these are tested: tests/unit/probe and tests/unit/plan.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import healthy_node
import jsonschema
import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.question import imagined_host
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from conftest import REPOSITORY
from fact_schemas import NODE, PLAN, node_errors, part_errors, plan_errors
from gpuwright.probe.host import probe
from host_tree import HostTree, answers
from test_plan_questions import MATRIX, ask

SCHEMAS = {"gpu_node": NODE, "gpu_node_plan": PLAN}


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for value in schema.values():
            yield from objects(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from objects(value)


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_record_is_closed_and_every_fact_described(name: str) -> None:
    schema = SCHEMAS[name]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert all("additionalProperties" in one for one in objects(schema))
    described = schema["properties"].items()
    bare = {key for key, value in described if "description" not in value and value.get("type") != "object"}
    assert bare == set()


def test_the_documentation_of_the_probe_names_what_the_schema_has() -> None:
    text = (REPOSITORY / "library/gpu_probe.py").read_text().partition('RETURN = r"""')[2].partition('"""')[0]
    node = yaml.safe_load(text)["ansible_facts"]["contains"]["gpu_node"]
    assert set(node["contains"]) == set(NODE["properties"])
    assert "roles/preflight/files/gpu_node.schema.json" in " ".join(node["description"].split())


def test_the_documentation_of_the_plan_names_its_schema() -> None:
    assert "roles/preflight/files/gpu_node_plan.schema.json" in (REPOSITORY / "library/gpu_plan.py").read_text()


def test_the_healthy_node_is_one_that_a_probe_could_return() -> None:
    assert part_errors(healthy_node.READINGS["probe"]) == []


def a_node(tmp_path: Any) -> dict[str, Any]:
    host = HostTree(tmp_path)
    host.pci_device("0000:3b:00.0")
    return probe(host.root, answers())


NODE_DAMAGES = {
    "a part that nobody described": lambda node: node.update(colour="red"),
    "a part that is not there": lambda node: node.pop("reboot"),
    "a new key of a card": lambda node: node["gpus"][0].update(serial="1"),
    "an address as lspci shortens it": lambda node: node["gpus"][0].update(pci_id="3b:00.0"),
    "memory as text": lambda node: node.update(memory_mib="128000"),
    "memory below nothing": lambda node: node.update(memory_mib=-1),
    "a flag as a number": lambda node: node.update(verified=1),
    "a word of Secure Boot that nobody knows": lambda node: node.update(secure_boot="on"),
    "another shape": lambda node: node.update(schema=2),
    "a NUMA node below -1": lambda node: node["gpus"][0].update(numa_node=-2),
}


@pytest.mark.parametrize("damage", NODE_DAMAGES)
def test_a_damaged_node_is_noticed(tmp_path: Any, damage: str) -> None:
    node = a_node(tmp_path)
    assert node_errors(node) == []
    NODE_DAMAGES[damage](node)
    assert len(node_errors(node)) == 1


RELEASES = MATRIX["os_releases"]
QUESTIONS = {
    "every part": ("V100", "rhel 8.10", {"nccl": "2", "tensorflow": "2.20"}),
    "an exact driver": ("V100", "rhel 8.10", {"driver_version": "580.95.05"}),
    "an exact driver of apt": ("V100", "ubuntu 24.04", {"driver_version": "580.95.05"}),
    "the distribution's archive": ("V100", "debian 12", {}),
    "NVIDIA's repository of Debian": ("RTX 5090", "debian 12", {}),
    "no GPU": ("", "rhel 8.10", {"pytorch_build": "cpu"}),
    "a processor with a card": ("GH200", "rhel 9", {}),
    "a system without module streams": ("H100", "rhel 10", {}),
    "a system without DCGM": ("H100", "debian 13", {}),
    "cards of three generations": ("V100, A100, H100", "ubuntu 22.04", {}),
    "the profile of a paper": ("V100", "rhel 8.8", {"profile": "documented"}),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_plans_of_all_kinds_are_as_the_schema_says(question: str) -> None:
    """Every GPU on every system with every profile is in tests/unit/plan/test_plan_everywhere.py."""
    cards, system, pins = QUESTIONS[question]
    plan = solve(MATRIX, imagined_host(cards, system, releases=RELEASES), pins)
    assert "conflicts" not in plan, plan
    assert plan_errors(plan) == []


PLAN_DAMAGES = {
    "a part that nobody described": lambda plan: plan.update(rocm={}),
    "a part that is not there": lambda plan: plan.pop("guards"),
    "a new key of the driver": lambda plan: plan["driver"].update(date="2026"),
    "a branch as a number": lambda plan: plan["driver"].update(branch=580),
    "packages as one text": lambda plan: plan["kernel"].update(packages="gcc dkms"),
    "a package without a name": lambda plan: plan["cudnn"]["packages"].append(""),
    "a kind of precision that nobody has": lambda plan: plan["amp"].update(dtype="float8"),
    "another shape": lambda plan: plan.update(schema=2),
    "no reason": lambda plan: plan["because"].update(driver=""),
    "half a repository": lambda plan: plan["driver"]["repository"].pop("key_url"),
}


@pytest.mark.parametrize("damage", PLAN_DAMAGES)
def test_a_damaged_plan_is_noticed(damage: str) -> None:
    plan = copy.deepcopy(ask("V100"))
    assert plan_errors(plan) == []
    PLAN_DAMAGES[damage](plan)
    assert len(plan_errors(plan)) == 1
