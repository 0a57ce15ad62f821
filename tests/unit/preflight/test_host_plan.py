"""host_plan: what is asked of a host, in which order, what stops it, and that a node's own words are no template."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError, AnsibleUndefinedVariable
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.template import Templar
from ansible_collections.gpuwright.node.plugins.action import host_plan
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.listing import BundleError
from ansible_collections.gpuwright.node.plugins.plugin_utils.host_values import this_run
from ansible_collections.gpuwright.node.plugins.plugin_utils.nothing_to_do import SETTLING
from ansible_collections.gpuwright.node.plugins.plugin_utils.role_options import defaults
from test_plan_questions import make_host

ROLES = ["preflight", "system_driver", "verify"]
ROW = BundleError("bundle.missing", "It is not there", "", "Look").row


class Action(host_plan.ActionModule):
    """A node that answers as it is told to, and notes what it was asked."""

    def __init__(self, variables: dict[str, Any], answer: Any) -> None:
        loader = DataLoader()
        task = Task()
        task.args = {"roles": ROLES, "bundle": "the_bundle", "question": "the_question"}
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None))
        super().__init__(task, connection, SimpleNamespace(), loader, Templar(loader, variables=variables), None)
        self.answer, self.asked_of_node = answer, list[Any]()

    def _low_level_execute_command(self, command: str, **options: Any) -> dict[str, Any]:
        self.asked_of_node.append(command)
        return {"rc": 0, "stdout": "", "stderr": ""}

    def _execute_module(self, name: str, arguments: dict[str, Any], **options: Any) -> dict[str, Any]:
        self.asked_of_node.append((name, arguments))
        if isinstance(self.answer, Exception):
            raise self.answer
        return copy.deepcopy(self.answer)


def probed(**changes: Any) -> dict[str, Any]:
    node = {**make_host(), "reboot": {"required": False}, "settled": {}, "lock": None, **changes}
    return {"changed": False, "invocation": {"module_args": {}}, "warnings": ["w"], "ansible_facts": {"gpu_node": node}}


def ask(answer: Any = None, **given: Any) -> tuple[dict[str, Any], Action]:
    variables = {
        "inventory_hostname": "a5-01",
        "ansible_version": {"full": "2.16.19"},
        "playbook_dir": "/nowhere",
        "the_bundle": {},
        "the_question": "{{ {'plan': ansible_facts.gpu_node_plan.schema} }}",
        # Defaults that are templates ask for plug-ins of the collection, which only Ansible itself finds by name.
        **{name: "" for name, default in defaults().items() if "{{" in str(default)},
        **given,
    }
    variables["hostvars"] = {"a5-01": variables}
    action = Action(variables, probed() if answer is None else answer)
    return action.run(None, variables), action


def found(result: dict[str, Any]) -> dict[str, Any]:
    return result["ansible_facts"]["gpu_node_preflight"]


def test_one_task_has_the_host_its_plan_and_what_has_nothing_to_do() -> None:
    result, action = ask(preflight_agents=["nvitop"], system_kernel_target="4.18.0-1")
    options = {"agents": ["nvitop"], "kernels": ["4.18.0-1"], "settled": True}
    assert action.asked_of_node == ["true", ("gpuwright.node.gpu_probe", options)]
    facts = result["ansible_facts"]
    assert set(facts) == {"gpu_node", "gpu_node_plan", "gpu_node_settled", "gpu_node_preflight"}
    decision = facts["gpu_node_settled"]
    assert not decision["all"] and decision["roles"] == [] and "settled" not in facts["gpu_node"]
    assert "/srv/gan/runs" in decision["names"] and "trainer" in decision["names"]
    # There is no stamp of an earlier run, so the host is looked at more closely.
    assert found(result) == {"variables": [], "rows": [], "finished": False, "ready": False, "run": this_run()}
    # How Ansible counts what ran on the node, and what it warns of.
    assert result["invocation"] == {"module_args": {}} and result["warnings"] == ["w"] and not result["changed"]


def test_a_play_that_judges_looks_no_closer() -> None:
    assert found(ask(preflight_host_checks=False)[0])["finished"] is True


def test_a_host_with_a_wrong_variable_is_not_contacted() -> None:
    result, action = ask(verify_expected_gpu_count=-3, system_driver_brunch="580", other_brunch="580")
    assert action.asked_of_node == [] and set(result["ansible_facts"]) == {"gpu_node_preflight"}
    lines = found(result)["variables"]
    assert len(lines) == 2 and "system_driver_branch?" in lines[0] and "verify_expected_gpu_count" in lines[1]
    assert [row["problem"] for row in found(result)["rows"]] == lines and not found(result)["finished"]


def test_a_slip_in_the_word_that_breaks_a_lock_is_told_although_nobody_holds_the_host() -> None:
    result, action = ask(gpuwright_lock="brake")
    (line,) = found(result)["variables"]
    assert action.asked_of_node == [] and line.endswith("[operator.takeover]") and not found(result)["finished"]


def test_a_variable_that_names_what_is_not_there_ends_the_task() -> None:
    with pytest.raises(AnsibleUndefinedVariable, match="nobody_set_this"):
        ask(system_driver_branch="{{ nobody_set_this }}")


def test_a_host_whose_bundle_is_wrong_is_not_contacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_plan, "found_in_bundle", lambda *asked: ({}, [ROW]))
    bundle = {"gpuwright_bundle": "/media", "the_bundle": {"path": "{{ gpuwright_bundle }}", "signer": "SHA256:x"}}
    result, action = ask(**bundle)
    assert action.asked_of_node == [] and found(result)["rows"] == [ROW] and not found(result)["finished"]
    # A play that needs none: the variable is empty there, whatever gpuwright_bundle is.
    assert found(ask(gpuwright_bundle="/media")[0])["rows"] == []


def test_what_a_bundle_has_for_the_plan_decides_what_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    questions = []

    def use(path: Any, signer: str, host: str, question: dict[str, Any], now: Any) -> Any:
        questions.append((str(path), signer, host, question))
        return ({"variables": {"framework_pytorch_wheelhouse": "/wheels"}} if question else {}), []

    monkeypatch.setattr(host_plan, "found_in_bundle", use)
    bundle = {"gpuwright_bundle": "/media", "the_bundle": {"path": "{{ gpuwright_bundle }}", "signer": "SHA256:x"}}
    facts = ask(**bundle)[0]["ansible_facts"]
    assert questions == [("/media", "SHA256:x", "a5-01", asked) for asked in ({}, {"plan": 1})]
    assert facts["gpu_node_bundle"] == {"variables": {"framework_pytorch_wheelhouse": "/wheels"}}
    assert facts["gpu_node_settled"]["inputs"] != ask()[0]["ansible_facts"]["gpu_node_settled"]["inputs"]


PASSED = {"last_verdict": {"verdict": "PASS", "time": "2026-01-05T10:00:00Z"}}


@pytest.mark.parametrize(
    ("variables", "settled"),
    [
        ({}, True),
        ({"gpuwright_full": False}, True),
        ({"gpuwright_full": "off"}, True),
        ({"gpuwright_full": True}, False),
        # As -e gpuwright_full=on and an inventory may say it.
        ({"gpuwright_full": "on"}, False),
        ({"gpuwright_full": "{{ asked }}", "asked": "y"}, False),
        ({"ansible_check_mode": True}, False),
        ({"model_trainer_runs_dir": "/data/runs"}, False),
    ],
)
def test_a_host_with_the_stamp_of_the_same_question_has_nothing_to_do(variables: dict[str, Any], settled: bool) -> None:
    asked = ask(probed(**PASSED))[0]["ansible_facts"]["gpu_node_settled"]
    answer = probed(**PASSED, settled={"inputs": asked["inputs"], "changed": []})
    result = ask(answer, **variables)[0]
    decision = result["ansible_facts"]["gpu_node_settled"]
    assert decision["all"] is settled and decision["roles"] == (list(SETTLING) if settled else [])
    assert found(result)["finished"] is settled
    changed = ask(probed(**PASSED, settled={"inputs": asked["inputs"], "changed": ["units"]}), **variables)[0]
    assert not changed["ansible_facts"]["gpu_node_settled"]["all"]


def test_a_host_that_is_not_reached_ends_the_task_unless_one_stops_all() -> None:
    gone = AnsibleConnectionFailure("Failed to connect to the host via ssh: No route to host")
    with pytest.raises(AnsibleConnectionFailure):
        ask(gone)
    with pytest.raises(AnsibleConnectionFailure):
        # Where nothing is changed, one host stops no other.
        ask(gone, preflight_on_problem="fleet", preflight_host_checks=False)
    (row,) = found(ask(gone, preflight_on_problem="fleet")[0])["rows"]
    assert row["kind"] == "unreachable" and row["stops"] and row["id"].startswith("reach.")


@pytest.mark.parametrize(
    "answer", [AnsibleError("Missing sudo password"), {"failed": True, "msg": "sudo: a password is required"}]
)
def test_what_sudo_says_is_told_and_fails_no_task(answer: Any) -> None:
    result, _action = ask(answer)
    (row,) = found(result)["rows"]
    assert row["id"] == "contact.sudo_password" and row["stops"]
    assert not result.get("failed") and "password" in result["probe"]["msg"] and not found(result)["finished"]


def test_a_plan_that_does_not_fit_is_told() -> None:
    result, _action = ask(system_cuda_version="13.0")
    assert {row["id"] for row in found(result)["rows"]} == {"plan.conflict"}
    assert "gpu_node_plan" not in result["ansible_facts"] and not found(result)["finished"]


def test_another_run_on_the_host_is_a_remark() -> None:
    result, _action = ask(probed(lock={"holder": None, "damaged": "it is no JSON"}), preflight_host_checks=False)
    (row,) = found(result)["rows"]
    assert row["id"] == "operator.busy" and not row["stops"] and found(result)["finished"]


def test_the_words_of_a_node_are_no_template() -> None:
    """A bundle's question is a template, and names what the node said."""
    result, _action = ask(probed(hostname="{{ 7 * 191 }}"))
    assert result["ansible_facts"]["gpu_node"]["hostname"] == "{{ 7 * 191 }}"
    action = Action({}, None)
    action._known, action._facts = {"said": "{{ ansible_facts.gpu_node.hostname }}"}, result["ansible_facts"]
    assert action._value("said") == "{{ 7 * 191 }}"


def test_pins_of_the_inventory_may_be_templates_of_its_own() -> None:
    plan = ask(system_driver_branch="{{ branch }}", branch="535")[0]["ansible_facts"]["gpu_node_plan"]
    assert plan["driver"]["branch"] == "535"


def test_cards_that_the_inventory_does_not_expect_are_told_of_a_finished_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """In check mode, too: its verification would say it at the end of the real run."""
    monkeypatch.setattr(host_plan, "decided", lambda *_: {"all": True, "roles": []})
    given = {"verify_expected_gpu_model": "Tesla T4", "verify_expected_gpu_count": 2}
    told = found(ask(probed(), **given)[0])["rows"]
    assert [row.get("id") or row["problem"] for row in told] == ["gpu.count", "gpu.model"]
    assert not any(row["stops"] for row in told) and "Tesla T4 is expected" in told[1]["problem"]
    assert found(ask(probed(), verify_expected_gpu_model="")[0])["rows"] == []
