"""Upgrades of made-up nodes: playbooks and the roles upgrade, rollout and rollback are real, layers mark or break."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY
from left_out_site import Site, reached
from rollout_site import Rollout, table

# Says what it was asked for; `broken` cannot put back.
KEPT = """
import json, os
from ansible.module_utils.basic import AnsibleModule
names = ("state", "family", "source", "driver", "patterns", "also", "files", "links", "parts")
kinds = dict(patterns="list", also="list", files="list", links="list", parts="list")
module = AnsibleModule(argument_spec={{n: {{"type": kinds.get(n, "str")}} for n in names}}, supports_check_mode=True)
if not module.check_mode:
    with open("{folder}/kept.log", "a") as file:
        file.write(module.params["state"] + "\\n")
if module.params["state"] == "kept" and os.path.exists("{folder}/full"):
    module.fail_json(msg="no space is left for the kept packages [rollback.space]")
if module.params["state"] == "put_back" and os.path.exists("{folder}/broken"):
    module.fail_json(msg="a file of the kept packages is gone [rollback.packages]")
module.exit_json(changed=module.params["state"] in ("kept", "put_back"), driver="570.172.08", packages=["a", "b"],
                 mib=312, environment="old", install=["a"], remove=[], open=True)
"""
# As the real one, where nothing can be built: what has no module has none afterwards.
BUILT = """
import json, os
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(argument_spec=dict(kernels=dict(type="list"), version={{}}, flavour={{}}))
node = json.load(open("{folder}/nodes/a1.json"))
found = node["nvidia"]["modules"]
wanted = module.params["version"]
unbuilt = [kernel for kernel in module.params["kernels"] if (found.get(kernel) or {{}}).get("version") != wanted]
if unbuilt:
    module.fail_json(msg="no module for " + unbuilt[0] + " [driver.unbuilt]")
module.exit_json(changed=False, built=[], unbuilt=[])
"""
THREE = ("a1", "a2", "a3")
FAILS = {
    "name": "Fail",
    "ansible.builtin.fail": {"msg": "the module is not built"},
    "when": "fault | default('') == 'fails'",
}


class Upgrades(Rollout):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for role in ("upgrade", "rollback", "rollout"):
            shutil.copytree(REPOSITORY / "roles" / role, folder / "roles" / role, dirs_exist_ok=True)
        for name in ("main.yml", "nothing_to_do.yml"):
            shutil.copy(REPOSITORY / "roles/preflight/tasks" / name, folder / "roles/preflight/tasks" / name)
        probe = folder / "library/gpu_probe.py"
        # As the real one, it also reads in check mode.
        probe.write_text(probe.read_text().replace("spec=parameters)", "spec=parameters, supports_check_mode=True)"))
        (folder / "library/kept_driver.py").write_text(KEPT.format(folder=folder))
        (folder / "library/driver_module.py").write_text(BUILT.format(folder=folder))
        self.site.tasks("system_driver", [FAILS, Site.mark("system")])
        self.site.tasks("verify", [Site.mark("again")], "kept.yml")

    def node(self, name: str, **changes: Any) -> None:
        self.site.host(name)
        path = self.folder / "nodes" / f"{name}.json"
        node = json.loads(path.read_text())
        module = {"version": "570.172.08", "flavour": "proprietary", "licence": "NVIDIA"}
        node["nvidia"] = {"loaded": module, "modules": {node["kernel"]["running"]: module}, "user_space": "570.172.08"}
        node |= {
            "kept_plan": {"driver": "570 proprietary 570-dkms"},
            "reboot": {"required": False, "reasons": []},
            **changes,
        }
        path.write_text(json.dumps(node))

    def play(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.site.run(f"playbooks/{name}.yml", *arguments, **self.environment())

    def drains(self) -> Path:
        """The log of the site's scheduler, which is asked by commands of the site."""
        log, words = self.folder / "drains", {"drain_by": "command", "drain_owner": "alice", "drain_reason": "upgrade"}
        for word in ("drain", "return"):
            script = self.folder / f"site-{word}"
            script.write_text(f'#!/bin/sh\necho {word} "$GPUWRIGHT_NODE" >> {log}\n')
            script.chmod(0o755)
            words["drain_command" if word == "drain" else "drain_return_command"] = str(script)
        for host in self.site.hosts.values():
            host |= words
        return log

    def kept(self) -> list[str]:
        log = self.folder / "kept.log"
        return log.read_text().split() if log.exists() else []


@pytest.fixture
def upgrades(tmp_path: Path) -> Upgrades:
    made = Upgrades(tmp_path)
    for name in THREE:
        made.node(name)
    return made


def test_check_mode_prints_the_difference_and_the_batches_and_touches_nothing(upgrades: Upgrades) -> None:
    done = upgrades.play("upgrade", "--check")
    assert done.returncode == 0, done.stdout
    assert "570 proprietary 570-dkms" in done.stdout and "->" in done.stdout
    assert 'Rollout "default": 3 hosts in' in done.stdout
    assert upgrades.kept() == [] and reached(done.stdout) == {}


def test_what_is_there_is_kept_before_the_first_change_and_said_in_mib(upgrades: Upgrades) -> None:
    done = upgrades.play("upgrade")
    assert done.returncode == 0, done.stdout
    assert table(done.stdout) == {"done": "a1..a3"}
    assert upgrades.kept() == ["kept", "closed"] * 3
    # Each layer stands on the one before.
    assert reached(done.stdout) == dict.fromkeys(THREE, ["system", "framework", "model", "verify"])
    text = " ".join(done.stdout.split())
    assert "Kept for the way back: driver 570.172.08, 2 packages, 312 MiB" in text
    # The difference of all hosts is on the screen before the first one is changed.
    assert done.stdout.rindex("->", 0, done.stdout.index("MARK")) > 0


def test_a_canary_that_fails_is_returned_verified_and_stops_the_others(upgrades: Upgrades) -> None:
    upgrades.fault("a1", "fails")
    done = upgrades.play("upgrade")
    assert done.returncode == 2, done.stdout
    assert upgrades.kept() == ["kept", "read", "put_back", "closed"]
    assert reached(done.stdout) == {"a1": ["again"]}
    assert table(done.stdout) == {"returned": "a1", "not reached": "a2, a3"}
    text = " ".join(done.stdout.split())
    assert "[upgrade.returned]" in text and "the module is not built" in text and "[rollout.canary]" in text
    assert upgrades.record()["hosts"]["a1"]["state"] == "returned"


def test_a_host_that_cannot_be_returned_is_named_with_both_reasons(upgrades: Upgrades) -> None:
    upgrades.fault("a1", "fails")
    (upgrades.folder / "broken").touch()
    done = upgrades.play("upgrade")
    text = " ".join(done.stdout.split())
    assert done.returncode == 2 and "[upgrade.not_returned]" in text
    assert "the module is not built" in text and "a file of the kept packages is gone" in text
    assert table(done.stdout)["failed"] == "a1"
    # What was kept stays open, so that nothing overwrites it.
    assert upgrades.kept() == ["kept", "read", "put_back"]


def test_what_fails_before_the_first_change_gives_the_node_back(upgrades: Upgrades) -> None:
    log = upgrades.drains()
    (upgrades.folder / "full").touch()
    done = upgrades.play("upgrade", "-l", "a1")
    assert done.returncode == 2 and "[rollback.space]" in done.stdout, done.stdout
    assert log.read_text().split() == ["drain", "a1", "return", "a1"] and reached(done.stdout) == {}
    assert table(done.stdout)["failed"] == "a1"


def test_without_a_way_back_it_says_so(upgrades: Upgrades) -> None:
    upgrades.fault("a1", "fails")
    done = upgrades.play("upgrade", "-e", "upgrade_keep=nothing")
    assert "[upgrade.failed]" in done.stdout and "upgrade_keep is nothing" in " ".join(done.stdout.split())
    assert upgrades.kept() == []


@pytest.mark.parametrize(
    ("id", "changes", "arguments"),
    [("upgrade.first", {"kept_plan": None}, ()), ("upgrade.keep", {}, ("-e", "framework_pytorch_keep=0"))],
)
def test_a_host_without_a_state_to_return_to_is_refused(
    upgrades: Upgrades, id: str, changes: dict[str, Any], arguments: tuple[str, ...]
) -> None:
    upgrades.node("a1", **changes)
    done = upgrades.play("upgrade", "-l", "a1", *arguments)
    assert done.returncode != 0 and f"[{id}]" in done.stdout, done.stdout
    assert reached(done.stdout) == {} and upgrades.kept() == []


def test_a_node_that_was_not_rebooted_has_not_passed(upgrades: Upgrades) -> None:
    upgrades.node("a1", reboot={"required": True, "reasons": ["module 570 is loaded, 580 is installed"]})
    done = upgrades.play("upgrade", "-l", "a1")
    assert done.returncode == 2 and "[upgrade.reboot]" in done.stdout, done.stdout


def test_tags_are_refused(upgrades: Upgrades) -> None:
    done = upgrades.play("upgrade", "--tags", "verify")
    assert done.returncode != 0 and "[rollout.tags]" in done.stdout and upgrades.kept() == []


def test_a_rollback_puts_back_and_verifies(upgrades: Upgrades) -> None:
    done = upgrades.play("rollback", "-l", "a1")
    assert done.returncode == 0, done.stdout
    assert upgrades.kept() == ["read", "put_back"] and reached(done.stdout) == {"a1": ["again"]}
    assert "Back to driver 570.172.08 (1 packages, 312 MiB kept)" in " ".join(done.stdout.split())


def test_a_driver_that_is_back_and_not_built_is_named(upgrades: Upgrades) -> None:
    upgrades.node("a1", nvidia={"loaded": None, "modules": {}, "user_space": "570.172.08"})
    done = upgrades.play("rollback", "-l", "a1")
    assert done.returncode == 2 and "[driver.unbuilt]" in done.stdout, done.stdout
