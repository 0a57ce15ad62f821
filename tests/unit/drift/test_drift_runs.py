"""playbooks/drift.yml with ansible-playbook itself: this machine takes the place of each node, roles are stand-ins."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY
from left_out_site import Site, reached

SECRET = "correct-horse-battery"
START = ("playbooks/drift.yml", "--check", "--diff")
VERIFY = """
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(argument_spec={"stamp": {"type": "dict"}}, supports_check_mode=True)
module.exit_json(changed=False, verdict="PASS", checks=[])
"""
JUDGE = {"name": "Verify", "gpuwright.node.gpu_verify": {}}


class Drift:
    """Nodes whose driver role writes one file each, and `record()` of the last run."""

    def __init__(self, folder: Path) -> None:
        self.site, self.folder = Site(folder), folder
        (folder / "trainer").symlink_to(REPOSITORY / "trainer")
        # The stand-in of the probe reads as the real one does: in check mode, too.
        probe = folder / "library/gpu_probe.py"
        probe.write_text(probe.read_text().replace("AnsibleModule(", "AnsibleModule(supports_check_mode=True, "))
        (folder / "library/gpu_verify.py").write_text(VERIFY)
        self.site.tasks("verify", [Site.mark("verify"), JUDGE])
        self.role([])

    def role(self, more: list[dict[str, Any]]) -> None:
        file = {"dest": f"{self.folder}/{{{{ inventory_hostname }}}}.conf", "content": "wanted\n", "mode": "0644"}
        hidden = {"dest": f"{self.folder}/{{{{ inventory_hostname }}}}.key", "content": f"{SECRET}\n", "mode": "0600"}
        self.site.tasks(
            "system_driver",
            [
                {"name": "Write the settings", "ansible.builtin.copy": file},
                {"name": "Write the key", "ansible.builtin.copy": hidden, "no_log": True},
                *more,
                Site.mark("system"),
            ],
        )

    def host(self, name: str, content: str = "wanted\n", key: str = SECRET) -> None:
        self.site.host(name)
        for file, text, mode in ((f"{name}.conf", content, 0o644), (f"{name}.key", f"{key}\n", 0o600)):
            (self.folder / file).write_text(text)
            (self.folder / file).chmod(mode)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.site.run(*(arguments or START), GPUWRIGHT_LOG_FOLDER=str(self.folder / "logs"))

    def record(self) -> dict[str, Any]:
        return json.loads((self.folder / "reports/drift/drift.json").read_text())


@pytest.fixture
def drift(tmp_path: Path) -> Drift:
    made = Drift(tmp_path)
    made.host("a1")
    return made


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--check and --diff are missing"),
        (("--diff",), "--check is missing"),
        (("--check",), "--diff is missing"),
    ],
)
def test_without_check_mode_it_refuses_and_names_the_command(drift, arguments: tuple[str, ...], message: str) -> None:
    drift.host("a1", content="other\n")
    done = drift.run("playbooks/drift.yml", *arguments)
    said = " ".join(done.stdout.split())
    assert done.returncode == 1 and "[drift.check]" in said and message in said
    assert "Start it as: ansible-playbook playbooks/drift.yml --check --diff" in said
    assert reached(done.stdout) == {} and (drift.folder / "a1.conf").read_text() == "other\n"


def test_a_run_that_begins_in_the_middle_is_refused(drift) -> None:
    done = drift.run(*START, "--start-at-task", "Write the key")
    assert done.returncode == 1 and "[drift.start_at]" in done.stdout and reached(done.stdout) == {}


def test_a_host_that_is_as_planned_has_no_drift(drift) -> None:
    done = drift.run()
    assert done.returncode == 0, done.stdout
    assert "a1 no drift 0 differences" in " ".join(done.stdout.split()) and "No drift: a plain site.yml" in done.stdout
    found = drift.record()
    assert (found["status"], found["hosts"]["a1"]["status"]) == ("no drift", "no drift")
    assert found["hosts"]["a1"]["differences"] == found["hosts"]["a1"]["unknown"] == []
    assert "To continue" not in done.stdout


def test_what_differs_is_in_the_table_the_record_and_the_page_and_nothing_is_changed(drift) -> None:
    drift.host("a2", content="other\n", key="old-key")
    done = drift.run()
    assert done.returncode == 2, done.stdout
    assert (drift.folder / "a2.conf").read_text() == "other\n" and (drift.folder / "a2.key").read_text() == "old-key\n"
    found = drift.record()
    assert {name: host["status"] for name, host in found["hosts"].items()} == {"a2": "drift", "a1": "no drift"}
    file, key = found["hosts"]["a2"]["differences"]
    assert (file["what"], file["attribute"], file["planned"]) == (f"{drift.folder}/a2.conf", "content", "+1 -1 lines")
    assert file["layer"] == "system" and file["role"] == "system_driver"
    assert "-other" in file["lines"] and "+wanted" in file["lines"]
    assert (key["task"], key["now"]) == ("Write the key", "hidden (no_log)")
    page = (drift.folder / "reports/drift/index.html").read_text()
    assert f"{drift.folder}/a2.conf" in page and "DRIFT" in page and "no drift" in page
    lines = done.stdout.splitlines()
    assert any(line.startswith("a2  DRIFT  2 differences (system 2)") for line in lines), done.stdout
    assert "[drift.found]" in done.stdout
    for text in (done.stdout, page, json.dumps(found)):
        assert SECRET not in text and "old-key" not in text


def test_a_step_that_check_mode_does_not_carry_out_is_unknown_and_no_success(drift) -> None:
    drift.role([{"name": "Load the module", "ansible.builtin.command": "true"}])
    done = drift.run()
    assert done.returncode == 2 and "[drift.unknown]" in done.stdout, done.stdout
    (row,) = drift.record()["hosts"]["a1"]["unknown"]
    assert (row["task"], row["why"]) == ("Load the module", "its module does not run in check mode")
    assert drift.record()["status"] == "unknown" and "UNKNOWN Load the module" in done.stdout


def test_a_failure_that_the_role_deals_with_is_none(drift) -> None:
    fails = {"name": "Try", "ansible.builtin.fail": {"msg": "no"}}
    drift.role([{"block": [fails], "rescue": [{"name": "Go on", "ansible.builtin.meta": "noop"}]}])
    assert drift.run().returncode == 0 and drift.record()["status"] == "no drift"


def test_hosts_that_were_not_seen_whole_are_unknown(drift) -> None:
    drift.site.unreachable("a3")
    drift.site.refused("a4")
    drift.host("a5")
    stop = {"name": "Stop", "ansible.builtin.fail": {"msg": "no such card"}, "when": "inventory_hostname == 'a5'"}
    drift.role([stop])
    done = drift.run()
    assert done.returncode != 0
    hosts = drift.record()["hosts"]
    assert {name: host["status"] for name, host in hosts.items()} == {
        "a1": "no drift", "a3": "unknown", "a4": "unknown", "a5": "unknown"
    }  # fmt: skip
    (lost,), (refused,), (failed,) = (hosts[name]["unknown"] for name in ("a3", "a4", "a5"))
    assert "cannot be reached" in lost["why"] and "[plan.conflict]" in refused["why"]
    assert failed["why"] == "system_driver: no such card"


def test_another_playbook_leaves_no_record(drift) -> None:
    done = drift.run("site.yml", "--check", "--diff")
    assert done.returncode == 0 and "Drift, worst first" not in done.stdout
    assert not (drift.folder / "reports/drift").exists()


@pytest.mark.parametrize(
    ("callback", "place", "instead"),
    [
        ("drift", 'elif place.action == "gpu_verify":', 'elif place.action == "gpu_verify" and told["other_form"]:'),
        ("drift", "            host.others(told, place)", "            host.others(told['other_form'], place)"),
    ],
)
def test_a_result_that_the_callback_cannot_read_is_unknown(drift, callback: str, place: str, instead: str) -> None:
    """As with a newer Ansible, whose results have another form."""
    file = drift.folder / f"plugins/callback/{callback}.py"
    assert file.read_text().count(place) == 1
    file.write_text(file.read_text().replace(place, instead))
    done = drift.run()
    assert done.returncode == 2, done.stdout
    host = drift.record()["hosts"]["a1"]
    assert host["status"] == "unknown" and "[drift.unknown]" in done.stdout
    assert any("its result could not be read" in row["why"] for row in host["unknown"]), host["unknown"]


def test_a_run_without_a_verdict_is_unknown_unless_none_was_asked_for(drift) -> None:
    drift.site.tasks("verify", [Site.mark("verify")])
    done = drift.run()
    (row,) = drift.record()["hosts"]["a1"]["unknown"]
    assert done.returncode == 2 and row["why"] == "no verdict of it was seen"
    assert drift.run(*START, "--tags", "system").returncode == 0
    assert drift.record()["status"] == "no drift"
