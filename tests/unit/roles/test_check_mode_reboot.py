"""Check mode announces the reboot that what it would install would ask for, and proves nothing that it has not done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import REPOSITORY
from own_collection import own_collection
from test_system_busy import Site

ROLES = REPOSITORY / "roles"
# The reboot itself is refused on this machine, in words that name its reason.
REFUSED = "Reboot required ({}), not done: the controller itself is never rebooted"
RUNNING = "4.18.0-477.10.1.el8_8.x86_64"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("ANSIBLE_STDOUT_CALLBACK", "default")
    return Site(tmp_path)


def read(path: str) -> Any:
    return yaml.safe_load((ROLES / path).read_text())


def known(role: str, *names: str) -> dict[str, Any]:
    found = read(f"{role}/vars/main.yml")
    return {name: found[name] for name in names} | {
        "system_reboot_policy": "auto",
        "system_reboot_timeout": 900,
        "gpu_node_plan": {"driver": {"present": False, "branch": "580"}},
        "gpu_node": {
            "verified": False,
            "reboot": {"required": False, "reasons": []},
            "nvidia": {"modules": {RUNNING: None}},
            "kernel": {"running": RUNNING, "next_boot": RUNNING},
        },
    }


@pytest.mark.parametrize(
    ("arguments", "more", "announced"),
    [
        (["--check"], {}, True),
        ([], {}, False),
        (["--check"], {"gpu_node_plan": {"driver": {"present": True, "branch": "580"}}}, False),
        (["--check"], {"__system_driver_in_use": "alice trains"}, False),
        (["--check"], {"system_kernel_target": "6.12.117+deb13-amd64"}, False),
    ],
    ids=["check", "run", "present", "in-use", "image"],
)
def test_a_new_driver(site: Site, arguments: list[str], more: dict[str, Any], announced: bool) -> None:
    (task,) = [row for row in read("system_driver/tasks/main.yml") if row["name"].startswith("Reboot if")]
    variables = {**known("system_driver", "__system_driver_announced"), **more}
    assert site.play([], [task], *arguments, **variables) == 0, site.log
    assert (REFUSED.format("driver 580 is new") in site.text) is announced, site.log


@pytest.mark.parametrize("target", ["", "6.12.117+deb13-amd64"], ids=["node", "image"])
def test_a_machine_that_only_builds_an_image_is_not_rebooted(site: Site, target: str) -> None:
    """Debian 13's headers bring the kernel that they are for, which then seems to be what boots next."""
    (task,) = [row for row in read("system_driver/tasks/main.yml") if row["name"].startswith("Reboot if")]
    variables = {**known("system_driver", "__system_driver_announced"), "system_kernel_target": target}
    node: dict[str, Any] = variables["gpu_node"]
    node["kernel"]["next_boot"] = "6.12.117+deb13-amd64"
    node["nvidia"]["modules"]["6.12.117+deb13-amd64"] = {"version": "550.163.01"}
    node["reboot"] = {"required": True, "reasons": ["the next kernel has a module"]}
    assert site.play([], [task], **variables) == 0, site.log
    assert (REFUSED.format("the next kernel has a module") in site.text) is not bool(target), site.log


@pytest.mark.parametrize(("arguments", "code"), [(["--check"], 0), ([], 2)], ids=["check", "run"])
def test_a_newer_kernel(site: Site, arguments: list[str], code: int) -> None:
    """Without check mode, a kernel that was installed and does not run stays an error."""
    site.module("newer", "{'changed': check}")
    _dnf, _apt, _probe, boot, prove, *_plan = read("system_kernel/tasks/update.yml")
    asked: list[dict[str, Any]] = [
        {"gpuwright.node.newer": {}, "register": "__system_kernel_dnf"},
        {"ansible.builtin.debug": {}, "register": "__system_kernel_apt", "when": False},
    ]
    variables = known("system_kernel", "__system_kernel_announced")
    if not arguments:
        variables["gpu_node"]["kernel"]["next_boot"] = "4.18.0-553.el8.x86_64"
    assert site.play([], [*asked, boot, prove], *arguments, **variables) == code, site.log
    newer = "a newer kernel" if arguments else "kernel 4.18.0-553.el8.x86_64"
    assert REFUSED.format(f"{newer} replaces {RUNNING}") in site.text, site.log


@pytest.mark.parametrize(("arguments", "code"), [(["--check"], 0), ([], 2)], ids=["check", "run"])
def test_a_reboot_that_was_only_announced_is_not_proved(
    site: Site, tmp_path: Path, arguments: list[str], code: int
) -> None:
    tasks = read("system_reboot/tasks/main.yml")
    decide = tasks[0]["ansible.builtin.set_fact"]
    decide["__system_reboot_refusal"] = decide["__system_reboot_refusal"].replace("ansible_connection in", "'ssh' in")
    site.module("reboot_node", "{'changed': True}")
    (tmp_path / "reboot.yml").write_text(yaml.safe_dump([{"ansible.builtin.fail": {"msg": "it did not reboot"}}]))
    look = own_collection(tmp_path) / "plugins/modules/workload_info.py"
    look.write_text(look.read_text().replace('["bob"]', "[]"))
    variables = {**known("system_driver"), "system_reboot_limit": 1, "system_reboot_reason": "nouveau is loaded"}
    assert site.play([""], tasks, *arguments, **variables) == code, site.log
    assert site.ran() == ["reboot_node check" if arguments else "reboot_node real"]
    assert ("it did not reboot" in site.text) is not bool(arguments)
