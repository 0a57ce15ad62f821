"""The collection as a site installs it, under one ansible-core after the other, on hosts of the test fleet."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from controllers import Core, made
from kept_drift import KeptDrift, hosts, key
from releases_of_core import PINNED, chosen

REPOSITORY = Path(__file__).resolve().parents[2]
FLEET = [sys.executable, "tests/fleet/fleet"]
# Each choice of releases has a fleet of its own, so that several can be tried side by side.
NAME = "-".join(["cores", *os.environ.get("CORE", "").replace(".", "-").split(",")]).strip("-")
STATE = REPOSITORY / ".fleet" / NAME
# All that Ansible printed; the state of the fleet goes away with it.
LOG = REPOSITORY / f".fleet/results/{NAME}.log"
# EL 9 is installed from a bundle, which el9-02 gets the packages for; Debian 12 from its mirrors.
NODE, BUILDER, DEBIAN, EL8 = "el9-01", "el9-02", "deb12-11", "a5-71"
NODES = f"{NODE},{DEBIAN}"
SECONDS = 1800
# A newer Python on a host, as many have, which since 2.17 Ansible would use: it has no bindings of dnf, rpm or apt, nor
# anything else that is not Python's own. It tells what root ran under it.
NEWER = "/usr/local/bin/python3.12"
TOLD = "/root/newer-python"
MAKE_NEWER = f"""
cat >{NEWER} <<'END'
#!/bin/sh
[ "$(id -u)" != 0 ] || echo "$@" >>{TOLD}
exec "$(command -v /usr/libexec/platform-python || echo /usr/bin/python3)" -S "$@"
END
chmod 755 {NEWER}
"""


@dataclass
class Run:
    """One run of ansible-playbook."""

    rc: int
    output: str

    @property
    def text(self) -> str:
        """The output as one line, so that a message may be looked for wherever it was wrapped."""
        return re.sub(r"\s+", " ", self.output)

    def count(self, host: str, word: str) -> int:
        """A number of the recap, such as "changed"."""
        (found,) = re.findall(rf"^{host}\s+: .*?\b{word}=(\d+)", self.output, re.MULTILINE)
        return int(found)

    def word(self, host: str) -> str:
        """The word with which the summary ends for the host."""
        found = re.findall(rf"^(?:\S+, )*{host}(?:, \S+)*\s+([A-Za-z]+)\b", self.output, re.MULTILINE)
        assert found, self.output
        return found[-1]


@dataclass
class Site:
    """Somebody's own folder, with one ansible-core and the collection that this one has installed."""

    core: Core
    folder: Path
    collections: Path
    inventory: Path

    def play(self, name: str, *arguments: str, elsewhere: bool = False) -> Run:
        words = (f"gpuwright.node.{name}", "-i", str(self.inventory), *arguments)
        command = self.core.command("ansible-playbook", *words, folder=self.folder, elsewhere=elsewhere)
        with LOG.open("ab+") as log:
            log.write(f"\n$ {' '.join(command)}   # ansible-core {self.core.version}\n".encode())
            log.flush()
            start, begun = log.tell(), time.monotonic()
            done = subprocess.run(
                command,
                cwd=self.folder,
                env=environment(self.collections),
                timeout=SECONDS,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            log.write(f"# {name}: exit {done.returncode} after {time.monotonic() - begun:.0f} s\n".encode())
            log.seek(start)
            return Run(done.returncode, log.read().decode())

    def drift(self, *arguments: str) -> tuple[Run, dict[str, Any]]:
        """A look for drift, and the hosts in its record."""
        record = self.folder / "reports/drift/drift.json"
        record.unlink(missing_ok=True)
        done = self.play("drift", "--check", "--diff", "-l", NODES, *arguments)
        return done, json.loads(record.read_text())["hosts"]


def environment(collections: Path) -> dict[str, str]:
    """That of a person who has set nothing but where the collections are."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("ANSIBLE_", "GPUWRIGHT_"))}
    return kept | {"ANSIBLE_COLLECTIONS_PATH": str(collections), "ANSIBLE_NOCOLOR": "1"}


def on_host(host: str, script: str) -> str:
    """What a script prints that root runs on the host."""
    command = ["ssh", "-F", str(STATE / "ssh_config"), host, "sudo sh -s"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def rows(hosts: dict[str, Any]) -> dict[str, Any]:
    """What a record of drift says of each host, without what differs from one look to the next."""
    return {
        name: {
            "status": host["status"],
            "verdict": host["verdict"],
            "differences": sorted(str(sorted(row.items())) for row in host["differences"]),
            "unknown": sorted(str(sorted(row.items())) for row in host["unknown"]),
        }
        for name, host in hosts.items()
    }


@dataclass
class Fleet:
    """Four hosts: bare hosts for one release after the other."""

    bare: bool = False

    def reset(self) -> None:
        """Hosts as their image has them, in seconds."""
        names = ",".join((NODE, BUILDER, DEBIAN, EL8))
        subprocess.run([*FLEET, "reset", "--fleet", NAME, "--hosts", names], cwd=REPOSITORY, check=True)
        self.bare = True


@pytest.fixture(scope="session")
def fleet() -> Iterator[Fleet]:
    """Up and bare for the first release that is tried, away after the last one."""
    LOG.parent.mkdir(parents=True, exist_ok=True)
    LOG.unlink(missing_ok=True)
    found = Fleet()
    found.reset()
    yield found
    subprocess.run([*FLEET, "down", "--fleet", NAME], cwd=REPOSITORY, check=True)


@pytest.fixture(scope="session")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that a release has."""
    folder = tmp_path_factory.mktemp("built")
    galaxy = str(Path(sys.executable).with_name("ansible-galaxy"))
    for command in (
        [sys.executable, "tools/trainer_wheel.py"],
        [galaxy, "collection", "build", "--output-path", str(folder)],
    ):
        subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, timeout=300)
    (file,) = folder.glob("*.tar.gz")
    return file


@pytest.fixture(scope="session")
def inventory(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fleet's own, where EL 9 has no folder of wheels, and one host makes bundles."""
    folder = tmp_path_factory.mktemp("inventory")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")], check=True)
    data = yaml.safe_load((STATE / "inventory.yml").read_text())
    nodes = data["gpu_nodes"]
    builder = nodes["hosts"].pop(BUILDER)
    wheels = nodes["vars"].pop("framework_pytorch_wheelhouse")
    nodes["hosts"][DEBIAN]["framework_pytorch_wheelhouse"] = wheels
    login = {name: value for name, value in nodes["vars"].items() if name.startswith("ansible_")}
    data["bundle_builders"] = {"hosts": {BUILDER: {"ansible_host": builder["ansible_host"]}}, "vars": login}
    data["all"] = {"vars": {"bundle_folder": str(folder / "bundle"), "bundle_key": str(folder / "key")}}
    (folder / "inventory.yml").write_text(yaml.safe_dump(data))
    return folder / "inventory.yml"


class Bundled(NamedTuple):
    """Who signs the bundle, and what lets EL 9 be installed from it."""

    signer: str
    use: tuple[str, str]


@pytest.fixture(scope="session")
def bundled(inventory: Path) -> Bundled:
    key = ["ssh-keygen", "-l", "-f", str(inventory.with_name("key.pub"))]
    signer = subprocess.run(key, check=True, capture_output=True, text=True).stdout.split()[1]
    more = inventory.with_name("bundled.yml")
    own = {"gpuwright_bundle": str(inventory.with_name("bundle")), "gpuwright_bundle_signer": signer}
    more.write_text(yaml.safe_dump({"gpu_nodes": {"hosts": {NODE: own}}}))
    return Bundled(signer, ("-i", str(more)))


def installed(core: Core, artefact: Path, inventory: Path, folder: Path) -> Site:
    """The folder of somebody who has installed the collection with this release."""
    collections = folder / "collections"
    words = ("collection", "install", "--offline", "-p", str(collections), str(artefact))
    galaxy = core.command("ansible-galaxy", *words, folder=folder)
    alone = environment(collections) | {"ANSIBLE_HOME": str(folder / "home")}
    done = subprocess.run(galaxy, cwd=folder, env=alone, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return Site(core, folder, collections, inventory)


@pytest.fixture(scope="session", params=chosen(os.environ.get("CORE", "")))
def site(
    request: pytest.FixtureRequest,
    fleet: Fleet,
    artefact: Path,
    inventory: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Site:
    """A release of ansible-core, bare hosts for it, and no bundle that another release has made."""
    core = made(request.param)
    found = installed(core, artefact, inventory, tmp_path_factory.mktemp(f"core-{request.param}-"))
    shutil.rmtree(inventory.with_name("bundle"), ignore_errors=True)
    if not fleet.bare:
        fleet.reset()
    fleet.bare = False
    for name in (NODE, BUILDER, DEBIAN):
        on_host(name, MAKE_NEWER)
    return found


@pytest.fixture(scope="session")
def drift_of_bare_hosts(artefact: Path, inventory: Path, tmp_path_factory: pytest.TempPathFactory) -> KeptDrift:
    """What the release that `make venv` installs finds on the same hosts while they are bare."""

    def ask() -> dict[str, Any]:
        pinned = installed(made(PINNED), artefact, inventory, tmp_path_factory.mktemp("pinned"))
        return rows(pinned.drift()[1])

    return KeptDrift(key(artefact, hosts((NODE, DEBIAN), STATE, REPOSITORY)), ask)
