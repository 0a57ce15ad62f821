"""Slurm over the four GPU servers of the fleet: slurmctld in a container beside them, slurmd and munged on them.

slurmd and munged are services of the servers, which a reboot ends and starts. While the cluster is watched, the
controller keeps what sinfo says several times a second, and runs gpuwright-drains as its timer does.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cluster
from cluster import COMMON, INSTALLED, REPOSITORY, Cluster, image, podman
from nodes import FLEET, NAMES, Nodes, containers

CONTROLLER = "controller"
NODE_FILES = ("healthcheck", "prolog", "epilog", "node.sh")
# A node that its scheduler holds for down after a reboot stays so until somebody returns it: Slurm's default.
SETTINGS = """\
ReturnToService=0
MinJobAge=3600
SlurmdTimeout=15
GresTypes=gpu
"""
GPU = b"AutoDetect=off\nName=gpu File=/dev/nvidia0\n"
# slurmd ends at once where a file of gres.conf is missing, and a boot makes the GPU's.
AFTER_DEVICES = r"[Unit]\nWants=gpuwright-devices.service\nAfter=gpuwright-devices.service\n"
# What sinfo says, with a moment's time before it; gpuwright-drains.timer has 30 s.
WATCH = f"""
count=0
while [ -e /run/watched ]; do
    date '+at %s.%N'
    sinfo -h -a -N -O NodeList:32,StateComplete:64,Reason:200
    count=$((count + 1))
    [ $((count % 20)) -ne 0 ] || {INSTALLED}/slurm/gpuwright-drains >>/var/log/drained 2>&1
    sleep 0.2
done
"""


@dataclass(frozen=True)
class Sight:
    """One answer of sinfo: seconds of the clock, and state and reason of each node."""

    at: float
    rows: dict[str, tuple[str, str]]

    def closed(self) -> set[str]:
        """Nodes that start no job."""
        return {name for name, (state, _reason) in self.rows.items() if re.search(r"drain|down|fail|[*]", state)}

    def for_reason(self, reason: str) -> set[str]:
        return {name for name, (_state, why) in self.rows.items() if why == reason}


def sights(text: str) -> list[Sight]:
    """What was written down while the cluster was watched; an answer that slurmctld did not give is none."""
    found = []
    for part in text.split("at ")[1:]:
        time, _, answer = part.partition("\n")
        cut = [(line[:32].strip(), line[32:96].strip(), line[96:].strip()) for line in answer.splitlines()]
        rows = {name: (state, reason) for name, state, reason in cut if name in NAMES}
        if len(rows) == len(NAMES):
            found.append(Sight(float(time), rows))
    return found


class GpuCluster(Cluster):
    """The servers are nodes of one partition, with a GPU each."""

    def __init__(self, folder: Path, nodes: Nodes) -> None:
        super().__init__(folder)
        self.nodes = nodes

    def name(self, host: str) -> str:
        return containers.container_name(FLEET, host)

    def up(self) -> None:
        network = containers.ensure_network(FLEET)
        plan = self.nodes.addresses()
        address = str(network[3])
        key, configuration = secrets.token_bytes(128), self.configuration(address, plan)
        for name, content in (("munge.key", key), ("slurm.conf", configuration), ("gres.conf", GPU)):
            (self.folder / name).write_bytes(content)
            (self.folder / name).chmod(0o644)
        containers.remove(self.name(CONTROLLER))
        podman(
            "run", "--detach", "--name", self.name(CONTROLLER), "--hostname", CONTROLLER, *containers.labels(FLEET),
            "--network", containers.network_name(FLEET), *containers.address_words(address),
            "--volume", f"{REPOSITORY}/deploy/slurm:{INSTALLED}/slurm:ro",
            image(), "python3", "-c", cluster.FIRST_PROCESS,
        )  # fmt: skip
        for host in (CONTROLLER, *NAMES):
            for name in ("munge.key", "slurm.conf", "gres.conf"):
                podman("cp", str(self.folder / name), f"{self.name(host)}:/etc/slurm/{name}")
            self.sh(host, "mv /etc/slurm/munge.key /etc/munge/munge.key")
            self.sh(host, "chown munge:munge /etc/munge/munge.key && chmod 0400 /etc/munge/munge.key")
        self.sh(CONTROLLER, "mkdir -p /run/munge && chown munge /run/munge && runuser -u munge -- munged")
        self.sh(CONTROLLER, "mkdir -p /var/spool/slurmctld && slurmctld")
        for host in NAMES:
            self.install_gate(host)
            folder = "/etc/systemd/system/slurmd.service.d"
            self.sh(
                host, f"mkdir -p {folder} && printf '{AFTER_DEVICES}' > {folder}/gpu.conf && systemctl daemon-reload"
            )
            self.sh(host, "mkdir -p /var/spool/slurmd && systemctl enable --now munge slurmd")
        for host in NAMES:
            self.until_idle(host)
            self.until_says(host, "PASS")

    @staticmethod
    def configuration(address: str, plan: dict[str, str]) -> bytes:
        rows = "".join(f"NodeName={name} NodeAddr={plan[name]} CPUs=1 Gres=gpu:1 State=UNKNOWN\n" for name in NAMES)
        return f"{COMMON}SlurmctldHost={CONTROLLER}({address})\n{SETTINGS}{rows}".encode()

    def install_gate(self, host: str) -> None:
        """As docs/schedulers.md says for every node."""
        self.sh(host, f"install -d {INSTALLED}/gate {INSTALLED}/slurm")
        for file in ("gate/gpuwright-verdict", *(f"slurm/gpuwright-{name}" for name in NODE_FILES)):
            podman("cp", str(REPOSITORY / "deploy" / file), f"{self.name(host)}:{INSTALLED}/{file}")

    def script(self, words: str, script: str, output: str) -> str:
        """Submit a batch job that runs a script and writes to a file of its node; its number."""
        text = f"cd / && sbatch --parsable {words} --output {output} --wrap '{script}'"
        return self.sh(CONTROLLER, text).strip().splitlines()[-1]

    def down(self) -> None:
        containers.remove(self.name(CONTROLLER))

    @contextlib.contextmanager
    def watched(self) -> Iterator[list[Sight]]:
        """What sinfo said from the begin to the end of the block; the list is filled at its end."""
        found: list[Sight] = []
        podman("exec", self.name(CONTROLLER), "touch", "/run/watched")
        podman("exec", "--detach", self.name(CONTROLLER), "sh", "-c", f"({WATCH}) >/var/log/watched 2>&1")
        try:
            yield found
        finally:
            self.sh(CONTROLLER, "rm /run/watched; sleep 1")
            found += sights(self.sh(CONTROLLER, "cat /var/log/watched"))
