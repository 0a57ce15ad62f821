"""Four finished GPU servers of the test fleet: one is provisioned and kept as an image, from which all four are made.

What they run is real but for the hardware and NVIDIA's packages (tests/fleet/README.md). Slurm and munge
are on them, too; gpu_cluster.py starts them.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml
from cluster import REPOSITORY, image, paths, podman, wait_for

cli = importlib.import_module("gpuwright_fleet.cli")
containers = importlib.import_module("gpuwright_fleet.containers")
readable = importlib.import_module("gpuwright_fleet.shell").readable
sys.path.append(str(REPOSITORY / "tests"))
playbook_run = importlib.import_module("playbook_run")

FLEET = "nodes"
NAMES = ("a5-81", "a5-82", "a5-83", "a5-84")
STATE = REPOSITORY / ".fleet" / FLEET
INVENTORY = STATE / "inventory.yml"
KEPT = "localhost/gpuwright-nodes"
# An older driver, and a toolkit that goes with it and with the newer one.
OLD = {"system_driver_branch": "570", "system_cuda_version": "12.8"}
# What a finished node is made from: a change of it makes a new image.
CODE = ("library", "plugins", "roles", "playbooks", "trainer/gan_trainer")
# Of Debian's packages, but without apt and dpkg: a RHEL server has none.
SLURM_FILES = (
    *("usr/bin/sinfo", "usr/bin/scontrol", "usr/bin/squeue", "usr/bin/munge", "usr/sbin/munged"),
    *("usr/sbin/slurmd", "usr/sbin/slurmd-wlm", "usr/sbin/slurmstepd", "usr/sbin/slurmstepd-wlm"),
    *("etc/alternatives/slurmd", "etc/alternatives/slurmstepd", "usr/lib/x86_64-linux-gnu"),
    *("usr/lib/systemd/system/slurmd.service", "usr/lib/systemd/system/munge.service"),
)
PLAY_SECONDS = 2400


def do(host: str, script: str, check: bool = True, timeout: float = 120) -> str:
    """Run a script as root on a host, without ssh; what it prints on both streams."""
    words = (containers.container_name(FLEET, host), "sh", "-c", f"{{ {script}\n}} 2>&1")
    done = podman("exec", *words, check=False, timeout=timeout)
    assert done.returncode == 0 or not check, f"{host}: {script}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


def play(playbook: str, *arguments: str, **variables: Any) -> Any:
    """Run a playbook on the nodes; `variables` become extra variables."""
    return playbook_run.run_playbook(INVENTORY, PLAY_SECONDS, playbook, "-l", "gpu_nodes", *arguments, **variables)


class Running:
    """A run of ansible-playbook that is not waited for."""

    def __init__(self, log: Path, words: Sequence[str]) -> None:
        self.log = log
        program = str(Path(sys.executable).with_name(words[0]))
        environment = {**os.environ, "ANSIBLE_NOCOLOR": "1"}
        with log.open("w") as out:
            self.process = subprocess.Popen(
                [program, *words[1:]], cwd=REPOSITORY, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    @property
    def said(self) -> str:
        return self.log.read_text()

    def ended(self) -> int:
        """Its exit status."""
        return self.process.wait(timeout=PLAY_SECONDS)

    def until(self, question: Callable[[], Any], what: str) -> None:
        """Wait while it runs."""
        wait_for(lambda: question() or self.process.poll() is not None, what, PLAY_SECONDS)
        assert self.process.poll() is None, f"it ended before {what}:\n{self.said}"

    def table(self) -> dict[str, str]:
        """Groups of a rollout's last table and their hosts."""
        return dict(re.findall(r"^  (\w[\w ]*?) +\d+  (\S.*)$", self.said.split("PLAY RECAP")[-1], re.MULTILINE))

    def printed_command(self) -> list[str]:
        """The command with which a rollout says that it goes on."""
        (line,) = re.findall(r"^To continue with those that are not done: (.*)$", self.said, re.MULTILINE)
        return shlex.split(line)


def bring_slurm(host: str) -> None:
    """The programs, units and libraries of Slurm and munge; of a library that the host has, it keeps its own."""
    root = podman("image", "mount", image()).stdout.strip()
    try:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["tar", "-C", root, "-cf", f"{folder}/slurm.tar", *SLURM_FILES], check=True)
            podman("cp", f"{folder}/slurm.tar", f"{containers.container_name(FLEET, host)}:/var/tmp/slurm.tar")
    finally:
        podman("image", "unmount", image(), check=False)
    do(host, "tar -C / --skip-old-files -xf /var/tmp/slurm.tar && rm /var/tmp/slurm.tar && ldconfig")
    do(host, "useradd --system --no-create-home --home-dir /nonexistent --shell /sbin/nologin munge")
    do(host, "install -d -o munge -g munge -m 0700 /etc/munge /var/lib/munge /var/log/munge; install -d /etc/slurm")


def hardware() -> dict[str, Any]:
    """The hosts of hosts.yml."""
    return yaml.safe_load((REPOSITORY / "tests/fleet/hosts.yml").read_text())["hosts"]


class Nodes:
    """The containers, and what can be done to them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept = ""
        self.wheels = Path()
        self.served = Path()
        self.sockets = ""

    def up(self) -> None:
        """Provision one node if there is no image of this state of the code; 2 minutes on idle cores."""
        with readable():
            cli.up(FLEET, NAMES[0])
            first = containers.state_of(containers.container_name(FLEET, NAMES[0]))
            repository = containers.state_of(containers.container_name(FLEET, "repo"))
            self.served = Path(repository["repository"])
            self.wheels = Path(next(line for line in first["sources"].splitlines() if line.endswith("/wheels")))
            self.kept = f"{KEPT}:{self._key(repository['image'])}"
            if podman("image", "exists", self.kept, check=False).returncode != 0:
                self._finish()

    def down(self) -> None:
        self._forget_connections()
        cli.down(FLEET)

    @staticmethod
    def _key(bare: str) -> str:
        files = [REPOSITORY / name for name in CODE]
        return paths.content_hash(files, bare, image(), json.dumps(OLD), *SLURM_FILES)

    def _finish(self) -> None:
        cli.reset(FLEET, NAMES[0])
        self._forget_connections()
        self.settings()
        done = play("site.yml")
        assert done.rc == 0, done.output
        bring_slurm(NAMES[0])
        for old in podman("images", "--format", "{{.Repository}}:{{.Tag}}", KEPT).stdout.split():
            podman("image", "rm", old, check=False)
        podman("commit", "--quiet", "--pause", containers.container_name(FLEET, NAMES[0]), self.kept)

    def settings(self, **variables: Any) -> None:
        """The group's variables in a file beside the inventory, as at a site; reports are the test's own."""
        known = {**OLD, "verify_report_dir": str(self.folder / "reports"), **variables}
        with readable():
            (STATE / "group_vars").mkdir(exist_ok=True)
            (STATE / "group_vars/gpu_nodes.yml").write_text(yaml.safe_dump(known, explicit_start=True))

    def restore(self, names: Sequence[str] = NAMES) -> None:
        """These nodes as they were when they were finished; some seconds."""
        self._forget_connections()
        plan = self.addresses()
        hosts = [containers.Host(name, plan[name], hardware()[name]) for name in NAMES]
        with readable():
            for host in hosts:
                if host.name in names:
                    containers.remove(containers.container_name(FLEET, host.name))
                    containers.start_host(FLEET, self.kept, host, plan["repo"], STATE, self.wheels)
            cli.write_files(FLEET, hosts, STATE, self.served)
            self.settings()
            containers.wait_ready(FLEET, hosts, STATE / "ssh_config")

    @staticmethod
    def addresses() -> dict[str, str]:
        """The fixed address of each host of the fleet, and of `repo`."""
        return containers.address_plan(containers.ensure_network(FLEET), list(hardware()))

    def _forget_connections(self) -> None:
        """A connection to the host before it, which had the same address, must not be taken for this one's."""
        for socket in Path(self.sockets or "/nonexistent").glob("*"):
            subprocess.run(["ssh", "-O", "exit", "-o", f"ControlPath={socket}", "x"], capture_output=True, check=False)
        shutil.rmtree(self.sockets, ignore_errors=True)
        # Short, as a socket's path may have 108 characters.
        self.sockets = tempfile.mkdtemp(prefix="ssh-")
        os.environ["ANSIBLE_SSH_CONTROL_PATH_DIR"] = self.sockets
