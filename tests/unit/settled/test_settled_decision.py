"""When a role need not be entered, and when nothing may be recorded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible import context
from ansible.module_utils.common.collections import ImmutableDict
from ansible.template import Templar
from ansible_collections.gpuwright.node.plugins.callback import settled as callbacks
from ansible_collections.gpuwright.node.plugins.lookup import settled as lookups
from ansible_collections.gpuwright.node.plugins.plugin_utils.entering import decision, inputs, seen

CHECKSUMS = {role: f"of {role}" for role in inputs.SETTLING}


def node(**changes: Any) -> dict[str, Any]:
    recorded = {role: {"inputs": text, "changed": []} for role, text in CHECKSUMS.items()}
    return {"last_verdict": {"verdict": "PASS"}, "reboot": {"required": False}, "settled": recorded, **changes}


def test_every_role_is_settled() -> None:
    assert decision.settled(node(), CHECKSUMS) == list(inputs.SETTLING)


@pytest.mark.parametrize("verdict", ["FAIL", "UNKNOWN", "", None])
def test_a_node_that_does_not_pass_is_looked_at_in_full(verdict: str | None) -> None:
    assert decision.settled(node(last_verdict={"verdict": verdict} if verdict is not None else None), CHECKSUMS) == []


def test_a_remark_does_not_unsettle() -> None:
    assert decision.settled(node(last_verdict={"verdict": "WARN"}), CHECKSUMS)


def test_a_reboot_that_is_due_is_work() -> None:
    assert decision.settled(node(reboot={"required": True}), CHECKSUMS) == []


@pytest.mark.parametrize("recorded", [None, {}])
def test_a_node_without_a_record(recorded: dict | None) -> None:
    assert decision.settled(node(settled=recorded), CHECKSUMS) == []


@pytest.mark.parametrize("change", [{"inputs": "of older code"}, {"changed": ["file /etc/x"]}])
def test_one_role_of_many(change: dict[str, Any]) -> None:
    recorded = {**node()["settled"], "system_cuda": {"inputs": CHECKSUMS["system_cuda"], "changed": [], **change}}
    assert set(CHECKSUMS) - set(decision.settled(node(settled=recorded), CHECKSUMS)) == {"system_cuda"}


class Run:
    """A play of these roles on the host n, as the callback is told of it."""

    def __init__(self, *roles: str) -> None:
        self.callback = callbacks.CallbackModule()
        self.callback.v2_playbook_on_start(None)
        self.play(*roles)

    def play(self, *roles: str) -> None:
        named = [self._role(name) for name in roles]
        self.callback.v2_playbook_on_play_start(SimpleNamespace(get_roles=lambda: named))

    @staticmethod
    def _role(name: str) -> Any:
        return SimpleNamespace(get_name=lambda include_role_fqcn=False: name)

    def result(self, role: str, action: str = "ansible.builtin.file", delegated: str = "", **told: Any) -> Any:
        task = SimpleNamespace(
            _role=self._role(role), action=action, delegate_to=delegated, loop=None, get_name=lambda: f"{role}: a task"
        )
        told = {"changed": False, "invocation": {"module_args": {"path": f"/of/{role}"}}, **told}
        return SimpleNamespace(
            _task=task, _result=told, _host=SimpleNamespace(get_name=lambda: "n"), task_name=f"{role}: a task"
        )

    def ok(self, role: str, **told: Any) -> None:
        self.callback.v2_runner_on_ok(self.result(role, **told))


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "CLIARGS", ImmutableDict())


def record(*settled_before: str) -> dict[str, Any]:
    plugin = lookups.LookupModule()
    decision = {"roles": list(settled_before), "inputs": CHECKSUMS}
    return plugin.run([], {"inventory_hostname": "n", "ansible_facts": {"gpu_node_settled": decision}}, want="record")[
        0
    ]


def test_what_ran_without_a_change_is_recorded() -> None:
    run = Run("preflight", "system_kernel", "system_cuda")
    run.ok("preflight")
    run.ok("system_kernel")
    run.ok("system_packages")
    run.ok("system_cuda")
    assert record() == {
        "system_kernel": {
            "inputs": "of system_kernel",
            "things": [["file", "/of/system_kernel"], ["file", "/of/system_packages"]],
        },
        "system_cuda": {"inputs": "of system_cuda", "things": [["file", "/of/system_cuda"]]},
    }


def test_an_earlier_role_that_a_later_one_includes_is_a_part_of_the_later() -> None:
    run = Run("system_runtime", "system_monitor")
    run.ok("system_runtime")
    run.ok("system_monitor")
    run.callback.v2_runner_on_ok(run.result("system_runtime", invocation={"module_args": {"path": "/tools"}}))
    assert ["file", "/tools"] in record()["system_monitor"]["things"]
    assert ["file", "/tools"] not in record()["system_runtime"]["things"]


@pytest.mark.parametrize("role", ["system_kernel", "system_cuda", "verify", "somebody_elses"])
def test_one_change_anywhere_and_nothing_is_recorded(role: str) -> None:
    """A later role may have changed what an earlier one found."""
    run = Run("system_kernel", "system_cuda", "somebody_elses", "verify")
    run.ok("system_kernel")
    run.ok(role, changed=True)
    assert record() == {}


def test_a_change_of_the_controller_is_none_of_the_node() -> None:
    run = Run("system_kernel")
    run.ok("system_kernel")
    run.ok("system_kernel", delegated="localhost", changed=True)
    assert set(record()) == {"system_kernel"}


def test_work_that_was_left_for_another_run() -> None:
    run = Run("system_driver")
    run.ok("system_driver")
    run.ok("system_busy", action="gpuwright.node.workload_info", in_way=[{"pid": 7}])
    assert record() == {}


@pytest.mark.parametrize("told", ["v2_runner_on_failed", "v2_runner_on_unreachable"])
def test_a_failure_that_was_rescued(told: str) -> None:
    run = Run("system_kernel")
    run.ok("system_kernel")
    getattr(run.callback, told)(run.result("system_kernel"))
    assert record() == {}


def test_a_task_of_which_nobody_knows_what_it_looked_at() -> None:
    run = Run("system_kernel", "system_cuda")
    run.ok("system_kernel", action="ansible.builtin.shell")
    run.ok("system_cuda")
    assert set(record()) == {"system_cuda"}


def test_what_was_not_entered_keeps_its_record() -> None:
    """The tasks of the verification that run every time say nothing of what it installs."""
    run = Run("verify")
    run.ok("verify", action="gpuwright.node.gpu_verify")
    assert record("verify") == {}


@pytest.mark.parametrize("option", ["check", "start_at_task", "step"])
def test_a_partial_run_records_nothing(monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    monkeypatch.setattr(context, "CLIARGS", ImmutableDict({option: "x"}))
    run = Run("system_kernel")
    run.ok("system_kernel")
    assert record() == {}


def test_without_the_callback_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "now", seen.Run())
    assert record() == {}


def test_two_plays_are_one_run() -> None:
    run = Run("system_kernel", "system_cuda")
    run.ok("system_cuda")
    run.play("framework_pytorch")
    run.ok("framework_pytorch")
    run.play("model_trainer")
    run.ok("model_trainer")
    run.ok("framework_pytorch")
    assert set(record()) == {"system_cuda", "framework_pytorch", "model_trainer"}
    assert ["file", "/of/framework_pytorch"] in record()["model_trainer"]["things"]


@pytest.mark.parametrize(
    ("variables", "full"),
    [
        ({}, False),
        ({"gpuwright_full": False}, False),
        ({"gpuwright_full": "off"}, False),
        ({"gpuwright_full": True}, True),
        # As -e gpuwright_full=on and an inventory may say it.
        ({"gpuwright_full": "on"}, True),
        ({"gpuwright_full": "{{ asked }}", "asked": "y"}, True),
        ({"ansible_check_mode": True}, True),
    ],
)
def test_who_asks_for_every_role(variables: dict[str, Any], full: bool) -> None:
    assert decision.asks_for_all(variables, Templar(loader=None, variables=variables)) is full
