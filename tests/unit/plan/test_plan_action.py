"""gpu_plan as an action of the controller: its answers, its refusals, no host contacted, the matrix parsed once."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.matrix import SHIPPED, read_matrix
from ansible_collections.gpuwright.node.plugins.plugin_utils.planning import planned
from conftest import REPOSITORY
from test_plan_questions import KERNEL, MATRIX, make_host

HOSTS = ("a5-01", "a5-02", "a5-03")
# Each text that is parsed as YAML leaves the process and its hash.
SPY = """
import hashlib, os, yaml
load = yaml.load
def spy(text, *args, **named):
    if isinstance(text, str):
        with open(os.environ["SPY"], "a") as file:
            file.write(f"{os.getpid()} {hashlib.sha256(text.encode()).hexdigest()}\\n")
    return load(text, *args, **named)
yaml.load = spy
"""
# The screen of a run is one line of JSON for each result.
RECORD = """
import json
from ansible.plugins.callback import CallbackBase
class CallbackModule(CallbackBase):
    CALLBACK_VERSION, CALLBACK_TYPE, CALLBACK_NAME = 2.0, "stdout", "record"
    def v2_runner_on_ok(self, result, **named):
        print(json.dumps({"host": result._host.get_name(), **result._result}, default=str), flush=True)
    v2_runner_on_failed = v2_runner_on_unreachable = v2_runner_on_ok
"""


def test_a_refusal_fails_with_a_message_of_several_lines() -> None:
    answer = planned(MATRIX, make_host(), {"driver_branch": "590"}, None)
    assert answer["failed"] is True
    assert answer["msg"].startswith(
        "No plan fits a5-01 (rhel 8.8, Tesla V100-PCIE-16GB). Nothing was changed. [plan.conflict]\n\n1. "
    )
    assert answer["msg"].endswith('system_driver_branch: "580"')
    assert answer["conflicts"][0]["choices"] == [{"driver_branch": "580"}]
    assert "ansible_facts" not in answer


def test_a_refusal_by_old_tables_says_so() -> None:
    """What it calls impossible may have been published since."""
    host, late = make_host("K80", "ubuntu 24.04"), {"today": "2027-12-01"}
    assert "Not compared" not in planned(MATRIX, {**host, "today": MATRIX["as_of"]}, {}, None)["msg"]
    said = planned(MATRIX, {**host, **late}, {}, None)
    assert said["failed"] and "Not compared with its sources for long: drivers (as of" in said["msg"]
    assert "what was published since then is not known here" in said["msg"]


def test_a_host_that_is_no_host_is_told() -> None:
    host = make_host()
    del host["os"]
    answer = planned(MATRIX, host, {}, None)
    assert answer["failed"] and "'os' is missing in host or matrix" in answer["msg"]


def test_an_unquoted_pin_is_told() -> None:
    unquoted: dict[str, Any] = {"python": 3.11}
    answer = planned(MATRIX, make_host(), unquoted, None)
    assert "framework_pytorch_python is 3.11, which is not text. Write it in quotes" in answer["msg"]


def test_a_plan_is_returned_for_content_and_for_the_folder() -> None:
    for matrix in (MATRIX, str(SHIPPED)):
        answer = planned(matrix, make_host(), {"nccl": ""}, ["py3.11-torch2.10.0-cu128.txt"])
        assert answer["changed"] is False and "failed" not in answer
        plan = answer["ansible_facts"]["gpu_node_plan"]
        assert plan["driver"]["stream"] == "580-dkms"
        assert plan["kernel"]["devel"] == [f"kernel-devel-{KERNEL}"]
        assert plan["pytorch"]["lock"] == "py3.11-torch2.10.0-cu128.txt"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "no YAML file in"),
        ({"a.yml": "[1]"}, "must hold names"),
        ({"a.yml": "x: 1", "b.yml": "x: 2"}, "defines x a second time"),
        ({"a.yml": "x: ["}, "while parsing"),
        ({"a.yml": None}, "Is a directory"),
    ],
)
def test_a_matrix_that_cannot_be_read_is_told(tmp_path: Path, files: dict[str, str | None], words: str) -> None:
    for name, text in files.items():
        (tmp_path / name).mkdir() if text is None else (tmp_path / name).write_text(text)
    answer = planned(str(tmp_path), make_host(), {}, None)
    assert answer["failed"] and words in answer["msg"]
    assert answer["msg"].startswith("The matrix of versions cannot be read: ")


def test_a_file_that_was_changed_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "a.yml"
    file.write_text("x: 1")
    first = read_matrix(tmp_path)
    first["x"] = 5
    assert read_matrix(tmp_path) == {"x": 1}, "what a caller puts into it is its own"
    file.write_text("x: 22")
    assert read_matrix(tmp_path) == {"x": 22}


def test_the_module_of_this_name_does_nothing_on_a_node(run_module: Callable[..., dict]) -> None:
    answer = run_module("gpu_plan", {"matrix": "/m", "host": make_host()})
    assert answer["failed"] and "gpu_plan runs on the controller and not on a node" in answer["msg"]


def run(folder: Path, tasks: list[dict], *arguments: str) -> list[dict]:
    """The results of a play on hosts that nobody can reach; `folder/ssh-was-called` is there where somebody tried."""
    ssh = folder / "ssh"
    ssh.write_text(f"#!/bin/sh\ntouch {folder}/ssh-was-called\nexit 255\n")
    ssh.chmod(0o755)
    (folder / "spy").mkdir()
    (folder / "spy/sitecustomize.py").write_text(SPY)
    (folder / "callbacks").mkdir()
    (folder / "callbacks/record.py").write_text(RECORD)
    hosts = {name: {"ansible_host": f"192.0.2.{number}"} for number, name in enumerate(HOSTS, 1)}
    (folder / "hosts.yml").write_text(yaml.safe_dump({"gpu_nodes": {"hosts": hosts}}))
    (folder / "host.json").write_text(json.dumps(make_host()))
    play = {"hosts": "gpu_nodes", "gather_facts": False, "become": True, "tasks": tasks}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.yml", "play.yml", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(folder / "spy"), "SPY": str(folder / "parsed")}
    environment |= {"ANSIBLE_SSH_EXECUTABLE": str(ssh), "ANSIBLE_NOCOLOR": "1", "ANSIBLE_STDOUT_CALLBACK": "record"}
    environment["ANSIBLE_CALLBACK_PLUGINS"] = str(folder / "callbacks")
    environment["ANSIBLE_COLLECTIONS_PATH"] = str(REPOSITORY / "collections")
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert "gpu_nodes" not in done.stderr and done.stdout, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def plan_task(**options: object) -> dict:
    given = {"matrix": str(REPOSITORY / "roles/preflight/files/matrix"), "host": "{{ lookup('file', 'host.json') }}"}
    return {"name": "Plan", "gpuwright.node.gpu_plan": {**given, **options}}


@pytest.mark.parametrize("arguments", [[], ["--check"], ["--forks", "1"]])
def test_no_host_is_contacted_and_the_matrix_is_parsed_once(tmp_path: Path, arguments: list[str]) -> None:
    show = {"ansible.builtin.debug": {"msg": "{{ ansible_facts.gpu_node_plan.driver.stream }}"}}
    results = run(tmp_path, [plan_task(pins={"nccl": ""}), show], *arguments)
    assert not (tmp_path / "ssh-was-called").exists()
    assert {result["host"]: result["msg"] for result in results if "msg" in result} == dict.fromkeys(HOSTS, "580-dkms")
    files = [file for file in SHIPPED.glob("*.yml") if file.name != "devices.yml"]
    hashes = sorted(hashlib.sha256(file.read_bytes()).hexdigest() for file in files)
    lines = [line.split() for line in (tmp_path / "parsed").read_text().splitlines()]
    parsed = [(pid, text) for pid, text in lines if text in hashes]
    assert sorted(text for _pid, text in parsed) == hashes, "each file once, whatever the number of hosts"
    assert len({pid for pid, _text in parsed}) == 1, "in the process that forks the others"


def test_a_refusal_and_a_wrong_option_end_the_task(tmp_path: Path) -> None:
    steps = [
        {**plan_task(pins={"driver_branch": "590"}), "register": "refused", "ignore_errors": True},
        {**plan_task(matrix="/nowhere"), "register": "unread", "ignore_errors": True},
        {"gpuwright.node.gpu_plan": {"matrix": "/m"}, "register": "half", "ignore_errors": True},
        {**plan_task(pin={}), "register": "unknown", "ignore_errors": True},
    ]
    results = [result for result in run(tmp_path, steps) if result["host"] == "a5-02"]
    assert len(results) == 4
    assert results[0]["conflicts"][0]["choices"] == [{"driver_branch": "580"}]
    assert "no YAML file in /nowhere" in results[1]["msg"]
    assert "missing required arguments: host" in results[2]["msg"]
    assert (
        "pin. Supported parameters include: also, host, knowledge, knowledge_signer, locks, matrix, pins"
        in results[3]["msg"]
    )


@pytest.mark.parametrize("also", [{}, {"gpus": []}, {"driver_guards": {"guards": "never", "hold": False}}])
def test_the_fact_is_the_host_and_what_is_added_counts(tmp_path: Path, also: dict[str, Any]) -> None:
    matrix, words = str(SHIPPED), "{{ ansible_facts.gpu_node | combine(more) }}"
    steps: list[dict] = [
        {"ansible.builtin.set_fact": {"gpu_node": "{{ lookup('file', 'host.json') }}", "cacheable": True}},
        {"gpuwright.node.gpu_plan": {"matrix": matrix, "host": words}, "vars": {"more": also}, "ignore_errors": True},
        {"gpuwright.node.gpu_plan": {"matrix": matrix, "also": also}, "ignore_errors": True},
    ]
    results = [result for result in run(tmp_path, steps) if result["host"] == HOSTS[0]]
    _fact, whole, added = [{name: one.get(name) for name in ("ansible_facts", "msg")} for one in results]
    assert whole == added and any(whole.values())
