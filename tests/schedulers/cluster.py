"""A Slurm cluster of three containers: Debian 12 with Slurm and munge of its archive, a controller and two nodes.

Everything of Slurm is real; the nodes have no GPU, and their records are written by the functions that gpu-doctor uses.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "tests/fleet"), str(REPOSITORY / "tests/node_library")]
fleet_base = importlib.import_module("gpuwright_fleet.base")
paths = importlib.import_module("gpuwright_fleet.paths")
podman = importlib.import_module("gpuwright_fleet.podman").podman
containers_conf = importlib.import_module("gpuwright_fleet.podman").containers_conf
run = importlib.import_module("gpuwright_fleet.shell").run
boot_check = importlib.import_module("gpuwright.verdict.boot_check")
report = importlib.import_module("gpuwright.verdict.report")

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge", "python3")
IMAGE = "localhost/gpuwright-slurm"
NODES = ("n1", "n2")
# Where docs/schedulers.md says that the files go.
INSTALLED = "/usr/local/lib/gpuwright"
RECORD = "/var/lib/gpuwright/boot-check.json"
# It has the kernel bury every process that is left to it, and waits.
FIRST_PROCESS = """\
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.signal(signal.SIGTERM, lambda *_: exit())
while True:
    signal.pause()
"""
# A command of Slurm on this machine is that of the controller's container.
COMMAND = """\
#!/bin/sh
CONTAINERS_CONF={configuration} exec podman --runtime runc exec {container} {name} "$@"
"""
COMMON = f"""\
ClusterName=gpuwright
SlurmUser=root
AuthType=auth/munge
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerParameters=sched_interval=2,nohold_on_prolog_fail
MpiDefault=none
KillWait=1
HealthCheckProgram={INSTALLED}/slurm/gpuwright-healthcheck
HealthCheckInterval=2
Prolog={INSTALLED}/slurm/gpuwright-prolog
Epilog={INSTALLED}/slurm/gpuwright-epilog
PrologFlags=Alloc
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
CONFIGURATION = f"""\
{COMMON}SlurmctldHost=controller
ReturnToService=2
NodeName={",".join(NODES)} CPUs=1 State=UNKNOWN
# More tasks than processors, as a trial of what has a processor for each.
PartitionName=shared Nodes=ALL MaxTime=INFINITE State=UP OverSubscribe=FORCE:2
"""


def image() -> str:
    """Debian 12 with Slurm, made by mmdebstrap from this machine's sources, and kept between runs."""
    made_by = fleet_base.__file__
    assert made_by is not None
    key = paths.content_hash([Path(made_by)], *PACKAGES)
    tag = f"{IMAGE}:{key}"
    if podman("image", "exists", tag, check=False).returncode != 0:
        archive = paths.cache_dir() / f"slurm-{key}.tar"
        command: list[str | Path] = [
            "mmdebstrap",
            "--mode=root",
            "--variant=minbase",
            f"--include={','.join(PACKAGES)}",
        ]
        command += [f"--aptopt={option}" for option in fleet_base.apt_options()]
        command += ["--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/locale/*"]
        command += ["--dpkgopt=path-exclude=/usr/share/man/*"]
        run([*command, fleet_base.SUITE, archive, *fleet_base.controller_sources()], timeout=900)
        podman("import", str(archive), tag)
        archive.unlink()
        for old in podman("images", "--format", "{{.Repository}}:{{.Tag}}", IMAGE).stdout.split():
            if old != tag:
                podman("image", "rm", old, check=False)
    return tag


def trainer() -> list[str | Path]:
    """The trainer and its environment with PyTorch for CPUs, which containers of Debian 12 can use as it is."""
    python = importlib.import_module("trainer_kinds").trainer_python()
    assert python is not None, "the trainer's environment cannot be made here"
    return [python.parents[1], REPOSITORY / "trainer"]


def wait_for(question: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """The first answer that is true; AssertionError, with what was waited for, after so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if answer := question():
            return answer
        time.sleep(0.5)
    raise AssertionError(f"not within {seconds:.0f} s: {what}")


def commands_here(folder: Path, container: str) -> Path:
    """A folder for PATH with the commands of Slurm that the role drain runs on localhost."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    for name in ("sinfo", "scontrol", "squeue"):
        words = {"configuration": containers_conf(), "container": container, "name": name}
        (programs / name).write_text(COMMAND.format(**words))
        (programs / name).chmod(0o755)
    return programs


class Cluster:
    """The containers, and what can be asked of them."""

    def __init__(self, folder: Path, shared: Sequence[str | Path] = ()) -> None:
        """`shared`: folders of this machine that all have, under the same paths and read-only."""
        # Several runs may stand side by side.
        self.prefix = f"gpuwright-slurm-{os.getpid()}"
        self.folder, self.shared = folder, shared

    def name(self, host: str) -> str:
        return f"{self.prefix}-{host}"

    def up(self) -> None:
        tag = image()
        configuration = self.folder / "slurm.conf"
        configuration.write_text(CONFIGURATION)
        configuration.chmod(0o644)
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        mounts = [word for path in self.shared for word in ("--volume", f"{path}:{path}:ro")]
        # What the tasks of a job have in common, as a shared file system.
        (self.folder / "common").mkdir()
        mounts += ["--volume", f"{self.folder}/common:/common"]
        podman("network", "create", self.prefix)
        for host in ("controller", *NODES):
            podman(
                "run", "--detach", "--name", self.name(host), "--hostname", host, "--network", self.prefix,
                "--network-alias", host, "--volume", f"{REPOSITORY}/deploy/slurm:{INSTALLED}/slurm:ro",
                "--volume", f"{REPOSITORY}/deploy/gate:{INSTALLED}/gate:ro",
                "--volume", f"{configuration}:/etc/slurm/slurm.conf:ro", "--volume", f"{key}:/munge.key:ro", *mounts,
                tag, "python3", "-c", FIRST_PROCESS,
            )  # fmt: skip
            self.sh(host, "install -o munge -g munge -m 0400 /munge.key /etc/munge/munge.key")
            self.sh(host, "mkdir -p /run/munge /run/slurm && chown munge /run/munge && runuser -u munge -- munged")
        self.sh("controller", "mkdir -p /var/spool/slurmctld && slurmctld")
        for node in NODES:
            self.sh(node, "mkdir -p /var/spool/slurmd && slurmd")
        for node in NODES:
            self.until_idle(node)

    def down(self) -> None:
        for host in ("controller", *NODES):
            podman("rm", "--force", "--time", "0", self.name(host), check=False)
        podman("network", "rm", "--force", self.prefix, check=False)

    def sh(self, host: str, script: str, check: bool = True) -> str:
        """Run a line of shell as root on a host; what it prints on both streams."""
        done = podman("exec", self.name(host), "sh", "-c", f"{{ {script}\n}} 2>&1", check=False, timeout=120)
        assert done.returncode == 0 or not check, f"{host}: {script}: {done.stdout}{done.stderr}"
        return done.stdout

    def field(self, node: str, name: str) -> str:
        """One field of a node as sinfo gives it."""
        answer = self.sh("controller", f"sinfo -h -a -N -n {node} -O {name}:400", check=False)
        return answer.splitlines()[0].rstrip() if answer.strip() else ""

    def state(self, node: str) -> str:
        return self.field(node, "StateComplete")

    def reason(self, node: str) -> str:
        return self.field(node, "Reason")

    def record(self, node: str, verdict: str, finding: str = "", action: str = "", **changes: Any) -> None:
        """Write the record of a node as gpu-doctor would, of this boot and for 15 minutes, except for `changes`."""
        checks = [{"id": finding, "status": verdict, "message": "seen", "action": action}] if finding else []
        found = {"host": node, "time": "2026-01-05T10:40:00Z", "verdict": verdict, "checks": checks, "expectations": {}}
        file = self.folder / f"record-{node}.json"
        report.write_json(str(file), {**boot_check.make_record(found, "quick", 900.0), **changes})
        self.sh(node, "mkdir -p /var/lib/gpuwright")
        podman("cp", str(file), f"{self.name(node)}:{RECORD}.new")
        self.sh(node, f"mv {RECORD}.new {RECORD}")

    def clear(self) -> None:
        """No job, no drain, no memory of any, and a PASS on every node."""
        self.sh("controller", "scancel --user root; rm -rf /var/lib/gpuwright-drains")
        for node in NODES:
            self.sh(node, "rm -f /etc/gpuwright/scheduler.conf")
            self.record(node, "PASS")
            self.sh("controller", f"scontrol update NodeName={node} State=UNDRAIN", check=False)
        for node in NODES:
            self.until_idle(node)
            self.until_says(node, "PASS")

    def says(self, node: str) -> str:
        """The verdict that the node has told the controller."""
        return (self.field(node, "Comment").split() + ["", ""])[1]

    def until_idle(self, node: str) -> None:
        wait_for(lambda: self.state(node) == "idle", f"{node} is idle", 120)

    def until_says(self, node: str, verdict: str) -> None:
        wait_for(lambda: self.says(node) == verdict, f"{node} tells {verdict}", 120)

    @staticmethod
    def until(question: Callable[[], Any], what: str, seconds: float = 60) -> Any:
        return wait_for(question, what, seconds)

    def drains(self, *words: str) -> str:
        """One run of the timer on the controller."""
        return self.sh("controller", f"{INSTALLED}/slurm/gpuwright-drains {' '.join(words)}")

    def job(self, *words: str, seconds: int = 600) -> str:
        """Submit a batch job that sleeps; its number."""
        wrap = f"--wrap 'sleep {seconds}' --output /dev/null {' '.join(words)}"
        return self.sh("controller", f"cd / && sbatch --parsable {wrap}").strip().splitlines()[-1]

    def job_state(self, job: str) -> str:
        return self.sh("controller", f"scontrol -o show job {job}", check=False).partition("JobState=")[2].split(" ")[0]


@contextlib.contextmanager
def running(folder: Path, shared: Sequence[str | Path] = ()) -> Iterator[Cluster]:
    """A cluster that is there until the block ends, whatever happens in it."""
    cluster = Cluster(folder, shared)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
