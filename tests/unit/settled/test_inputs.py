"""A role is entered again as soon as anything differs from which it decides what to do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.plugin_utils.entering import inputs
from conftest import REPOSITORY

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
def toolkit(tmp_path: Path) -> Path:
    """A copy whose files a test may change: roles and plug-ins."""
    shutil.copytree(
        REPOSITORY / "roles", tmp_path / "roles", ignore=shutil.ignore_patterns("__pycache__", "wheels", "locks")
    )
    shutil.copytree(REPOSITORY / "plugins", tmp_path / "plugins", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def fresh(toolkit: Path, role: str = "system_cuda", **wishes: Any) -> str:
    for cached in (inputs.closure, inputs.settings, inputs.code, inputs._text, inputs._checksum):
        cached.cache_clear()
    value_of: Callable[[str], Any] = lambda name: wishes.get(name, "")  # noqa: E731
    return inputs.checksum(
        role, value_of, wishes.get("plan", PLAN), wishes.get("node", NODE), wishes.get("folders", ()), toolkit / "roles"
    )


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


def test_a_role_that_is_not_included_is_another_matter(toolkit: Path) -> None:
    before = fresh(toolkit)
    with (toolkit / "roles/model_trainer/tasks/main.yml").open("a") as file:
        file.write("# changed\n")
    assert fresh(toolkit) == before and fresh(toolkit, "model_trainer") != before


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
    if name not in ("plan", "node") and name not in inputs.settings("system_cuda"):
        pytest.fail(f"{name} is no setting of system_cuda: {inputs.settings('system_cuda')}")
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
    before = fresh(toolkit, "framework_pytorch", framework_pytorch_lock_file=wrap(lock))
    lock.write_text("torch==2.7.2\n")
    assert fresh(toolkit, "framework_pytorch", framework_pytorch_lock_file=wrap(lock)) != before


def test_a_relative_name_is_looked_for_beside_the_inventory(toolkit: Path, tmp_path: Path) -> None:
    (tmp_path / "inventory").mkdir()
    lock, wish = (
        tmp_path / "inventory/own.txt",
        {"framework_pytorch_lock_file": "own.txt", "folders": (str(tmp_path / "inventory"),)},
    )
    lock.write_text("torch==2.7.1\n")
    before = fresh(toolkit, "framework_pytorch", **wish)
    lock.write_text("torch==2.7.2\n")
    assert fresh(toolkit, "framework_pytorch", **wish) != before


def test_a_warning_that_counts_days_is_no_reason(toolkit: Path) -> None:
    assert fresh(toolkit, plan={**PLAN, "warnings": ["the matrix is 181 days old"]}) == fresh(toolkit)


def test_the_trainer_is_made_from_its_sources(monkeypatch: pytest.MonkeyPatch, toolkit: Path) -> None:
    before, other = fresh(toolkit, "model_trainer"), fresh(toolkit, "framework_pytorch")
    monkeypatch.setattr(inputs.trainer_wheel, "source_digest", lambda: "another trainer")
    assert fresh(toolkit, "model_trainer") != before and fresh(toolkit, "framework_pytorch") == other


def roles_of(playbook: str) -> list[dict[str, Any]]:
    (play,) = yaml.safe_load((REPOSITORY / "playbooks" / f"{playbook}.yml").read_text())
    return [role for role in play["roles"] if role["role"].rpartition(".")[2] not in inputs.OF_EVERY_PLAY]


@pytest.mark.parametrize("playbook", ["system", "framework", "model"])
def test_the_playbooks_leave_out_what_is_settled(playbook: str) -> None:
    for role in roles_of(playbook):
        name = role["role"].rpartition(".")[2]
        assert (
            name in inputs.SETTLING
            and role["when"] == f"'{name}' not in ansible_facts.gpu_node_settled.roles | default([])"
        )


def test_every_settling_role_is_in_a_playbook_and_in_its_order() -> None:
    named = [
        role["role"].rpartition(".")[2] for playbook in ("system", "framework", "model") for role in roles_of(playbook)
    ]
    assert [*named, "verify"] == list(inputs.SETTLING)


@pytest.mark.parametrize("playbook", ["system", "framework", "model"])
def test_no_role_includes_a_later_one_of_its_play(playbook: str) -> None:
    """The callback counts what a role includes as a part of it, by the roles' order."""
    names = [role["role"].rpartition(".")[2] for role in roles_of(playbook)]
    for place, name in enumerate(names):
        assert not set(inputs.closure(name)) & set(names[place + 1 :]), name
