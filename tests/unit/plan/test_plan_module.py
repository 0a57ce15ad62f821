"""gpu_plan as a node runs it: the file itself and an args JSON, on every Python that a node may have."""

from __future__ import annotations

from collections.abc import Callable

from test_plan_questions import KERNEL, MATRIX, make_host


def test_a_refusal_fails_with_a_message_of_several_lines(run_module: Callable[..., dict]) -> None:
    answer = run_module("gpu_plan", {"matrix": MATRIX, "host": make_host(), "pins": {"driver_branch": "590"}})
    assert (answer["failed"], answer["rc_process"]) == (True, 1)
    assert answer["msg"].startswith("No plan fits a5-01 (rhel 8.8, Tesla V100-PCIE-16GB). Nothing was changed.\n\n1. ")
    assert answer["msg"].endswith('system_driver_branch: "580"')
    assert answer["conflicts"][0]["choices"] == [{"driver_branch": "580"}]
    assert "ansible_facts" not in answer


def test_a_host_that_is_no_host_is_told(run_module: Callable[..., dict]) -> None:
    host = make_host()
    del host["os"]
    answer = run_module("gpu_plan", {"matrix": MATRIX, "host": host})
    assert "'os' is missing in host or matrix" in answer["msg"]


def test_an_unquoted_pin_is_told(run_module: Callable[..., dict]) -> None:
    answer = run_module("gpu_plan", {"matrix": MATRIX, "host": make_host(), "pins": {"python": 3.11}})
    assert "framework_pytorch_python is 3.11, which is not text. Write it in quotes" in answer["msg"]


def test_a_plan_is_returned(run_module: Callable[..., dict]) -> None:
    for check in (False, True):
        answer = run_module("gpu_plan", {"matrix": MATRIX, "host": make_host(), "pins": {"nccl": ""}}, check=check)
        assert (answer["changed"], answer["rc_process"]) == (False, 0)
        plan = answer["ansible_facts"]["gpu_node_plan"]
        assert plan["driver"]["stream"] == "580-dkms"
        assert plan["kernel"]["devel"] == [f"kernel-devel-{KERNEL}"]
        assert plan["pytorch"]["lock"] == "py3.11-torch2.10.0-cu128.txt"
