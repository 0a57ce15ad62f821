"""Rollouts of made-up nodes: the playbooks, plug-ins and the record are the real ones, the roles are empty or break.

`fault` of a host says what happens on it in the system layer: lost, silent, cut, failed, rescued, hangs, never_back,
or nothing.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from conftest import REPOSITORY
from left_out_site import Site

# Looks for work in a file beside the inventory, {host: who works there}, in place of this machine's processes.
LOOK = """
import json
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(argument_spec={{"touches": {{}}, "agents": {{"type": "list"}}}})
host = module.params["agents"][0]
with open("{folder}/busy.json") as file:
    who = json.load(file).get(host, "")
module.exit_json(changed=False, in_way=[who] if who else [], who=who, users=[], workloads=[])
"""
HANGING = "sleep 300"
GONE = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}


def when(fault: str) -> dict[str, str]:
    return {"when": f"fault | default('') == '{fault}'"}


BREAKS: list[dict[str, Any]] = [
    {"name": "Lose the connection for good", "ansible.builtin.set_fact": GONE,
     "when": "fault | default('') in ['lost', 'never_back']"},
    {"name": "Go on with a lost host", "ansible.builtin.raw": "true", **when("lost")},
    {"name": "Wait for a host that never comes back", "ansible.builtin.wait_for_connection": {"timeout": 1, "sleep": 1},
     **when("never_back")},
    # What Ansible says if the connection is there and nobody answers on it.
    {"name": "Ask a host that hangs", **when("silent"),
     "ansible.builtin.fail": {"msg": "Timeout (32s) waiting for privilege escalation prompt: "}},
    # Ansible's copy and template say that they have failed if the connection is lost in their middle.
    {"name": "Copy to a host that is gone", **when("cut"), "ansible.builtin.fail":
     {"msg": "Failed to connect to the host via ssh: ssh: connect to host 10.0.0.3 port 22: No route to host"}},
    {"name": "Fail", "ansible.builtin.fail": {"msg": "the driver is not built"}, **when("failed")},
    {"block": [{"name": "Fail at first", "ansible.builtin.fail": {"msg": "not yet"}}],
     "rescue": [{"name": "Try something else", "ansible.builtin.meta": "noop"}], **when("rescued")},
    {"name": "Hang", "ansible.builtin.raw": HANGING, **when("hangs")},
]  # fmt: skip


class Rollout:
    """`hosts("a1", ...)`, `run(...)`; then `record()` and `reached()`."""

    def __init__(self, folder: Path) -> None:
        self.site, self.folder = Site(folder), folder
        (folder / "trainer").symlink_to(REPOSITORY / "trainer")
        self.site.tasks("preflight", [])
        self.site.tasks("system_driver", [*BREAKS, Site.mark("system")])
        (folder / "library/workload_info.py").write_text(LOOK.format(folder=folder))
        self.busy({})

    def hosts(self, *names: str) -> None:
        for name in names:
            self.site.host(name)

    def fault(self, name: str, fault: str) -> None:
        self.site.hosts[name]["fault"] = fault

    def busy(self, work: dict[str, str]) -> None:
        (self.folder / "busy.json").write_text(json.dumps(work))

    def run(self, *arguments: str, batches: Any = None) -> subprocess.CompletedProcess[str]:
        asked = ["-e", json.dumps({"gpuwright_batches": batches})] if batches else []
        return self.site.run("playbooks/rollout.yml", *asked, *arguments, **self.environment())

    def environment(self) -> dict[str, str]:
        return {"GPUWRIGHT_LOG_FOLDER": str(self.folder / "logs")}

    def record(self, name: str = "default") -> dict[str, Any]:
        (path,) = (self.folder / "logs").glob(f"rollout-{name}-*.json")
        return json.loads(path.read_text())

    def states(self) -> dict[str, str]:
        return {name: host["state"] for name, host in self.record()["hosts"].items()}


def table(output: str) -> dict[str, str]:
    """Groups of the last table and their hosts."""
    end = output.split("PLAY RECAP")[-1]
    return {word: hosts for word, hosts in re.findall(r"^  (\w[\w ]*?) +\d+  (\S.*)$", end, re.MULTILINE)}
