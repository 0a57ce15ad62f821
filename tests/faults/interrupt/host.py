"""A host of the fleet that can be set back to a snapshot, inspected from outside, and damaged."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

sys.path.append(str(Path(__file__).resolve().parents[2] / "fleet"))

from gpuwright_fleet import cli, containers
from gpuwright_fleet.paths import HOSTS_FILE, REPO_ROOT, state_dir
from gpuwright_fleet.podman import podman
from gpuwright_fleet.shell import FleetError, readable, run

NAME = "a5-51"
READY_SECONDS = 120
# A group may take memory between a look and the limit, which the kernel then refuses.
LIMIT_ATTEMPTS = 5
MIRROR = Path(__file__).with_name("mirror.py")
# linux/ext4.h: EXT4_IOC_SHUTDOWN and EXT4_GOING_FLAGS_NOLOGFLUSH.
SHUTDOWN, WITHOUT_JOURNAL = 0x8004587D, 2
SNAPSHOTS = "localhost/gpuwright-interrupt"


class Host:
    """One host and the mirror beside it, a fleet of its own: `worker` tells hosts that run side by side apart."""

    def __init__(self, worker: int) -> None:
        self.fleet = f"interrupt-{worker}"
        self.state = state_dir(self.fleet)
        self.container = containers.container_name(self.fleet, NAME)
        self.sockets = Path(tempfile.mkdtemp(prefix="ssh-"))
        self._route: list[str] = []
        self._disk: Path | None = None
        self._first = 0
        # Which one of a pair this is, from 1.
        self.attempt = 1

    @property
    def inventory(self) -> Path:
        return self.state / "inventory.yml"

    def start(self) -> None:
        """Build what is missing and start host and mirror; the host is bare."""
        with readable():
            cli.up(self.fleet, NAME)
        state = containers.state_of(self.container)
        repository = containers.container_name(self.fleet, "repo")
        served = containers.state_of(repository)["repository"]
        wheels = next(line for line in state["sources"].splitlines() if line.endswith("/wheels"))
        address = containers.address_plan(containers.ensure_network(self.fleet), [])["repo"]
        self.image, self.wheels = state["image"], Path(wheels)
        self.mood("well")
        containers.remove(repository)
        podman(
            "run", "--detach", "--name", repository, "--hostname", "repo", "--restart", "always", "--systemd=false",
            *containers.labels(self.fleet), "--network", containers.network_name(self.fleet),
            *containers.address_words(address), f"--volume={served}:/srv/repositories:ro",
            f"--volume={wheels}:/srv/wheels:ro", f"--volume={self.state / 'mirror'}:/srv/mirror:ro",
            f"--volume={MIRROR}:/srv/mirror.py:ro", state["image"],
            "/usr/libexec/platform-python", "-u", "/srv/mirror.py",
            "/srv/repositories", "/srv/wheels", "/srv/mirror/mood",
        )  # fmt: skip

    def stop(self) -> None:
        self._forget_connections()
        self.sockets.rmdir()
        cli.down(self.fleet)

    def restore(self, image: str, volumes: dict[str, Path] | None = None, root: Path | None = None) -> None:
        """Recreate the host from an image, or from a copy of it in a folder of this machine.

        `volumes`: folders of this machine, by the host's folder that they replace.
        """
        self._forget_connections()
        self.mood("well")
        self._first = 0
        data = yaml.safe_load(HOSTS_FILE.read_text())
        plan = containers.address_plan(containers.ensure_network(self.fleet), list(data["hosts"]))
        host = containers.Host(NAME, plan[NAME], data["hosts"][NAME])
        containers.remove(self.container)
        self._disk = root
        with readable():
            self._start(image, host, plan["repo"], volumes or {}, root)

    def _start(
        self, image: str, host: containers.Host, repository: str, volumes: dict[str, Path], root: Path | None
    ) -> None:
        containers.start_host(
            self.fleet,
            image,
            host,
            repository,
            self.state,
            self.wheels,
            tuple(f"{source}:{place}" for place, source in volumes.items()),
            root,
        )
        served = Path(containers.state_of(containers.container_name(self.fleet, "repo"))["repository"])
        cli.write_files(self.fleet, [host], self.state, served)
        containers.wait_ready(self.fleet, [host], self.state / "ssh_config")

    def keep(self, image: str) -> None:
        """Keep what is on the host's disks as an image, as it is now."""
        podman("commit", "--quiet", "--pause", self.container, image)

    @staticmethod
    @contextlib.contextmanager
    def unpacked(image: str) -> Iterator[Path]:
        """The files of an image, as a folder of this machine."""
        name = podman("create", image).stdout.strip()
        try:
            yield Path(podman("mount", name).stdout.strip())
        finally:
            podman("umount", name, check=False)
            containers.remove(name)

    def mood(self, name: str) -> None:
        """What the mirror does from now on; see mirror.py."""
        (self.state / "mirror").mkdir(parents=True, exist_ok=True)
        (self.state / "mirror" / "mood").write_text(name)

    def _forget_connections(self) -> None:
        """A connection to the host before it, which had the same address, must not be taken for this one's."""
        for socket in self.sockets.glob("*"):
            subprocess.run(["ssh", "-O", "exit", "-o", f"ControlPath={socket}", "x"], capture_output=True, check=False)
        shutil.rmtree(self.sockets, ignore_errors=True)
        self.sockets = Path(tempfile.mkdtemp(prefix="ssh-"))

    # -- seen from outside

    def pid(self) -> int:
        """Process of this machine that is the host's first one; 0 while it does not run."""
        # Asked for a hundred times a second while a point is waited for; podman needs a tenth of a second to answer.
        if not self._first or not Path(f"/proc/{self._first}/root/etc").exists():
            answer = podman("inspect", "--format", "{{.State.Pid}}", self.container, check=False)
            self._first = int(answer.stdout.strip() or 0) if answer.returncode == 0 else 0
        return self._first

    def root(self) -> Path:
        """The host's file system as its own processes see it, mounts included."""
        return Path(f"/proc/{self.pid()}/root")

    def processes(self, pattern: str) -> list[int]:
        """Processes of the host whose command line matches, as this machine numbers them."""
        first = self.pid()
        if not first:
            return []
        space = Path(f"/proc/{first}/ns/pid").readlink()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (folder / "ns/pid").readlink() == space:
                    words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    if re.search(pattern, words):
                        found.append(int(folder.name))
        return found

    def do(self, script: str, check: bool = True, timeout: float = 120) -> str:
        """Run a script as root, without ssh."""
        done = podman("exec", self.container, "sh", "-c", script, check=check, timeout=timeout)
        return done.stdout

    def wait_ready(self) -> None:
        """Until systemd has started, whether or not ssh answers."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            answer = podman("exec", self.container, "systemctl", "is-system-running", check=False, timeout=20)
            if answer.stdout.strip() in ("running", "degraded"):
                return
            time.sleep(0.3)
        raise FleetError(f"Host {NAME} of fleet {self.fleet} is not ready after {READY_SECONDS} s.")

    # -- faults

    def kill(self, pattern: str, number: int = signal.SIGKILL) -> int:
        """Send a signal to the host's processes that match; how many there were."""
        found = self.processes(pattern)
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return len(found)

    def die(self) -> None:
        """Everything on it is killed at once, and it starts again; what is on its disks stays."""
        before, self._first = self.pid(), 0
        podman("kill", "--signal", "KILL", self.container, check=False)
        deadline = time.monotonic() + READY_SECONDS
        while self.pid() in (0, before) and time.monotonic() < deadline:
            podman("start", self.container, check=False)
            time.sleep(0.2)
        self.wait_ready()

    def lose_power(self) -> None:
        """As `die`, and what was not yet on the disk is gone; the root file system has to be one with a journal.

        ext4 then answers every write with an error and does not even finish its journal, as tests of file systems have
        it. What is mounted after that is what a host finds whose power came back.
        """
        if not self._disk:
            raise FleetError(f"Host {NAME} of fleet {self.fleet} has no disk of its own, which could lose anything.")
        folder = os.open(self._disk, os.O_RDONLY)
        fcntl.ioctl(folder, SHUTDOWN, WITHOUT_JOURNAL.to_bytes(4, sys.byteorder))
        os.close(folder)
        podman("kill", "--signal", "KILL", self.container, check=False)
        podman("stop", "--time", "0", self.container, check=False)
        self._first = 0
        run(["umount", str(self._disk)])
        run(["mount", "-o", "loop", str(self._disk).removesuffix(".mounted"), str(self._disk)])
        podman("start", self.container)
        self.wait_ready()

    def short_of_memory(self, room_mb: int | None) -> None:
        """From now on no more memory than is in use and `room_mb` besides; None: as much as there is again.

        The kernel then kills what uses most, of this host's processes alone: the limit is its control group's.
        """
        lines = [line.split(":", 2) for line in Path(f"/proc/{self.pid()}/cgroup").read_text().splitlines()]
        old = [path for _number, controllers, path in lines if "memory" in controllers.split(",")]
        # One hierarchy for each controller, or one for all, where the first process has a group of its own.
        folder = Path("/sys/fs/cgroup/memory" + old[0]) if old else Path("/sys/fs/cgroup" + lines[0][2]).parent
        file = folder / ("memory.limit_in_bytes" if old else "memory.max")
        if room_mb is None:
            file.write_text("-1" if old else "max")
            return
        for attempt in range(1, LIMIT_ATTEMPTS + 1):
            try:
                file.write_text(str(self._memory_held(folder, bool(old)) + (room_mb << 20)))
                return
            except OSError:
                if attempt == LIMIT_ATTEMPTS:
                    raise

    @staticmethod
    def _memory_held(folder: Path, old: bool) -> int:
        """Bytes that a control group cannot give back."""
        used = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        held = sum(int(used[name]) for name in (("total_rss", "total_shmem") if old else ("anon", "shmem", "kernel")))
        return held + (int((folder / "memory.kmem.usage_in_bytes").read_text()) if old else 0)

    def _in_network(self, *words: str) -> str:
        return run(["nsenter", "--target", str(self.pid()), "--net", *words], check=False).stdout

    def network(self, up: bool) -> None:
        """Its only network interface; what the address leads through is put back with it."""
        if up:
            self._in_network("ip", "link", "set", "eth0", "up")
            for words in self._route:
                self._in_network("ip", "route", "replace", *words.split())
        else:
            self._route = [line for line in self._in_network("ip", "route").splitlines() if line.startswith("default")]
            self._in_network("ip", "link", "set", "eth0", "down")


def image_of(name: str) -> str:
    return f"{SNAPSHOTS}:{name}"


def is_kept(image: str) -> bool:
    return podman("image", "exists", image, check=False).returncode == 0


def remove_old(older_than: str = "24h") -> None:
    """Snapshots of former states of the code, half a GB to 2 GB each; podman keeps the layers that others need."""
    asked = ["images", "--filter", f"reference={SNAPSHOTS}", "--filter", f"until={older_than}", "--quiet"]
    for image in podman(*asked, check=False).stdout.split():
        podman("rmi", "--force", image, check=False)


__all__ = ["REPO_ROOT", "Host", "image_of", "is_kept", "remove_old"]
