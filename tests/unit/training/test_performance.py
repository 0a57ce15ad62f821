"""The measurement as root asks for it: only on idle GPUs, and each number beside its floor."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path

import healthy_node
import healthy_performance
import jsonschema
import pytest
from gpuwright.training import performance, trainer_run
from gpuwright.training.performance import MEASURES, in_use, read_performance
from gpuwright.training.trainer_run import Run, RunError
from gpuwright.verdict.report import make_report

SCHEMA = json.loads((Path(__file__).parents[3] / "roles/verify/files/report.schema.json").read_text())
IDLE = healthy_node.READINGS["nvidia_smi"]
ANSWER = {"schema": 1, "devices": [healthy_performance.MEASURED], "all_reduce": None, "problems": []}


@pytest.fixture
def run(monkeypatch):
    """Stand in for the program; returns what was asked of it."""
    asked = []

    def as_if(text: str, rc: int | None = 0):
        def run_program(command, user, seconds, unit):
            asked.append((command, user, seconds, unit))
            finished = trainer_run.Finished(rc, text, "", rc is None, False, False, "did not finish")
            return Run(finished, "train-gan@.service", "all 15 settings of train-gan@.service")

        monkeypatch.setattr(performance, "run_program", run_program)
        return asked

    return as_if


def smi(**changes: object) -> dict:
    return {**IDLE, "gpus": [{**IDLE["gpus"][0], **changes}]}


def test_an_idle_gpu_is_measured_as_the_trainer(run):
    asked = run("noise\n" + json.dumps(ANSWER))
    found = read_performance("/", healthy_node.expectations(), IDLE)
    (command, user, seconds, unit) = asked[0]
    assert command == [
        "/usr/local/bin/gpu-run",
        "--",
        "/opt/gpuwright/venvs/current/bin/python",
        *("-m", "gan_trainer.performance", "--device", "cuda", "--json"),
    ]
    assert user == ("trainer" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name)
    assert unit == "/etc/systemd/system/train-gan@.service" and seconds < 600
    words = f"measured as user {user} on 1 idle GPUs; sandbox: all 15 settings of train-gan@.service"
    assert found["because"] == words
    (device,) = found["devices"]
    assert set(device["measures"]) == set(MEASURES)
    assert device["measures"]["h2d_gb_s"] == {
        "value": 12.3,
        "floor": 9.0,
        "warn": 9.45,
        "peak": 15.75,
        "unit": "GB/s",
        "source": "enforced by azurehpc-health-checks conf/nd40rs_v2",
    }
    assert device["measures"]["matmul_bf16_tflops"] is None
    assert "bfloat16" in device["left_out"]["matmul_bf16_tflops"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"processes": [{"pid": 7, "type": "C", "name": "python3"}]}, "0000:3b:00.0: python3 (pid 7)"),
        ({"processes": [{"pid": 7, "type": "C+G", "name": "game"}]}, "game (pid 7)"),
        ({"memory_used_mib": 101}, "no visible program holds 101 MiB"),
    ],
)
def test_a_gpu_in_use_is_left_alone_and_its_user_named(run, changes, words):
    asked = run(json.dumps(ANSWER))
    found = read_performance("/", healthy_node.expectations(), smi(**changes))
    assert asked == [] and found["devices"] == []
    assert words in found["because"] and words in found["busy"][0]


@pytest.mark.parametrize(
    "changes", [{}, {"memory_used_mib": 100}, {"processes": [{"pid": 7, "type": "G", "name": "X"}]}]
)
def test_idle(changes):
    assert in_use(smi(**changes)["gpus"]) == []


@pytest.mark.parametrize(
    "changes", [{"processes": "unknown"}, {"memory_used_mib": "unknown"}, {"memory_used_mib": None}]
)
def test_a_gpu_that_does_not_say_is_not_idle(changes):
    with pytest.raises(ValueError, match="does not say whether it is in use"):
        in_use(smi(**changes)["gpus"])


def test_without_an_answer_of_the_driver_nothing_is_started(run):
    asked = run(json.dumps(ANSWER))
    with pytest.raises(ValueError, match="cannot be queried for whether the GPUs are idle: not loaded"):
        read_performance("/", healthy_node.expectations(), {"reachable": False, "message": "not loaded"})
    assert asked == []


def test_on_a_cpu_no_driver_is_asked(run):
    cpu = {**healthy_performance.MEASURED, "device": "cpu", "name": "CPU", "pci_id": None}
    run(json.dumps({**ANSWER, "devices": [cpu], "all_reduce": {"gpus": 2, "value": 0.25}}))
    found = read_performance("/", healthy_node.expectations(smoke_device="cpu"), {"reachable": False})
    assert "says nothing about a GPU" in found["because"]
    assert {name: found["devices"][0]["measures"]["copy_gb_s"][name] for name in ("floor", "peak")} == {
        "floor": None,
        "peak": None,
    }
    assert (found["all_reduce"]["value"], found["all_reduce"]["floor"]) == (0.25, None)


@pytest.mark.parametrize(("text", "rc"), [("", 0), ("no JSON", 1), (json.dumps(ANSWER), None), ('{"schema": 2}', 0)])
def test_a_program_without_an_answer_is_unreadable(run, text, rc):
    run(text, rc)
    with pytest.raises(ValueError, match="; next: "):
        read_performance("/", healthy_node.expectations(), IDLE)


def test_a_program_that_cannot_be_started_is_unreadable(monkeypatch):
    def refuse(*_):
        raise RunError("there is no user trainer", "run the role model_trainer")

    monkeypatch.setattr(performance, "run_program", refuse)
    with pytest.raises(ValueError, match="there is no user trainer; next: run the role"):
        read_performance("/", healthy_node.expectations(), IDLE)


@pytest.mark.parametrize(
    "reading",
    [
        None,
        {"unreadable": "no gpu-run"},
        healthy_node.READINGS["performance"],
        healthy_performance.performance_of(8, 231.0),
        performance.record([], None, [], "not measured, since the GPUs are in use", ["0000:3b:00.0: python3 (pid 7)"]),
    ],
)
def test_the_record_keeps_the_schema(reading):
    readings = {**healthy_node.readings(), "performance": reading}
    report = make_report("a5-01", "2026-01-05T10:00:00Z", [], readings, healthy_node.expectations(), None)
    jsonschema.validate(report, SCHEMA)
    assert (report["performance"] is None) == (reading is None)
    if reading and "unreadable" in reading:
        assert report["performance"]["problems"] == ["no gpu-run"]
    old = {name: value for name, value in report.items() if name != "performance"}
    jsonschema.validate(old, SCHEMA)
