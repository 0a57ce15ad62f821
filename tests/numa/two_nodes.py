"""The machine with two NUMA nodes: the disk of tests/vm, with the launcher on it as the role puts it there."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuwright_vm import accelerator
from gpuwright_vm.image import build_disk
from gpuwright_vm.machine import Board, Machine, MachineError
from gpuwright_vm.paths import REPOSITORY

STATE = REPOSITORY / ".fleet" / "numa"
PROGRAMS = Path(__file__).resolve().parent / "programs"
NODE_MIB = 1024
FAR_DISTANCE = 21
# A socket for each node; the GPU on a PCI bus of the second, whose number the firmware tells the kernel.
BOARD = Board(
    (
        *("-machine", "pc", "-m", str(2 * NODE_MIB), "-smp", "4,sockets=2,cores=2,threads=1"),
        *(
            word
            for node in (0, 1)
            for word in (
                *("-object", f"memory-backend-memfd,id=ram{node},size={NODE_MIB}M,share=on"),
                *("-numa", f"node,nodeid={node},memdev=ram{node}"),
                *("-numa", f"cpu,node-id={node},socket-id={node}"),
            )
        ),
        *("-numa", f"dist,src=0,dst=1,val={FAR_DISTANCE}"),
        *("-device", "pxb,id=second,bus=pci.0,bus_nr=128,numa_node=1"),
    ),
    slot="bus=second,addr=1",
)
# What the role leaves out too (system_runtime/vars/main.yml), and what Python makes anew.
NOT_ON_NODES = ("operator", "preflight", "__pycache__")
LIBRARY, JOBS = "/usr/local/lib/gpuwright", "/srv/jobs"
# A job of the tests takes seconds; an emulated processor beside other work takes some twenty times as long.
SECONDS = 300


@dataclass
class Host:
    """The machine, and what may run in it as an ordinary user."""

    machine: Machine

    def run(self, words: str) -> subprocess.CompletedProcess[str]:
        """A shell line of the user `admin`; exit status (128 and more: killed by that signal), output and errors."""
        # Of a command that it has become itself, ssh tells no signal.
        command = self.machine.ssh(f"{words}\nexit $?")
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False
        )

    def said(self, words: str) -> Any:
        """The JSON object that a shell line prints; MachineError where it fails."""
        done = self.run(words)
        if done.returncode:
            raise MachineError(f"exit status {done.returncode} of {words}\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def node_mib(self, node: int) -> int:
        """MiB of the node that the kernel has for programs, the pages of the programs there included."""
        line = self.run(f"grep MemTotal /sys/devices/system/node/node{node}/meminfo").stdout
        return int(line.split()[-2]) >> 10

    def free_mib(self) -> int:
        return int(self.run("grep MemAvailable /proc/meminfo").stdout.split()[1]) >> 10


def switch_on() -> Host:
    """The machine, bare but for the launcher. qemu boots the kernel itself, past the boot loader's menu."""
    STATE.mkdir(parents=True, exist_ok=True)
    image = build_disk()
    accel, because = accelerator.choose(image.kernel)
    print(f"accelerator: {accel} ({because})", flush=True)
    machine = Machine(image.overlay(STATE / "disk.qcow2"), image.key, accel, BOARD, STATE)
    start = time.monotonic()
    machine.start(*image.boot)
    try:
        machine.wait()
        print(f"booted in {time.monotonic() - start:.0f} s", flush=True)
        install_launcher(machine)
    except BaseException:
        machine.stop()
        raise
    return Host(machine)


def install_launcher(machine: Machine) -> None:
    """gpu-run and its library, where the role `system_runtime` puts them; the policy is the default, without a file."""
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name)
        tree.chmod(0o755)
        library, programs, jobs = (tree / path.lstrip("/") for path in (LIBRARY, "/usr/local/bin", JOBS))
        shutil.copytree(
            REPOSITORY / "plugins/module_utils", library / "gpuwright", ignore=shutil.ignore_patterns(*NOT_ON_NODES)
        )
        shutil.copytree(PROGRAMS, jobs, ignore=shutil.ignore_patterns("__pycache__"))
        programs.mkdir(parents=True)
        shutil.copy(REPOSITORY / "roles/system_runtime/files/gpu-run", programs)
        machine.copy(tree, "/srv/tree")
    compiled = " ".join(f"{LIBRARY}/gpuwright/{name}" for name in ("host", "launch"))
    machine.run(
        f"set -e\ncp -r /srv/tree/. /\nchmod -R a+rX {LIBRARY} {JOBS}\n"
        f"chmod 0755 /usr/local/bin/gpu-run\nmkdir -p /etc/gpuwright\n"
        f"/usr/bin/python3 -m compileall -q {compiled}"
    )
