"""What is on the host of the fleet `faults`, as the interruptions compare it: files, packages, units, accounts."""

from __future__ import annotations

import sys
from pathlib import Path

from conftest import FLEET, HOST

sys.path.append(str(Path(FLEET[1]).resolve().parent))

from gpuwright_fleet import containers
from gpuwright_fleet.podman import podman
from interrupt.record import Hashes, State, comparable, read


class Container:
    """What `interrupt.record` asks of a host."""

    def __init__(self) -> None:
        self.name = containers.container_name("faults", HOST)

    def root(self) -> Path:
        pid = podman("inspect", "--format", "{{.State.Pid}}", self.name).stdout.strip()
        return Path(f"/proc/{pid}/root")

    def do(self, script: str, check: bool = True) -> str:
        return podman("exec", self.name, "sh", "-c", script, check=check).stdout


def host_state(folder: Path) -> State:
    """The host's state now; hashes of what does not change are kept in `folder`."""
    hashes = Hashes(folder / "hashes")
    found = comparable(read(Container(), hashes))
    hashes.save()
    return found
