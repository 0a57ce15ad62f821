"""What the pinned release finds on bare hosts, kept for the other releases, as nothing of it depends on them."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from controllers import CACHE, python
from releases_of_core import BESIDE, PINNED, RELEASES

HERE = Path(__file__).resolve().parent
# What podman says of a host: its image, and what is mounted into it, of which wheels have their digest in the name.
HOST = "{{.Image}} {{range .Mounts}}{{.Source}} {{end}}"


def contents(artefact: Path) -> str:
    """Each file of the collection and its digest, as ansible-galaxy has written them into it."""
    with tarfile.open(artefact) as archive:
        member = archive.extractfile("FILES.json")
        assert member is not None
        files = json.load(member)["files"]
    return "\n".join(sorted(f"{file['name']} {file['chksum_sha256']}" for file in files))


def hosts(names: tuple[str, ...], state: Path, repository: Path) -> str:
    """Images, hardware and variables of hosts of the fleet, without its own folder and network."""
    own = [f"--filter=label=gpuwright.{label}" for label in (f"fleet={state.name}", f"checkout={repository}")]
    ps = ["podman", "ps", *own, "--format={{.Names}}"]
    running = subprocess.run(ps, capture_output=True, text=True, check=True).stdout.split()
    found = [(state / "inventory.yml").read_text()]
    for name in names:
        (container,) = [one for one in running if one.endswith(f"-{name}")]
        inspect = ["podman", "inspect", f"--format={HOST}", container]
        found.append(subprocess.run(inspect, capture_output=True, text=True, check=True).stdout)
        found.append((state / f"{name}.json").read_text())
    return re.sub(r"\b10(\.[0-9]+){2}\.", "", "\n".join(found).replace(str(state), ""))


def machine() -> str:
    """What tuning and packages depend on: processors, memory, the kernel."""
    total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    return f"{os.cpu_count()} {total} {platform.release()}"


def key(artefact: Path, of_hosts: str) -> str:
    """A digest of all that the answer depends on: the collection, the release, the hosts, this machine, these tests."""
    tests = [file.read_text() for file in sorted(HERE.glob("*.py"))]
    pins = " ".join((RELEASES[PINNED], *BESIDE, python(PINNED)))
    return hashlib.sha256("\0".join((contents(artefact), pins, of_hosts, machine(), *tests)).encode()).hexdigest()


class KeptDrift:
    """The rows of `ask` for this key: those of an earlier run, or new ones.

    A key cannot hold what Debian's archive has today. So rows that differ are compared with new ones before they fail.
    """

    def __init__(self, name: str, ask: Callable[[], dict[str, Any]], folder: Path = CACHE / "cores") -> None:
        self.file, self.ask = folder / f"drift-{name}.json", ask

    def keep(self, rows: dict[str, Any]) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        for old in self.file.parent.glob("drift-*.json"):
            old.unlink()
        self.file.write_text(json.dumps(rows))

    def new(self) -> dict[str, Any]:
        rows = self.ask()
        self.keep(rows)
        return rows

    def beside(self, found: dict[str, Any]) -> dict[str, Any]:
        """The rows that `found` has to be equal to."""
        kept: dict[str, Any] = json.loads(self.file.read_text()) if self.file.exists() else {}
        return kept if kept == found else self.new()
