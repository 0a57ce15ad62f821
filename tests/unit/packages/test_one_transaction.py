"""On a fresh node driver and toolkit come in one transaction; what preflight has found is not asked for again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.plugin_utils.layers import CHECKED
from ansible_collections.gpuwright.node.plugins.plugin_utils.variables.rules import problems_by_roles
from conftest import REPOSITORY
from given_facts import as_facts

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
DRIVER = ["nvidia-driver-cuda", "kmod-nvidia-latest-dkms"]
TOOLKIT = ["cuda-toolkit-12-9", "libcudnn9-cuda-12-9.10.2.21-1", "libnccl-2.27.5-1+cuda12.9"]
PLAN: dict[str, Any] = {
    "driver": {"present": False, "packages": DRIVER, "version": "", "branch": "580"},
    "platform": {"packages": ["nvidia-fabricmanager"], "exact": []},
    "cuda": {"package": TOOLKIT[0], "compiler": ["g++"], "version": "12.9"},
    "cudnn": {"packages": TOOLKIT[1:2], "wheel": ""},
    "nccl": {"packages": TOOLKIT[2:]},
}
FRESH: dict[str, Any] = {
    "gpu_node_plan": PLAN,
    "system_packages_there": ["gcc", "g++"],
    "system_version_lock_owners": ["kernel", "driver"],
}


def planned(**parts: dict[str, Any]) -> dict[str, Any]:
    """A fresh node with another plan."""
    return {**FRESH, "gpu_node_plan": {**PLAN, **{name: {**PLAN[name], **part} for name, part in parts.items()}}}


# Host: what the run knows of it, and whether its toolkit comes with the driver.
HOSTS: dict[str, tuple[dict[str, Any], bool]] = {
    "fresh": (FRESH, True),
    "nobody-holds": ({**FRESH, "system_version_lock_owners": []}, True),
    "driver-there": ({**FRESH, "system_packages_there": ["gcc", DRIVER[1]]}, False),
    "toolkit-there": ({**FRESH, "system_packages_there": [TOOLKIT[1]]}, False),
    # Held packages must first be allowed to change, which the role of their holder does.
    "toolkit-held": ({**FRESH, "system_version_lock_owners": ["cuda", "kernel"]}, False),
    "holders-unknown": ({name: FRESH[name] for name in FRESH if name != "system_version_lock_owners"}, False),
    "never-asked": ({name: FRESH[name] for name in FRESH if name != "system_packages_there"}, False),
    "driver-stays": (planned(driver={"present": True}), False),
    "no-toolkit": (planned(cuda={"package": "", "compiler": []}), False),
}


def answers(folder: Path, roles: list[str], *words: str) -> dict[str, Any]:
    """{host: its driver's transaction}, from a play in which these roles follow."""
    say = {
        "transaction": "{{ __system_driver_transaction }}",
        "older": "{{ __system_driver_toolkit_downgrade | bool }}",
    }
    play = {
        "hosts": "all",
        "connection": "local",
        "gather_facts": False,
        "vars_files": [str(REPOSITORY / "roles/system_driver/vars/main.yml")],
        "vars": {"say": say},
        "pre_tasks": [
            {
                "ansible.builtin.set_fact": {"gpu_node_plan": "{{ gpu_node_plan }}", "cacheable": True},
                "tags": ["always"],
            },
            {"ansible.builtin.debug": {"msg": "<{{ inventory_hostname }} {{ say | to_json }}>"}, "tags": ["always"]},
            {"ansible.builtin.meta": "end_play", "tags": ["always"]},
        ],
        "roles": roles,
    }
    (folder / "play.yml").write_text(json.dumps([play]))
    (folder / "hosts.yml").write_text(
        json.dumps({"all": {"hosts": {name: known for name, (known, _) in HOSTS.items()}}})
    )
    done = subprocess.run(
        [PLAYBOOK, "-i", "hosts.yml", "play.yml", *words],
        cwd=folder,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / "collections")},
        capture_output=True,
        text=True,
        timeout=200,
    )
    text = re.sub(r"\s*\n\s*", " ", done.stdout.replace('\\"', '"'))
    return {name: json.loads(said) for name, said in re.findall(r"<(\S+) (\{.*?\})>", text)}


def test_driver_and_toolkit_come_together_where_neither_is_there(tmp_path: Path) -> None:
    found = answers(tmp_path, ["gpuwright.node.system_cuda"])
    together = [*DRIVER, *TOOLKIT, "g++"]
    for name, (known, first) in HOSTS.items():
        own = ["nvidia-fabricmanager"] if known["gpu_node_plan"]["driver"]["present"] else DRIVER
        assert found[name]["transaction"] == (together if first else own), name
    assert {row["older"] for row in found.values()} == {False}


@pytest.mark.parametrize(
    ("roles", "words"),
    [
        (["gpuwright.node.system_runtime"], []),
        (["gpuwright.node.system_cuda"], ["--tags", "system_driver"]),
        (["gpuwright.node.system_cuda"], ["--skip-tags", "system_cuda"]),
        (["gpuwright.node.system_cuda"], ["--check"]),
    ],
    ids=["another role", "chosen tags", "left out", "check mode"],
)
def test_a_run_in_which_the_toolkits_role_does_not_follow_installs_none(
    tmp_path: Path, roles: list[str], words: list[str]
) -> None:
    found = answers(tmp_path, roles, *words)
    assert found["fresh"]["transaction"] == DRIVER


@pytest.mark.parametrize("name", ["allow_downgrade", "version", "cudnn_version", "nccl_version"])
def test_who_asks_for_an_older_toolkit_is_heard(tmp_path: Path, name: str) -> None:
    words = ["-e", f"system_cuda_{name}={'true' if name == 'allow_downgrade' else '1.2'}"]
    assert answers(tmp_path, ["gpuwright.node.system_cuda"], *words)["fresh"]["older"] is True


def test_both_roles_take_the_same_settings_for_it() -> None:
    texts = [
        yaml.safe_load((REPOSITORY / f"roles/{role}/vars/main.yml").read_text())[name]
        for role, name in (
            ("system_driver", "__system_driver_toolkit_downgrade"),
            ("system_cuda", "__system_cuda_downgrade"),
        )
    ]
    mine, theirs = (set(re.findall(r"system_cuda_[a-z_]+", text)) for text in texts)
    assert mine == theirs and len(mine) == 4
    lists = [
        yaml.safe_load((REPOSITORY / f"roles/{role}/vars/main.yml").read_text())[name]
        for role, name in (("system_driver", "__system_driver_transaction"), ("system_cuda", "__system_cuda_packages"))
    ]
    assert set(re.findall(r"ansible_facts\.gpu_node_plan\.(?:cuda|cudnn|nccl)\.[a-z]+", "".join(lists))) == {
        f"ansible_facts.gpu_node_plan.{part}"
        for part in ("cuda.package", "cuda.compiler", "cudnn.packages", "nccl.packages")
    }


@pytest.mark.parametrize(
    ("offered", "asked"),
    [
        (None, True),
        (["gcc", "kernel-devel-4.18.0-1"], False),
        # The kernel may be updated, or there is another one since.
        (["gcc"], True),
        (["gcc", "kernel-devel-4.18.0-0"], True),
    ],
    ids=["no preflight", "found", "not asked for", "of another kernel"],
)
def test_headers_that_preflight_has_found_are_not_asked_for_again(
    tmp_path: Path, offered: list[str] | None, asked: bool
) -> None:
    """The condition of the role's own include, by Ansible."""
    tasks = yaml.safe_load((REPOSITORY / "roles/system_kernel/tasks/main.yml").read_text())
    (when,) = [task["when"] for task in tasks if task.get("ansible.builtin.include_tasks") == "available.yml"]
    known: dict[str, Any] = {
        "gpu_node": {"kernel": {"with_headers": []}},
        "gpu_node_plan": {"kernel": {"releases": ["4.18.0-1"], "devel": ["kernel-devel-4.18.0-1"]}},
    }
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars_files": [str(REPOSITORY / "roles/system_kernel/vars/main.yml")],
        "vars": as_facts(known if offered is None else {**known, "gpu_node_offered": offered}),
        "tasks": [{"ansible.builtin.debug": {"msg": "it is asked"}, "when": when}],
    }
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    done = subprocess.run(
        [PLAYBOOK, "-i", "localhost,", "play.yml"], cwd=tmp_path, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0 and ("it is asked" in done.stdout) is asked, done.stdout + done.stderr


@pytest.mark.parametrize("family", ["debian", "redhat"])
def test_what_preflight_remembers_for_it_is_what_it_asked_for(family: str) -> None:
    """Under a name that is no variable of a role: a second preflight of the same run takes it for no typing error."""
    tasks = yaml.safe_load((REPOSITORY / f"roles/preflight/tasks/rehearsal_{family}.yml").read_text())
    *_others, asking, remembering = tasks
    (module,) = [value for name, value in asking.items() if name in ("ansible.builtin.apt", "ansible.builtin.dnf")]
    assert remembering["ansible.builtin.set_fact"] == {"gpu_node_offered": module["name"]}
    assert problems_by_roles({"gpu_node_offered": []}, CHECKED) == []
