"""A copy of this checkout whose nodes are made up: site.yml, its plays, preflight and the summary are the real ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from conftest import REPOSITORY
from test_plan_questions import make_host

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
PARTS = ("site.yml", "ansible.cfg", "playbooks", "roles", "library", "plugins", "collections", "callback_plugins")
# Each of them says in the output where it was, and changes nothing.
MARKING = {"system_driver": "system", "framework_pytorch": "framework", "model_trainer": "model", "verify": "verify"}
LAYERS = tuple(MARKING.values())
# This machine takes the place of every node; what the probe says of it is a file, named by preflight_agents.
PROBE = """
import json
from ansible.module_utils.basic import AnsibleModule
parameters = {{"agents": {{"type": "list"}}, "kernels": {{"type": "list"}}, "settled": {{"type": "bool"}}}}
module = AnsibleModule(argument_spec=parameters)
with open("{folder}/" + module.params["agents"][0] + ".json") as file:
    module.exit_json(changed=False, ansible_facts={{"gpu_node": json.load(file)}})
"""
CPU = {"framework_pytorch_build": "cpu", "framework_pytorch_version": "2.13.0", "verify_expected_gpu_count": 0}
USE: dict[str, list] = {"gpu_processes": [], "users": [], "jobs": []}


class Site:
    """`site.host(...)` for each node, then `site.run(arguments)`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hosts: dict[str, dict[str, Any]] = {}
        for part in PARTS:
            source = REPOSITORY / part
            if source.is_symlink():
                (folder / part).symlink_to(source.readlink())
            elif source.is_file():
                shutil.copy(source, folder)
            else:
                # Compiled files are copied too, and with them each run begins sooner.
                shutil.copytree(source, folder / part, symlinks=True)
        for role in (folder / "roles").iterdir():
            if role.name != "preflight":
                self.tasks(role.name, [])
        for name, layer in MARKING.items():
            self.tasks(name, [self.mark(layer)])
        # The repositories answer that they have everything.
        for family in ("debian", "redhat"):
            self.tasks("preflight", [], f"rehearsal_{family}.yml")
        (folder / "nodes").mkdir()
        (folder / "library" / "gpu_probe.py").write_text(PROBE.format(folder=folder / "nodes"))

    @staticmethod
    def mark(layer: str) -> dict[str, Any]:
        return {"ansible.builtin.debug": {"msg": "MARK {{ inventory_hostname }} " + layer}}

    def tasks(self, role: str, tasks: list[dict[str, Any]], file: str = "main.yml") -> None:
        if (role, file) == ("verify", "main.yml"):
            # The plays of the verification have the two parts of its role.
            self.tasks(role, [], "ready.yml")
            # No node is verified, so none has a verdict that could end its run.
            self.tasks(role, [], "verdict.yml")
            self.tasks(role, tasks, "judge.yml")
        path = self.folder / "roles" / role / "tasks" / file
        path.write_text("---\n" + yaml.safe_dump(tasks, sort_keys=False))

    def host(self, name: str, gpus: str = "", in_use: dict[str, Any] = USE, **variables: Any) -> None:
        key = {"module_key": {"state": "none"}, "module_key_enrolled": None, "module_signature": None}
        node = make_host(gpus, "debian 12", secure_boot="disabled", in_use=in_use, **key)
        node["os"] |= {"family": "debian", "major": 12}
        (self.folder / "nodes" / f"{name}.json").write_text(json.dumps(node))
        own = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable}
        own |= {"preflight_agents": [name], "preflight_space_percent": 0, **({} if gpus else CPU)}
        if gpus:
            own |= {"verify_expected_gpu_count": len(gpus.split()), "system_driver_source": "distribution"}
        self.hosts[name] = {**own, **variables}

    def busy(self, name: str, program: str = "python3", **variables: Any) -> None:
        process = {"pid": 77, "name": program, "user": "alice", "since": ""}
        self.host(name, "T4", {**USE, "gpu_processes": [process]}, **variables)

    def unreachable(self, name: str, **variables: Any) -> None:
        gone = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
        self.host(name, **{**gone, **variables})
        # Looking for a Python comes first then, and ssh's reason is never lost to a broken pipe.
        del self.hosts[name]["ansible_python_interpreter"]

    def refused(self, name: str, **variables: Any) -> None:
        """CUDA 13 knows no V100."""
        self.host(name, "V100", **{"system_cuda_version": "13.0", **variables})

    def write(self) -> None:
        (self.folder / "hosts.yml").write_text(json.dumps({"gpu_nodes": {"hosts": self.hosts}}))

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        self.write()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        return subprocess.run(
            [str(PLAYBOOK), "-i", "hosts.yml", *arguments],
            cwd=self.folder,
            env={**kept, "ANSIBLE_NOCOLOR": "1", "HOME": str(self.folder), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=450,
        )


def reached(output: str) -> dict[str, list[str]]:
    """Layers that each host went through, in order."""
    found: dict[str, list[str]] = {}
    for line in output.splitlines():
        words = line.strip().removeprefix("msg: ").split()
        if words[:1] == ["MARK"]:
            found.setdefault(words[1], []).append(words[2])
    return found


def summary(output: str) -> str:
    """The end of the output, its line breaks taken out."""
    assert output.count("GPU nodes, worst first") == 1, output
    return " ".join(output.split("GPU nodes, worst first\n")[1].split())


def go_on(output: str) -> str:
    """The command to go on with."""
    (line,) = [line for line in output.splitlines() if line.startswith("To continue: ")]
    return line.removeprefix("To continue: ")
