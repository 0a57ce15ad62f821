"""`dcgmi diag`: asked for by the inventory alone, on idle GPUs alone, and read in the forms of DCGM 3 and 4."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpuwright.checks.gpu.dcgm import read_dcgm_diag
from gpuwright.verdict.reader import Seen

IDLE = {"reachable": True, "gpus": [{"pci_id": "0000:3b:00.0", "processes": [], "memory_used_mib": 0}]}
TRAINS = {"name": "python3", "pid": 4711, "type": "C"}
BUSY = {"reachable": True, "gpus": [{"pci_id": "0000:3b:00.0", "processes": [TRAINS], "memory_used_mib": 900}]}
# DCGM 4: results of entities, and a summary of the test (NVIDIA/DCGM testing/python3/tests/test_dcgm_diag.py).
FAILS = {"entity_group": "GPU", "entity_id": 3, "status": "Fail", "warnings": [{"warning": "GPU 3: memory error"}]}
FOUR = {
    "DCGM Diagnostic": {
        "test_categories": [
            {
                "category": "Deployment",
                "tests": [
                    {
                        "name": "software",
                        "results": [{"entity_group": "GPU", "entity_id": 0, "status": "Pass"}],
                        "test_summary": {"status": "Pass"},
                    }
                ],
            },
            {
                "category": "Hardware",
                "tests": [
                    {
                        "name": "memory",
                        "results": [{"entity_group": "GPU", "entity_id": 0, "status": "Pass"}, FAILS],
                        "test_summary": {"status": "Fail"},
                    },
                    {"name": "pcie", "results": [], "test_summary": {"status": "Skip"}},
                ],
            },
        ]
    }
}
# DCGM 3 (NVIDIA/DCGM#139).
THREE = {
    "DCGM GPU Diagnostic": {
        "test_categories": [
            {
                "category": "Integration",
                "tests": [
                    {"name": "PCIe", "results": [{"gpu_id": "0", "status": "Skip"}]},
                    {"name": "Diagnostic", "results": [{"gpu_id": "1", "status": "Warn", "warnings": "slow"}]},
                ],
            }
        ]
    }
}


@pytest.fixture
def dcgmi(fake_bin, monkeypatch):
    """`dcgmi` that prints this; its arguments are checked."""

    def make(answer: Any, status: int = 0) -> None:
        text = answer if isinstance(answer, str) else json.dumps(answer)
        test = '[ "$*" = "diag -r 2 -j" ] || exit 9'
        folder = fake_bin("dcgmi", f"#!/bin/sh\n{test}\ncat <<'E'\n{text}\nE\nexit {status}\n").parent
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    return make


def seen(level: Any = 2, nvidia_smi: Any = None) -> Seen:
    return Seen("/", {"dcgm_level": level} if level is not None else {}, {}, nvidia_smi or IDLE)


def ran(wanted: Seen) -> dict[str, Any]:
    found = read_dcgm_diag(wanted)
    assert found is not None
    return found


def test_dcgm_4(dcgmi):
    dcgmi(FOUR, 226)
    assert read_dcgm_diag(seen()) == {
        "level": 2,
        "because": "",
        "tests": [
            {"name": "software", "status": "Pass", "words": ""},
            {"name": "memory", "status": "Fail", "words": "GPU 3: memory error"},
            {"name": "pcie", "status": "Skip", "words": ""},
        ],
    }


def test_dcgm_3(dcgmi):
    dcgmi("Successfully ran diagnostic for group.\n" + json.dumps(THREE))
    found = ran(seen())
    assert [(test["name"], test["status"], test["words"]) for test in found["tests"]] == [
        ("PCIe", "Skip", ""),
        ("Diagnostic", "Warn", "slow"),
    ]


@pytest.mark.parametrize("level", [0, None])
def test_nobody_is_asked_unless_the_inventory_says_so(dcgmi, level):
    dcgmi(FOUR)
    assert read_dcgm_diag(seen(level)) is None


def test_without_dcgm_the_reason_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = ran(seen())
    assert found["tests"] == [] and "dcgmi is not installed" in found["because"]
    assert "system_monitor_dcgm: true" in found["because"]


def test_a_gpu_in_use_is_left_alone(dcgmi):
    dcgmi(FOUR)
    found = ran(seen(nvidia_smi=BUSY))
    assert found["tests"] == [] and "python3 (pid 4711)" in found["because"]


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ("Error: unable to establish a connection to the specified host: localhost", 255, "unable to establish"),
        ('{"DCGM Diagnostic": {"runtime_error": "hostengine went away"}}', 0, "hostengine went away"),
        ('{"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "memory"}]}]}}', 0, "memory"),
        ("{}", 0, "no test"),
        ('{"DCGM Diagnostic": {"test_categories": []}}', 0, "no test"),
        ("[1]", 0, "says"),
    ],
)
def test_an_answer_without_results_is_unreadable(dcgmi, answer, status, words):
    dcgmi(answer, status)
    with pytest.raises(OSError, match=words):
        read_dcgm_diag(seen())


def test_a_driver_that_does_not_answer_cannot_say_that_the_gpus_are_idle(dcgmi):
    dcgmi(FOUR)
    with pytest.raises(OSError, match="whether the GPUs are idle"):
        read_dcgm_diag(seen(nvidia_smi={"reachable": False, "message": "not loaded"}))
