"""Sweeps of made-up nodes: playbooks, plug-ins, drains, batches and history are the real ones.

Slurm's commands are stand-ins, and so are the verification, which leaves a report, and the program of the burn-in.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from accept_site import AcceptSite
from conftest import REPOSITORY
from left_out_site import PLAYBOOK
from nodes_and_speeds import answer, device
from rollout_site import LOOK
from slurm_stand_in import Slurm

TAKEN = "gpuwright: planned work: sweep (gpuwright)"
RULES = {"sweep_share_percent": 100, "sweep_idle_minutes": 0, "sweep_minutes": 1}
# Answers for the node that the timeout names.
SMI = """
import json
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(argument_spec={{"timeout": {{"type": "int"}}}})
with open("{folder}/smi/" + str(module.params["timeout"])) as file:
    module.exit_json(changed=False, **json.load(file))
"""
GPU = {"pci_id": "0000:3b:00.0", "name": "Tesla V100-PCIE-16GB"}


class SweepSite(AcceptSite):
    """`node(...)` for each, then `sweep(...)`; `history(name)`, and `slurm` has the nodes' states."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.slurm, self.reports = Slurm(folder), folder / "reports"
        (folder / "trainer").symlink_to(REPOSITORY / "trainer")
        shutil.copy(REPOSITORY / "roles/sweep/tasks/main.yml", folder / "roles/sweep/tasks/main.yml")
        (folder / "library/workload_info.py").write_text(LOOK.format(folder=folder))
        (folder / "library/nvidia_smi_info.py").write_text(SMI.format(folder=folder))
        for name in ("boot", "smi"):
            (folder / name).mkdir()
        variables = folder / "roles/sweep/vars/main.yml"
        real = "[/proc/sys/kernel/random/boot_id, /proc/uptime]"
        assert real in variables.read_text()
        made_up = f'["{folder}/boot/{{{{ inventory_hostname }}}}", /proc/uptime]'
        variables.write_text(variables.read_text().replace(real, made_up))
        released = {"msg": "RELEASED {{ inventory_hostname }}"}
        self.site.tasks("operator_lock", [{"ansible.builtin.debug": released}], "release.yml")
        broken = {"msg": "the bundle is damaged"}
        self.site.tasks("bundle", [{"ansible.builtin.fail": broken, "when": "breaks | default('') == 'bundle'"}])
        content = "{{ __verified | combine({'time': now(utc=true).strftime('%Y-%m-%dT%H:%M:%SZ')}) | to_json }}"
        keep = {"content": content, "dest": f"{self.reports}/{{{{ inventory_hostname }}}}.json"}
        fails = {"that": "__verified.verdict == 'PASS'", "fail_msg": "the verification has failed"}
        stand_in: list[dict[str, Any]] = [
            {"ansible.builtin.file": {"path": str(self.reports), "state": "directory"}},
            {"ansible.builtin.copy": keep, "when": "__verified.verdict is defined"},
            {"ansible.builtin.assert": fails},
        ]
        self.site.tasks("verify", stand_in, "kept.yml")
        self.busy({})

    def busy(self, work: dict[str, str]) -> None:
        (self.folder / "busy.json").write_text(json.dumps(work))

    def gpu_node(self, name: str, bits: str = "aaaa", factor: float = 1.0, state: str = "idle", **more: Any) -> None:
        """A node with one card.

        more: verdict of its verification, the reason of its drain, since when it is busy, and of itself under load the
        `boot`, what nvidia-smi says (`smi`), and the role that `breaks`
        """
        number = 100 + len(self.nodes)
        self.node(name, verify_nvidia_smi_timeout=number, breaks=more.pop("breaks", ""))
        shown = {"reachable": True, "message": "1 GPU", "gpus": [{**GPU, "serial": f"S-{name}", "uuid": f"GPU-{name}"}]}
        (self.folder / f"boot/{name}").write_text("first")
        (self.folder / f"smi/{number}").write_text(json.dumps(shown))
        changes = {f"boot/{name}": more.pop("boot", ""), f"smi/{number}": json.dumps(more.pop("smi", {}))}
        then = {file: text for file, text in changes.items() if text not in ("", "{}")}
        products = {"of": "8192", "bits": {"fp32": bits}}
        told = {"driver": "580", "gpus": [{**GPU, "serial": f"S-{name}", "uuid": f"GPU-{name}"}]}
        self.nodes[name]["alone"] = answer(device(factor=factor, products=products), cards=told)
        self.nodes[name]["then"] = then
        verdict = more.pop("verdict", "PASS")
        check = {"id": "gpu.heat", "status": verdict, "message": "91 C", "action": "Clean the fan."}
        report = {"schema": 1, "host": name, "verdict": verdict, "checks": [check], "readings": {}, "expectations": {}}
        self.site.hosts[name]["__verified"] = report if verdict else {}
        self.slurm.node(name, state, more.pop("reason", "none"), **more)

    def sweep(self, *arguments: str, by: str = "slurm", **variables: Any) -> subprocess.CompletedProcess[str]:
        (self.folder / "nodes.json").write_text(json.dumps(self.nodes))
        self.site.write()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        own = {"GPUWRIGHT_LOG_FOLDER": str(self.folder / "logs"), "PATH": f"{self.slurm.folder}:{os.environ['PATH']}"}
        given = json.dumps({**RULES, "drain_by": by, "verify_report_dir": str(self.reports), **variables})
        return subprocess.run(
            [str(PLAYBOOK), "-i", "hosts.yml", "playbooks/sweep.yml", "-e", given, *arguments],
            cwd=self.folder,
            env={**kept, "ANSIBLE_NOCOLOR": "1", "HOME": str(self.folder), **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
        )

    def released(self, output: str) -> set[str]:
        return set(re.findall(r"RELEASED (\S+?)\W*$", output, re.MULTILINE))

    def history(self, name: str) -> dict[str, Any]:
        return json.loads((self.reports / f"history/{name}.json").read_text())

    def reasons(self) -> dict[str, str]:
        """Nodes that are out of service, and why."""
        return {name: self.slurm.get(name)["reason"] for name in self.slurm.drained()}
