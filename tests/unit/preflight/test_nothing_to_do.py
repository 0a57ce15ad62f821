"""A host is worked through again as soon as anything differs from which a run decides, or if the last was not whole."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible import context
from ansible.module_utils.common.collections import ImmutableDict
from ansible_collections.gpuwright.node.plugins.plugin_utils import nothing_to_do
from ansible_collections.gpuwright.node.plugins.plugin_utils.role_options import role_specs
from conftest import REPOSITORY
from play_roles import plays
from play_roles import roles_of as listed

PLAN: dict[str, Any] = {"driver": {"branch": "580"}}
NODE: dict[str, Any] = {
    "os": {"id": "rhel"},
    "in_use": [],
    "disks": {"/": 1},
    "last_verdict": None,
    "memory_mib": 2,
    "numa": {"0": {"cpus": "0-1", "memory_mib": 200}},
    "gpus": [{"pci_id": "0000:3b:00.0", "link": {"width_max": 16, "speed_now": "8.0 GT/s PCIe", "width_now": 16}}],
}


@pytest.fixture
def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy whose files a test may change: roles and plug-ins; argument specs are those of the checkout."""
    monkeypatch.setattr(nothing_to_do, "role_specs", lambda roles: role_specs())
    shutil.copytree(
        REPOSITORY / "roles", tmp_path / "roles", ignore=shutil.ignore_patterns("__pycache__", "wheels", "locks")
    )
    # Links of this folder lead back to the checkout.
    (tmp_path / "playbooks").mkdir()
    for file in (REPOSITORY / "playbooks").glob("*.yml"):
        shutil.copy(file, tmp_path / "playbooks")
    shutil.copytree(REPOSITORY / "plugins", tmp_path / "plugins", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def question(toolkit: Path, **wishes: Any) -> dict[str, Any]:
    cached = [nothing_to_do.settled_roles, nothing_to_do.settings, nothing_to_do.code, nothing_to_do._options]
    for one in (*cached, nothing_to_do._text, nothing_to_do._checksum):
        one.cache_clear()
    value_of: Callable[[str], Any] = lambda name: wishes.get(name, "")  # noqa: E731
    plan, node = wishes.get("plan", PLAN), wishes.get("node", NODE)
    return nothing_to_do.question_of(value_of, plan, node, wishes.get("folders", ()), toolkit / "roles")


def fresh(toolkit: Path, **wishes: Any) -> str:
    return str(question(toolkit, **wishes)["inputs"])


def test_equal_from_equal(toolkit: Path) -> None:
    assert fresh(toolkit) == fresh(toolkit)


@pytest.mark.parametrize(
    "name",
    [
        "roles/system_cuda/tasks/packages.yml",
        "roles/system_cuda/vars/main.yml",
        "roles/system_cuda/defaults/main.yml",
        "roles/system_version_lock/tasks/planned.yml",
        "roles/system_packages/tasks/state.yml",
        "plugins/modules/missing_packages.py",
        "plugins/module_utils/packages/locks.py",
        "plugins/filter/login_user.yml",
        "playbooks/system.yml",
        "roles/verify/tasks/doctor.yml",
    ],
)
def test_other_code(toolkit: Path, name: str) -> None:
    before = fresh(toolkit)
    with (toolkit / name).open("a") as file:
        file.write("# changed\n")
    assert fresh(toolkit) != before


def test_a_new_file_of_the_role(toolkit: Path) -> None:
    before = fresh(toolkit)
    (toolkit / "roles/system_cuda/templates").mkdir()
    (toolkit / "roles/system_cuda/templates/new.j2").write_text("")
    assert fresh(toolkit) != before


def test_a_role_of_no_layer_is_another_matter(toolkit: Path) -> None:
    before = fresh(toolkit)
    with (toolkit / "roles/kickstart/tasks/main.yml").open("a") as file:
        file.write("# changed\n")
    assert fresh(toolkit) == before


def test_a_cache_of_python_is_no_code(toolkit: Path) -> None:
    before = fresh(toolkit)
    (toolkit / "plugins/modules/__pycache__").mkdir()
    (toolkit / "plugins/modules/__pycache__/x.pyc").write_bytes(b"x")
    assert fresh(toolkit) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("system_cuda_version_lock", True),
        ("system_cuda_profile", "x"),
        ("gpuwright_busy", "force"),
        ("plan", {"driver": {"branch": "570"}}),
        ("node", {**NODE, "os": {"id": "rocky"}}),
        ("node", {**NODE, "kernel": {"boot_id": "another boot"}}),
        ("node", {**NODE, "numa": {"0": {"cpus": "0-3", "memory_mib": 200}}}),
        ("node", {**NODE, "gpus": [{"pci_id": "0000:3b:00.0", "link": {"width_max": 8}}]}),
        ("node", {**NODE, "gpus": []}),
    ],
)
def test_other_wishes(toolkit: Path, name: str, value: Any) -> None:
    if name not in ("plan", "node") and name not in nothing_to_do.settings():
        pytest.fail(f"{name} is no setting: {nothing_to_do.settings()}")
    assert fresh(toolkit, **{name: value}) != fresh(toolkit)


def numa(cpus: str, memory_mib: int) -> dict[str, Any]:
    return {"0": {"cpus": cpus, "memory_mib": memory_mib}}


def gpus(width_max: int, **now: Any) -> list[dict[str, Any]]:
    return [{"pci_id": "0000:3b:00.0", "link": {"width_max": width_max, **now}}]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("in_use", ["a job"]),
        ("disks", {"/": 2}),
        ("last_verdict", {"verdict": "PASS"}),
        # A balloon lends memory, and an idle card's link slows down.
        ("memory_mib", 1),
        ("numa", numa("0-1", 100)),
        ("gpus", gpus(16, speed_now="2.5 GT/s PCIe", width_now=8)),
    ],
)
def test_what_changes_by_itself_is_no_reason(toolkit: Path, name: str, value: Any) -> None:
    assert fresh(toolkit, node={**NODE, name: value}) == fresh(toolkit)


@pytest.mark.parametrize("wrap", [str, lambda path: [str(path)], lambda path: {"x": {"y": str(path)}}])
def test_a_file_of_the_controller_counts_by_its_content(toolkit: Path, tmp_path: Path, wrap: Callable) -> None:
    lock = tmp_path / "own.txt"
    lock.write_text("torch==2.7.1\n")
    before = fresh(toolkit, framework_pytorch_lock_file=wrap(lock))
    lock.write_text("torch==2.7.2\n")
    assert fresh(toolkit, framework_pytorch_lock_file=wrap(lock)) != before


def test_a_relative_name_is_looked_for_beside_the_inventory(toolkit: Path, tmp_path: Path) -> None:
    (tmp_path / "inventory").mkdir()
    lock, wish = (
        tmp_path / "inventory/own.txt",
        {"framework_pytorch_lock_file": "own.txt", "folders": (str(tmp_path / "inventory"),)},
    )
    lock.write_text("torch==2.7.1\n")
    before = fresh(toolkit, **wish)
    lock.write_text("torch==2.7.2\n")
    assert fresh(toolkit, **wish) != before


def test_a_warning_that_counts_days_is_no_reason(toolkit: Path) -> None:
    assert fresh(toolkit, plan={**PLAN, "warnings": ["the matrix is 181 days old"]}) == fresh(toolkit)


def test_the_trainer_is_made_from_its_sources(monkeypatch: pytest.MonkeyPatch, toolkit: Path) -> None:
    before = fresh(toolkit)
    monkeypatch.setattr(nothing_to_do.trainer_wheel, "source_digest", lambda: "another trainer")
    assert fresh(toolkit) != before


def test_what_of_the_node_is_named_and_no_secret_is_among_it(toolkit: Path) -> None:
    asked = question(
        toolkit,
        model_trainer_runs_dir="/data/runs",
        system_training_user="researcher",
        system_training_researchers=["ann", "{{ no name }}"],
        system_kernel_secure_boot_password_hash="/a/secret",
        verify_level="quick",
        framework_pytorch_repository_password="secret",
        plan={"cudnn": {"prefix": "/opt/gpuwright/cudnn/9"}, "x": ["/a\nb", 7]},
    )
    assert asked["names"] == ["/data/runs", "/opt/gpuwright/cudnn/9", "ann", "researcher"]


def roles_of(playbook: str) -> list[dict[str, Any]]:
    (play,) = plays(playbook)
    return [role for role in listed(play) if role["role"].rpartition(".")[2] not in nothing_to_do.OF_EVERY_PLAY]


def test_every_role_of_a_layer_is_in_its_playbook_without_a_condition_and_in_its_order() -> None:
    roles = [role for layer in list(nothing_to_do.INSTALLED) for role in roles_of(layer)]
    assert all(set(role) == {"role", "tags"} for role in roles)
    assert [*(role["role"].rpartition(".")[2] for role in roles), "verify"] == list(nothing_to_do.SETTLING)


@pytest.mark.parametrize("layer", list(nothing_to_do.INSTALLED))
def test_the_end_of_a_layer_is_noted_after_its_last_role(layer: str) -> None:
    (play,) = plays(layer)
    (whole,) = play["tasks"]
    noted, given_back = whole["block"][-1], whole["always"][0]
    assert play["vars"]["preflight_layer"] == layer and nothing_to_do.DONE in noted["ansible.builtin.set_fact"]
    assert given_back["ansible.builtin.import_role"]["tasks_from"] == "layer_done"
    # A run of some tags has an end too, and gives the lock back.
    assert noted["tags"] == given_back["tags"] == ["always"] and "tags" not in whole


def node(**changes: Any) -> dict[str, Any]:
    stamp = {"inputs": "i", "changed": []}
    return {"last_verdict": {"verdict": "PASS"}, "reboot": {"required": False}, "settled": stamp, **changes}


@pytest.mark.parametrize(
    ("changes", "settled"),
    [
        ({}, True),
        ({"last_verdict": {"verdict": "WARN"}}, True),
        *(({"last_verdict": {"verdict": verdict}}, False) for verdict in ("FAIL", "UNKNOWN", "")),
        ({"last_verdict": None}, False),
        ({"reboot": {"required": True}}, False),
        ({"settled": {}}, False),
        ({"settled": None}, False),
        ({"settled": {"inputs": "of other code", "changed": []}}, False),
        ({"settled": {"inputs": "i", "changed": ["units"]}}, False),
    ],
)
def test_when_a_host_has_nothing_to_do(changes: dict[str, Any], settled: bool) -> None:
    assert nothing_to_do.is_settled(node(**changes), "i") is settled


def host(**changes: Any) -> dict[str, Any]:
    """Variables of a host at the end of a whole run of site.yml."""
    facts = {"gpu_node_settled": {"inputs": "i", "names": ["trainer"]}, "gpu_node": {"reboot": {"required": False}}}
    whole = {"ansible_run_tags": ["all"], "ansible_skip_tags": [], nothing_to_do.DONE: ["system", "framework", "model"]}
    return {"ansible_facts": {**facts, **changes.pop("facts", {})}, "ansible_check_mode": False, **whole, **changes}


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "CLIARGS", ImmutableDict())


@pytest.mark.parametrize(
    "changes", [{}, {"__system_busy_later": False}, {"ansible_skip_tags": None}, {"ansible_skip_tags": ["never"]}]
)
def test_a_whole_run_may_leave_a_stamp(changes: dict[str, Any]) -> None:
    assert nothing_to_do.wanted_stamp(host(**changes)) == {"inputs": "i", "names": ["trainer"]}


@pytest.mark.parametrize(
    "changes",
    [
        {nothing_to_do.DONE: ["system", "framework"]},
        # A layer by itself, and a verification by itself.
        {nothing_to_do.DONE: ["model"]},
        {nothing_to_do.DONE: []},
        {"ansible_check_mode": True},
        {"ansible_run_tags": ["system"]},
        {"ansible_skip_tags": ["system_tuning"]},
        # A task failed, and was rescued.
        {"ansible_failed_task": {"name": "x"}},
        {"__framework_pytorch_later": True},
        {"facts": {"gpu_node": {"reboot": {"required": True}}}},
        {"facts": {"gpu_node_settled": {}}},
        {"facts": {"gpu_node_settled": None}},
    ],
)
def test_what_was_not_whole_leaves_none(changes: dict[str, Any]) -> None:
    assert nothing_to_do.wanted_stamp(host(**changes)) == {}


@pytest.mark.parametrize("option", ["check", "start_at_task", "step"])
def test_a_partial_run_leaves_none(monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    monkeypatch.setattr(context, "CLIARGS", ImmutableDict({option: "x"}))
    assert nothing_to_do.wanted_stamp(host()) == {}


def test_who_leaves_something_for_another_run_says_so() -> None:
    """A role that finds somebody at work, or keeps what is in use, and ends without a failure."""
    texts = {path: path.read_text() for path in (REPOSITORY / "roles").glob("*/tasks/*.yml")}
    said = {path.parent.parent.name for path, text in texts.items() if nothing_to_do.LATER.search(text)}
    asks = {path.parent.parent.name for path, text in texts.items() if "gpuwright.node.workload_info:" in text}
    # These change nothing, or are no part of site.yml.
    assert asks - said <= {"rollout", "patch", "accept", "drain", "sweep"}, asks - said


SETTLED = {"all": True, "inputs": "i", "names": [], "play": "Preflight", "judges_only": False}


def finished(**changes: Any) -> dict[str, Any]:
    """Variables of a host with nothing to do, in the verification of site.yml."""
    facts = {"gpu_node_settled": SETTLED, "gpu_node": {}, **changes.pop("facts", {})}
    return {**host(facts=facts), nothing_to_do.DONE: [], nothing_to_do.ENDS: True, **changes}


def test_a_whole_run_with_nothing_to_do_may_rely_on_the_last_smoke_test() -> None:
    assert nothing_to_do.may_rely(finished())


@pytest.mark.parametrize(
    "changes",
    [
        # A rollout, an upgrade, a patch day, a rollback, an acceptance.
        {nothing_to_do.ENDS: None},
        # A verification by itself.
        {"facts": {"gpu_node_settled": {**SETTLED, "judges_only": True}}},
        {"facts": {"gpu_node_settled": {"all": True}}},
        # Roles are entered: something differs, the last verdict was bad, or gpuwright_full asks for it.
        {"facts": {"gpu_node_settled": {**SETTLED, "all": False}}},
        {"facts": {"gpu_node_settled": {}}},
        {"facts": {"gpu_node_settled": None}},
        # What a fact cache has of another run.
        {"facts": {"gpu_node_preflight": {"run": "other:1:1"}}},
        {"ansible_check_mode": True},
        {"ansible_run_tags": ["verify"]},
        {"ansible_skip_tags": ["system_tuning"]},
    ],
)
def test_every_other_run_tests(changes: dict[str, Any]) -> None:
    assert not nothing_to_do.may_rely(finished(**changes))


@pytest.mark.parametrize("option", ["check", "start_at_task", "step"])
def test_a_partial_run_tests(monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    monkeypatch.setattr(context, "CLIARGS", ImmutableDict({option: "x"}))
    assert not nothing_to_do.may_rely(finished())


def test_only_the_playbook_of_the_verification_ends_a_run_and_by_itself_it_only_judges() -> None:
    """From both follows that site.yml is run, whose first play reads the hosts to install."""
    playbooks = {file.stem: yaml.safe_load(file.read_text()) for file in (REPOSITORY / "playbooks").glob("*.yml")}
    ends = [
        name for name, plays in playbooks.items() for play in plays if nothing_to_do.ENDS in (play.get("vars") or {})
    ]
    assert ends == ["verify"]
    first = {name: plays[0] for name, plays in playbooks.items()}
    assert first["verify"]["ansible.builtin.import_playbook"] == "preflight.yml"
    assert first["verify"]["vars"]["preflight_judges_only"] is True
    assert first["site"]["ansible.builtin.import_playbook"] == "preflight.yml" and "vars" not in first["site"]
    importing = {name for name, plays in playbooks.items() for play in plays
                 if play.get("ansible.builtin.import_playbook") == "verify.yml"}  # fmt: skip
    assert importing == {"site"}
