"""Acceptances of made-up nodes: playbook, role, lookup and certificates are the real ones, the program is a stand-in.

The stand-in meets the others of its group in a folder, as torchrun does in a port: a node that is missing, or that
starts only when the others have ended, makes the group fail.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from conftest import REPOSITORY
from left_out_site import PLAYBOOK, Site
from nodes_and_speeds import answer, device

ROLE = "roles/accept"
PROGRAM = """
import json, os, sys, time
from pathlib import Path

options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
host, folder = Path(__file__).parent.name, Path("{folder}")
node = json.loads((folder / "nodes.json").read_text())[host]
with (folder / "calls").open("a") as calls:
    calls.write(json.dumps([host, sys.argv[1], options]) + "\\n")
if sys.argv[1] == "port":
    answer = {{"port": 29500, "problem": ""}}
elif sys.argv[1] == "node":
    answer = node["alone"]
    # What the load does to the node.
    for name, text in node.get("then", {{}}).items():
        (folder / name).write_text(text)
else:
    place = folder / "-".join(["meet", options["--address"], options["--port"], options["--round"]])
    place.mkdir(exist_ok=True)
    fault = node.get("fault")
    if fault == "dies":
        sys.exit(9)
    if fault != "hangs":
        # Whole at once: the others read a file as soon as it is there.
        (folder / f"speed-{{host}}").write_text(str(node["speed"]))
        (folder / f"speed-{{host}}").rename(place / host)
    end = time.monotonic() + {patience}
    while len(list(place.iterdir())) < int(options["--nodes"]) and time.monotonic() < end:
        time.sleep(0.05)
    met = [float(file.read_text()) for file in place.iterdir()]
    if len(met) < int(options["--nodes"]):
        answer = {{"record": None, "problem": "it did not finish within {patience} s and was stopped"}}
    else:
        series = {{"reduce_gb_s": [min(met)] * 3, "steps_per_s": [10 * min(met)] * 3}}
        record = {{"schema": 1, "kind": "group", "series": series, "problems": [], "faults": [], "own_product_s": 0.1}}
        answer = {{"record": record, "problem": ""}}
print("A greeting of the site")
print(json.dumps(dict(answer, round=int(options.get("--round", 0)))))
"""


class AcceptSite:
    """`node(...)` for each, then `run(...)`; `certificate(name)`, `calls()`."""

    def __init__(self, folder: Path, patience: float = 90.0) -> None:
        self.site, self.folder = Site(folder), folder
        # What it reads and plans is no part of an acceptance; the lock, and looking for work, are empty, too.
        self.site.tasks("preflight", [])
        shutil.copy(REPOSITORY / ROLE / "tasks/main.yml", folder / ROLE / "tasks/main.yml")
        program = folder / ROLE / "files/burn_in"
        (program / "on_node.py").write_text(PROGRAM.format(folder=folder, patience=patience))
        variables = folder / ROLE / "vars/main.yml"
        text = variables.read_text()
        for pattern, value in {
            r"__accept_folder: .*": f"__accept_folder: {folder}/programs/{{{{ inventory_hostname }}}}",
            r"__accept_needs: .*": f"__accept_needs: [{sys.executable}]",
            r"__accept_program: .*": f'__accept_program: [{sys.executable}, "{{{{ __accept_folder }}}}/on_node.py"]',
            r"__accept_poll_seconds: .*": "__accept_poll_seconds: 1",
            r"__accept_step_poll_seconds: .*": "__accept_step_poll_seconds: 1",
        }.items():
            text, count = re.subn(rf"(?m)^{pattern}$", value, text)
            assert count == 1, pattern
        variables.write_text(text)
        (folder / "programs").mkdir()
        self.nodes: dict[str, Any] = {}

    def node(self, name: str, speed: float = 1.0, alone: float = 1.0, fault: str = "", **variables: Any) -> None:
        """A node with a V100; `speed` of its groups and `alone` of its own burn-in, 1.0 for a healthy one."""
        self.nodes[name] = {"speed": speed, "alone": answer(device(factor=alone)), "fault": fault}
        self.site.host(name, "V100", accept_address=name, **variables)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "nodes.json").write_text(json.dumps(self.nodes))
        self.site.write()
        own = {"GPUWRIGHT_LOG_FOLDER": str(self.folder / "logs")}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        return subprocess.run(
            [str(PLAYBOOK), "-i", "hosts.yml", "playbooks/accept.yml", *arguments],
            cwd=self.folder,
            env={**kept, "ANSIBLE_NOCOLOR": "1", "HOME": str(self.folder), **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=1500,
        )

    def certificate(self, name: str) -> dict[str, Any]:
        return json.loads((self.folder / f"reports/acceptance/{name}.json").read_text())

    def page(self, name: str) -> str:
        return (self.folder / f"reports/acceptance/{name}.html").read_text()

    def findings(self, name: str, status: str = "FAIL") -> list[str]:
        return [row["id"] for row in self.certificate(name)["findings"] if row["status"] == status]

    def calls(self) -> list[list[Any]]:
        file = self.folder / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def left(self) -> list[str]:
        """What is on the nodes afterwards: programs, with the files of Ansible's jobs, which lie nowhere else."""
        assert not (self.folder / ".ansible_async").exists()
        return [path.name for path in (self.folder / "programs").iterdir()]
