"""The command line: build, up, down, reset, status."""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from . import containers, inventory
from .base import SUITE, base_key, build_base
from .image import build_debian_image, build_el_image, build_ubuntu_image
from .paths import DEBIAN_DIR, EL8_DIR, HOSTS_FILE, cache_dir, state_dir
from .podman import require_containers
from .repositories import build_repositories
from .shell import FleetError, run, say
from .ubuntu import RELEASES, build_archive, build_userland
from .wheelhouse import build_wheelhouse, lock_of

KEEP = 2
PLATFORMS = (
    "el8",
    "el8-python38",
    "el9",
    "el10",
    "debian12",
    "debian12-nvidia",
    "debian13",
    "debian13-nvidia",
    *RELEASES,
)
# The suite of each platform that is Debian; those with NVIDIA's repository have a simulated kernel.
SUITE_OF = {"debian12": SUITE, "debian12-nvidia": SUITE, "debian13": "trixie", "debian13-nvidia": "trixie"}
USED_SECONDS = 3600


@dataclass(frozen=True)
class Built:
    """What containers are made from; `images` and `archives` (of Ubuntu) by platform, `wheelhouses` by lock file."""

    images: dict[str, str]
    repositories: Path
    archives: dict[str, Path]
    wheelhouses: dict[Path, Path | None]


@contextmanager
def locked(name: str) -> Iterator[None]:
    """One build (or one `up` of a fleet) at a time; others wait."""
    cache_dir().mkdir(parents=True, exist_ok=True)
    with (cache_dir() / f"{name}.lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"   waiting for another fleet command ({name})")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def surplus(folders: list[Path], in_use: set[str], now: float) -> list[Path]:
    """Old cache folders: all but the newest of each kind, without those in use or used within the hour.

    Another check-out on this machine may have built its own and be about to start hosts from it.
    """
    kept: dict[str, int] = {}
    old = []
    for folder in sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True):
        kind = folder.name.rpartition("-")[0]
        kept[kind] = kept.get(kind, 0) + 1
        if kept[kind] > KEEP and str(folder) not in in_use and now - folder.stat().st_mtime > USED_SECONDS:
            old.append(folder)
    return old


def prune() -> None:
    """Remove builds of earlier states of the files: a few hundred MB each."""
    folders = [path for path in cache_dir().glob("*-????????????") if path.is_dir()]
    if len(folders) > 3:  # base, repositories, wheelhouse
        for folder in surplus(folders, containers.served_folders(), time.time()):
            shutil.rmtree(folder)


def build(specs: list[dict[str, Any]]) -> Built:
    """Build or find what these hosts of hosts.yml need; el8's image always, as the repository server is one."""
    platforms = {platform_of(spec) for spec in specs}
    with locked("build"):
        base = build_base(EL8_DIR)
        repositories = build_repositories(base, base_key(EL8_DIR))
        enterprise = ["el8", *sorted(platforms & {"el8-python38", "el9", "el10"})]
        images = {platform: build_el_image(base, repositories, platform) for platform in enterprise}
        for platform in sorted(platforms & set(SUITE_OF)):
            name, _, simulated_kernel = platform.partition("-")
            debian = build_base(DEBIAN_DIR, SUITE_OF[platform])
            images[platform] = build_debian_image(debian, repositories if simulated_kernel else None, name)
        archives = {}
        for platform in sorted(platforms & set(RELEASES)):
            userland = build_userland(platform)
            archives[platform] = build_archive(platform, userland, repositories)
            images[platform] = build_ubuntu_image(userland, repositories, archives[platform], platform)
        wheelhouses = {lock: build_wheelhouse(lock) for lock in sorted({lock_of(spec) for spec in specs})}
        built = Built(images, repositories, archives, wheelhouses)
        prune()
        return built


def platform_of(host: dict[str, Any]) -> str:
    return host.get("platform", "el8")


def host_names(data: dict[str, Any], fleet: str, only: str | None) -> list[str]:
    """The hosts of a fleet; `only` (a,b) restricts them or, for a fleet of another name, chooses them."""
    if only:
        names = only.split(",")
        unknown = [name for name in names if name not in data["hosts"]]
        if unknown:
            raise FleetError(f"Unknown host {unknown[0]!r}; tests/fleet/hosts.yml has {', '.join(data['hosts'])}.")
        return names
    if fleet not in data["fleets"]:
        raise FleetError(f"Unknown fleet {fleet!r}; hosts.yml has {', '.join(data['fleets'])} (or give --hosts).")
    return data["fleets"][fleet]


def ensure_key(state: Path) -> None:
    if not (state / "id_ed25519").exists():
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "fleet", "-f", state / "id_ed25519"])


def up(fleet: str, only: str | None, ipv6: bool = False) -> None:
    started = time.monotonic()
    data = yaml.safe_load(HOSTS_FILE.read_text())
    names = host_names(data, fleet, only)
    built = build([data["hosts"][name] for name in names])
    state = state_dir(fleet)
    state.mkdir(parents=True, exist_ok=True)
    with locked(f"fleet-{fleet}"):
        ensure_key(state)
        network = containers.ensure_network(fleet, ipv6)
        plan = containers.address_plan(network, list(data["hosts"]))
        hosts = [containers.Host(name, plan[name], data["hosts"][name]) for name in names]
        say(f"-> fleet {fleet}: {', '.join(names)}")
        containers.start_repository_server(fleet, built.images["el8"], built.repositories, plan["repo"], built.archives)
        for host in hosts:
            image = built.images[host.platform]
            containers.start_host(fleet, image, host, plan["repo"], state, built.wheelhouses[host.lock])
        write_files(fleet, hosts, state, built.repositories)
        containers.wait_ready(fleet, hosts, state / "ssh_config")
    say(f"   ready after {time.monotonic() - started:.1f} s; inventory: {state / 'inventory.yml'}")
    for host in hosts:
        say(f"   ssh -F {state / 'ssh_config'} {host.name}")


def write_files(fleet: str, hosts: list[containers.Host], state: Path, repositories: Path) -> None:
    fingerprints = yaml.safe_load((repositories / "fingerprints.yml").read_text())
    keys = [line for host in hosts for line in containers.host_keys(fleet, host)]
    (state / "known_hosts").write_text("\n".join(keys) + "\n")
    (state / "ssh_config").write_text(inventory.ssh_config_text(hosts, state))
    archive = [host for host in hosts if host.platform in inventory.OF_THE_ARCHIVE]
    kernels = {host.name: containers.newest_kernel(fleet, host) for host in archive}
    data = inventory.inventory(hosts, state, fingerprints, kernels)
    if fleet == inventory.FLEET_OF_USERS:
        inventory.keep_reports_apart(data, state)
    (state / "inventory.yml").write_text(inventory.inventory_text(data))
    if fleet == inventory.FLEET_OF_USERS:
        inventory.load_group_vars(state)


def down(fleet: str) -> None:
    say(f"-> fleet {fleet}: its containers and .fleet/{fleet} are being removed, which takes up to a minute")
    removed = containers.take_down(fleet)
    shutil.rmtree(state_dir(fleet), ignore_errors=True)
    say(f"   fleet {fleet}: {removed} containers removed")


def reset(fleet: str, only: str | None) -> None:
    """Return hosts to their bare state: recreate their containers."""
    data = yaml.safe_load(HOSTS_FILE.read_text())
    for name in host_names(data, fleet, only):
        containers.remove(containers.container_name(fleet, name))
    up(fleet, only)


def status() -> None:
    rows = containers.overview()
    if not rows:
        say("No fleet is running.")
    for row in rows:
        say(f"{row['fleet']:<16} {row['name']:<36} {row['state']:<10} {row['status']:<24} {row['checkout']}")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fleet", description="Test hosts that look like bare GPU servers.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("build", help="build and cache image, repositories and wheelhouse")
    command.add_argument("--platform", choices=PLATFORMS, default="el8", help="default: el8")
    commands.add_parser("status", help="show the running fleets")
    for name, text in (("up", "start a fleet"), ("reset", "make its hosts bare again"), ("down", "remove it")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--fleet", default="demo", help="default: demo")
        if name == "up":
            command.add_argument("--ipv6", action="store_true", help="a new fleet's network has no IPv4")
        if name != "down":
            command.add_argument("--hosts", help="comma-separated, default: the fleet's hosts in hosts.yml")
    options = parser.parse_args(arguments)
    if "fleet" in options and not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,30}", options.fleet):
        parser.error("a fleet's name consists of a-z, 0-9 and -")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse(sys.argv[1:] if arguments is None else arguments)
    # Files built here are installed elsewhere: they must be the same under every umask.
    os.umask(0o022)
    try:
        require_containers()
        if options.command == "build":
            asked = {"platform": options.platform}
            built = build([asked])
            wheelhouse = built.wheelhouses[lock_of(asked)] or "none"
            image = built.images[options.platform]
            say(f"   image {image}, repositories {built.repositories}, wheelhouse {wheelhouse}")
        elif options.command == "up":
            up(options.fleet, options.hosts, options.ipv6)
        elif options.command == "reset":
            reset(options.fleet, options.hosts)
        elif options.command == "down":
            down(options.fleet)
        else:
            status()
    except FleetError as error:
        print(f"fleet: {error}", file=sys.stderr)
        return error.exit_code
    return 0
