"""Every module of the layers' tasks is known by what it looks at, or leaves its role to be entered every time."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.plugin_utils.entering import inputs, things
from conftest import REPOSITORY
from gpuwright.settled.watch import KINDS

# Modules of steps that run only where something is changed, after which nothing is recorded.
OF_CHANGES = {
    "apt_components", "module_signing_key", "operator_lock", "package_lock", "pip", "preflight_checks", "raw",
    "reboot_node", "scratch_disk", "wait_for_connection",
}  # fmt: skip


def modules(role: str) -> set[str]:
    found: set[str] = set()
    for folder in ("tasks", "handlers"):
        for file in (REPOSITORY / "roles" / role / folder).glob("*.yml"):
            collect(yaml.safe_load(file.read_text()) or [], found)
    return found


def collect(tasks: list[dict[str, Any]], found: set[str]) -> None:
    for task in tasks:
        for word in ("block", "rescue", "always"):
            collect(task.get(word, []), found)
        found.update(key.rpartition(".")[2] for key in task if "." in key)


@pytest.mark.parametrize("role", sorted({name for role in inputs.SETTLING for name in inputs.closure(role)}))
def test_no_module_is_forgotten(role: str) -> None:
    known = set(things.RULES) | things.OF_NO_NODE | OF_CHANGES
    assert modules(role) <= known, modules(role) - known


def test_rules_name_kinds_that_the_node_knows() -> None:
    args = {"path": "/a", "dest": "/b", "src": "/c", "paths": ["/d"], "name": "e", "reposdir": "/f", "id": "g",
            "key_file": "/h", "key_wanted": True, "folder": "/i", "logins": "/j", "sources": "/k",
            "argv": ["rpm", "-q"], **dict.fromkeys(things.TUNING, "")}  # fmt: skip
    seen = [thing for rule in things.RULES.values() for thing in rule(args) or []]
    assert {kind for kind, _name in seen} <= set(KINDS) and len(seen) >= len(things.RULES)


GPU_RUN = "/usr/local/bin/gpu-run"


def result(**args: Any) -> dict[str, Any]:
    return {"changed": False, "invocation": {"module_args": args}}


@pytest.mark.parametrize(
    ("action", "told", "loop", "seen"),
    [
        ("ansible.builtin.copy", result(dest="/etc/a", path="/etc/a"), False, [("file", "/etc/a")]),
        ("file", {"results": [result(path="/a"), result(path="/b")]}, True, [("file", "/a"), ("file", "/b")]),
        ("ansible.builtin.file", {"results": [result(path="/a"), {"skipped": True}]}, True, [("file", "/a")]),
        ("ansible.builtin.file", {"results": []}, True, []),
        ("ansible.builtin.find", result(paths=["/etc/x"], recurse=False), False, [("folder", "/etc/x")]),
        ("ansible.builtin.find", result(paths=["/etc/x"], recurse=True), False, [("tree", "/etc/x")]),
        ("ansible.builtin.systemd", result(name="x.service", enabled=True), False, [("unit", "x.service")]),
        ("ansible.builtin.systemd", result(name="x", state="started"), False, [("unit", "x"), ("active", "x")]),
        ("ansible.builtin.systemd", result(daemon_reload=True), False, []),
        ("ansible.builtin.command", result(argv=["rpm", "-qa"]), False, [("packages", "")]),
        ("ansible.builtin.command", result(_raw_params=f"{GPU_RUN} --json"), False, [("file", GPU_RUN)]),
        ("gpuwright.node.dnf_repository", result(reposdir="/r", id="epel", key_file="/k", key_wanted=True), False,
         [("folder", "/r"), ("folder", "/etc/yum.repos.d"), ("folder", "/etc/yum/repos.d"),
          ("folder", "/etc/distro.repos.d"), ("file", "/etc/dnf/dnf.conf"), ("file", "/k"), ("packages", "")]),
        ("gpuwright.node.apt_repository", result(id="x", sources="/s", logins="/l", key_file="/k"), False,
         [("file", "/k"), ("file", "/l/gpuwright-x.conf"), ("file", "/etc/apt/sources.list"), ("folder", "/s")]),
        ("gpuwright.node.files", result(entries=[{"path": "/a"}, {"path": ""}]), False, [("file", "/a")]),
        ("gpuwright.node.files", result(entries=[{"path": "/a"}], units=[{"name": "x", "state": "started"}]), False,
         [("file", "/a"), ("unit", "x"), ("active", "x")]),
        ("gpuwright.node.files", result(entries=[], trees=[{"dest": "/t"}], prove=["/bin/x", "--json"]), False,
         [("tree", "/t"), ("file", "/bin/x")]),
        ("gpuwright.node.current_environment", result(folder="/v", path="/v/a"), False,
         [("file", "/v/current"), ("folder", "/v")]),
        ("ansible.builtin.set_fact", {"changed": False}, False, []),
        ("ansible.builtin.set_fact", {"ansible_facts": {"x": 1}}, False, []),
        ("ansible.builtin.set_fact", {"ansible_facts": {"system_packages_state": {}}}, False, [("packages", "")]),
        ("ansible.builtin.set_fact", {"ansible_facts": {"system_kernel_other_sources": []}}, False,
         [("file", "/etc/apt/sources.list"), ("folder", "/etc/apt/sources.list.d"), ("file", "/etc/dnf/dnf.conf"),
          ("folder", "/etc/yum.repos.d"), ("folder", "/etc/yum/repos.d"), ("folder", "/etc/distro.repos.d")]),
        ("gpuwright.node.gpu_verify", result(level="quick"), False, []),
        # Nobody knows what these looked at.
        ("ansible.builtin.command", result(argv=["dkms", "autoinstall"]), False, None),
        ("ansible.builtin.command", result(_raw_params=""), False, None),
        ("ansible.builtin.shell", result(_raw_params="rpm -qa"), False, None),
        ("community.general.seboolean", result(name="x"), False, None),
        ("ansible.builtin.copy", {"censored": "the output has been hidden", "changed": False}, False, None),
        ("ansible.builtin.copy", {"results": [result(dest="/a"), {"censored": "hidden"}]}, True, None),
    ],
)  # fmt: skip
def test_what_a_task_looked_at(action: str, told: dict[str, Any], loop: bool, seen: list | None) -> None:
    assert things.things_of(action, told, loop) == seen


def test_a_settled_role_has_looked_at_all_files_of_repositories() -> None:
    """What is in them decides whether the role takes sources over: a new file must have the next run enter it."""
    tasks = yaml.safe_load((REPOSITORY / "roles/system_kernel/tasks/main.yml").read_text())
    (facts,) = [task["ansible.builtin.set_fact"] for task in tasks if "ansible.builtin.set_fact" in task]
    assert things.things_of("ansible.builtin.set_fact", {"ansible_facts": facts}, loop=False)
