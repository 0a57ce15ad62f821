"""Hosts of the test fleet that are made bare again before every first run, and one with many addresses."""

from __future__ import annotations

import contextlib
import copy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from accounts import Watched

sys.path.append(str(Path(__file__).resolve().parents[3] / "tests/fleet"))

from gpuwright_fleet import cli, containers, inventory
from gpuwright_fleet.paths import HOSTS_FILE, state_dir
from gpuwright_fleet.podman import podman
from gpuwright_fleet.shell import FleetError, readable

REPOSITORY = Path(__file__).resolve().parents[3]
# The first address of each kind, in the fleet's network of 254.
FIRST_HOST, FIRST_ENDPOINT = 10, 120
MOST_HOSTS, MOST_ENDPOINTS = 20, 120


@contextlib.contextmanager
def inotify_for(hosts: int) -> Iterator[None]:
    """Let this machine run that many hosts at once, paused ones included; then its own limit again."""
    limit = containers.INOTIFY
    before = limit.read_text()
    limit.write_text(str(max(int(before), 128 + hosts * containers.INOTIFY_PER_HOST)))
    try:
        yield
    finally:
        limit.write_text(before)


def hardware(number: int) -> dict[str, Any]:
    """A server with one V100, whose serial numbers no other has."""
    found = copy.deepcopy(yaml.safe_load(HOSTS_FILE.read_text())["hosts"]["a5-01"])
    found["gpus"][0] |= {"uuid": f"GPU-5a100001-3b00-4f57-9c1e-0c0{number:09d}", "serial": f"0320519{number:06d}"}
    return found


class Fleet:
    """The hosts of one arm, a fleet of its own with its own mirror."""

    def __init__(self, name: str, count: int) -> None:
        self.name, self.count = f"converge-{name}", count
        self.state = state_dir(self.name)
        self.hosts: list[containers.Host] = []

    @property
    def inventory(self) -> Path:
        return self.state / "inventory.yml"

    @property
    def names(self) -> list[str]:
        return [host.name for host in self.hosts]

    def container(self, host: str) -> str:
        return containers.container_name(self.name, host)

    def make_bare(self) -> None:
        """Recreate all hosts from the image of a bare server."""
        with readable():
            self.down()
            built = cli.build([{"platform": "el8"}])
            self.state.mkdir(parents=True, exist_ok=True)
            cli.ensure_key(self.state)
            network = containers.ensure_network(self.name)
            mirror = str(network[2])
            places = range(self.count)
            self.hosts = [
                containers.Host(f"node-{place + 1:02d}", str(network[FIRST_HOST + place]), hardware(place + 1))
                for place in places
            ]
            containers.start_repository_server(self.name, built.images["el8"], built.repositories, mirror)
            for host in self.hosts:
                containers.start_host(
                    self.name, built.images["el8"], host, mirror, self.state, built.wheelhouses[host.lock]
                )
            cli.write_files(self.name, self.hosts, self.state, built.repositories)
            containers.wait_ready(self.name, self.hosts, self.state / "ssh_config")

    def down(self) -> None:
        """Remove containers, network and files."""
        cli.down(self.name)

    def hold(self, still: bool) -> None:
        """Stop all processes of its hosts, or let them go on: their timers must not run while others are measured."""
        for name in self.names:
            podman("pause" if still else "unpause", self.container(name), check=False)

    def do(self, host: str, script: str, check: bool = True) -> str:
        """Run a script as root, without ssh."""
        return podman("exec", self.container(host), "sh", "-c", script, check=check).stdout

    def timers(self) -> list[str]:
        """When each host checks itself, as systemd's OnCalendar= has it; "" for one that does not."""
        ask = "sed -n s/^OnCalendar=//p /etc/systemd/system/gpuwright-check.timer"
        return [self.do(name, ask, check=False).strip() for name in self.names]

    def watched(self) -> tuple[list[Watched], Watched]:
        """Counters of the hosts, and of their mirror."""
        names = [*map(self.container, self.names), self.container("repo")]
        identities = podman("inspect", "--format", "{{.Id}}", *names).stdout.split()
        *hosts, mirror = map(Watched, identities)
        return hosts, mirror

    def with_variable(self, name: str, value: str) -> Path:
        """An inventory whose hosts have one more variable each: extra variables would also reach the controller."""
        data = yaml.safe_load(self.inventory.read_text())
        for host in data["gpu_nodes"]["hosts"].values():
            host[name] = value
        target = self.inventory.with_name(f"inventory-{name}.yml")
        target.write_text(inventory.inventory_text(data))
        return target


def add_addresses(fleet: Fleet, count: int) -> Path:
    """Let the fleet's first host answer at `count` more addresses; an inventory in which each is a host of its own."""
    if count > MOST_ENDPOINTS:
        raise FleetError(f"At most {MOST_ENDPOINTS} endpoints fit into the network of a fleet.")
    host, network = fleet.hosts[0], containers.ensure_network(fleet.name)
    first = podman("inspect", "--format", "{{.State.Pid}}", fleet.container(host.name)).stdout.strip()
    addresses = [str(network[FIRST_ENDPOINT + place]) for place in range(count)]
    inside = ("nsenter", "--target", first, "--net")
    lines = "".join(f"address add {address}/{network.prefixlen} dev eth0\n" for address in addresses)
    subprocess.run([*inside, "ip", "-batch", "-"], input=lines, text=True, check=True)
    # Otherwise sshd drops connections at random where more than ten have not logged in yet.
    fleet.do(
        host.name,
        "printf 'MaxStartups 400\\nMaxSessions 100\\n' > /etc/ssh/sshd_config.d/20-converge.conf"
        " && { systemctl restart sshd || systemctl restart ssh; }",
    )
    data = yaml.safe_load(fleet.inventory.read_text())
    (own,) = data["gpu_nodes"]["hosts"].values()
    known = [line.split(" ", 1)[1] for line in (fleet.state / "known_hosts").read_text().splitlines()]
    with (fleet.state / "known_hosts").open("a") as file:
        file.writelines(f"{address} {key}\n" for address in addresses for key in known)
    interpreter = {"ansible_python_interpreter": "/usr/libexec/converge/replay"}
    data["gpu_nodes"]["hosts"] = {
        f"endpoint-{place:03d}": {**own, **interpreter, "ansible_host": address}
        for place, address in enumerate(addresses, 1)
    }
    target = fleet.inventory.with_name("endpoints.yml")
    target.write_text(inventory.inventory_text(data))
    return target
