"""Networks, the repository server and the hosts: podman containers whose names begin with fleet-<checkout>-<fleet>-."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import ipaddress
import json
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .paths import REPO_ROOT
from .podman import podman
from .shell import FleetError, run, say
from .wheelhouse import lock_of

READY_SECONDS = 120
# A host's systemd and services open ten inotify instances, and Linux allows root 128 on the whole machine by default.
INOTIFY, INOTIFY_PER_HOST = Path("/proc/sys/fs/inotify/max_user_instances"), 12
# What the images begin with.
INIT = "/usr/libexec/fleet/init"
REPOSITORY_HOST = "repo.fleet.test"
# Beyond podman's defaults: mounting over /sys and /proc (SYS_ADMIN), device nodes (MKNOD), NUMA binding (SYS_NICE), and
# what lets root see everybody's processes where /proc hides them (SYS_PTRACE).
CAPABILITIES = ("SYS_ADMIN", "SYS_NICE", "SYS_PTRACE", "MKNOD", "AUDIT_WRITE", "NET_RAW")


@dataclass(frozen=True)
class Host:
    name: str
    address: str
    hardware: dict[str, Any]

    @property
    def platform(self) -> str:
        return self.hardware.get("platform", "el8")

    @property
    def lock(self) -> Path:
        return lock_of(self.hardware)

    @property
    def gpus(self) -> list[dict[str, Any]]:
        return self.hardware["gpus"]


def checkout() -> str:
    """Four hex digits of this checkout's path: two checkouts on one machine can run the same fleet side by side."""
    return hashlib.sha256(str(REPO_ROOT).encode()).hexdigest()[:4]


def container_name(fleet: str, host: str) -> str:
    return f"fleet-{checkout()}-{fleet}-{host}"


def network_name(fleet: str) -> str:
    return f"fleet-{checkout()}-{fleet}"


def labels(fleet: str) -> list[str]:
    return [f"--label=gpuwright.fleet={fleet}", f"--label=gpuwright.checkout={REPO_ROOT}"]


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def ipv6_subnet(fleet: str) -> str:
    """A subnet for local use (RFC 4193) that is the fleet's own; podman picks none where IPv6 stands alone."""
    digits = hashlib.sha256(network_name(fleet).encode()).hexdigest()
    return f"fd{digits[:2]}:{digits[2:6]}:{digits[6:10]}:{digits[10:14]}::/64"


def ensure_network(fleet: str, ipv6: bool = False) -> Network:
    """The fleet's network; podman picks a free subnet when it is created, with `ipv6` there is no IPv4 in it."""
    name = network_name(fleet)
    if podman("network", "exists", name, check=False).returncode != 0:
        only = ["--subnet", ipv6_subnet(fleet)] if ipv6 else []
        podman("network", "create", "--disable-dns", *only, *labels(fleet), name)
    data = json.loads(podman("network", "inspect", name).stdout)
    return ipaddress.ip_network(data[0]["subnets"][0]["subnet"])


def address_plan(network: Network, hosts: list[str]) -> dict[str, str]:
    """Fixed addresses: .2 for the repository server, from .10 for hosts, by their place in hosts.yml."""
    plan = {"repo": str(network[2])}
    return plan | {name: str(network[10 + number]) for number, name in enumerate(hosts)}


def mac_address(address: str) -> str:
    """The same for a host that is recreated: others keep the old one in their ARP tables for half a minute."""
    return "02:67:" + ":".join(f"{octet:02x}" for octet in ipaddress.ip_address(address).packed[-4:])


def address_words(address: str) -> list[str]:
    """What gives a container its address."""
    option = "--ip6" if ":" in address else "--ip"
    return [option, address, "--mac-address", mac_address(address)]


def state_of(name: str) -> dict[str, str]:
    """State, image and mounted sources of a container; empty when there is none."""
    result = podman("inspect", "--type", "container", name, check=False)
    if result.returncode != 0:
        return {}
    data = json.loads(result.stdout)[0]
    mounts = {mount["Destination"]: mount["Source"] for mount in data["Mounts"]}
    return {
        "status": data["State"]["Status"],
        "image": data["ImageName"],
        "repository": mounts.get("/srv/repositories", ""),
        "sources": "\n".join(mounts.values()),
    }


def remove(name: str) -> None:
    podman("rm", "--force", "--time", "0", "--ignore", name)


def start_repository_server(
    fleet: str, image: str, repositories: Path, address: str, archives: dict[str, Path] | None = None
) -> None:
    """Start what serves the repositories, and below their names the `archives`, or keep it as it is."""
    name = container_name(fleet, "repo")
    more = {f"/srv/repositories/{place}": folder for place, folder in (archives or {}).items()}
    state = state_of(name)
    mounted = {str(repositories), *map(str, more.values())} <= set(state.get("sources", "").split("\n"))
    if state.get("status") == "running" and state["image"] == image and mounted:
        return
    remove(name)
    say(f"   {name}: {address} (repositories)")
    podman(
        "run", "--detach", "--name", name, "--hostname", "repo", "--restart", "always", "--systemd=false",
        *labels(fleet), "--network", network_name(fleet),
        *address_words(address), "--volume", f"{repositories}:/srv/repositories:ro",
        *(f"--volume={folder}:{place}:ro" for place, folder in more.items()), image,
        "/usr/libexec/platform-python", "-m", "http.server", "--directory", "/srv/repositories",
        *(["--bind", "::"] if ":" in address else []), "80",
    )  # fmt: skip


def start_host(
    fleet: str,
    image: str,
    host: Host,
    repo_address: str,
    state: Path,
    wheelhouse: Path | None,
    more: tuple[str, ...] = (),
    root: Path | None = None,
) -> None:
    """Start one host, or keep it as it is.

    `more`: further volumes, each as podman takes it. `root`: a folder with a copy of the image, in place of it.
    """
    name = container_name(fleet, host.name)
    known = state_of(name)
    if known.get("image") == image:
        if known["status"] != "running":
            podman("start", name)
        return
    if known:
        say(f"   {name}: made bare again, because image or repositories have changed")
    remove(name)
    say(f"   {name}: {host.address} ({len(host.gpus)} GPU)")
    hardware = state / f"{host.name}.json"
    hardware.write_text(json.dumps(host.hardware, indent=1))
    volumes = [f"{hardware}:/etc/fleet/hardware.json:ro", f"{state / 'id_ed25519.pub'}:/etc/fleet/authorized_keys:ro"]
    if wheelhouse:
        volumes.append(f"{wheelhouse}:/srv/gpuwright/wheelhouse:ro")
    podman(
        "run", "--detach", "--name", name, "--hostname", host.name, "--restart", "always", "--systemd=always",
        *labels(fleet), "--network", network_name(fleet),
        *address_words(host.address),
        "--add-host", f"{REPOSITORY_HOST}:{repo_address}", "--security-opt", "unmask=ALL", "--shm-size", "2g",
        *(f"--cap-add={name}" for name in CAPABILITIES), *(f"--volume={volume}" for volume in (*volumes, *more)),
        *(["--rootfs", str(root), INIT] if root else [image]),
    )  # fmt: skip


def wait_ready(fleet: str, hosts: list[Host], ssh_config: Path) -> None:
    """Wait until every host answers over ssh and systemd has finished starting."""
    deadline = time.monotonic() + READY_SECONDS
    for host in hosts:
        state = ""
        while state not in ("running", "degraded"):
            if time.monotonic() > deadline:
                log = podman("logs", "--tail", "20", container_name(fleet, host.name), check=False).stdout
                late = f"Host {host.name} is not ready after {READY_SECONDS} s (state {state!r})."
                raise FleetError("\n".join(filter(None, (late, inotify_advice(), log))))
            command = ["ssh", "-F", str(ssh_config), host.name, "systemctl is-system-running"]
            with contextlib.suppress(FleetError):
                state = run(command, check=False, timeout=10).stdout.strip()
            if state not in ("running", "degraded"):
                time.sleep(0.3)


def inotify_advice() -> str:
    """What to do where this machine has too few inotify instances left for one more host; empty where it has enough.

    Without one, systemd in the host does not finish starting, and its log does not say why.
    """
    libc, limit = ctypes.CDLL(None), INOTIFY.read_text().strip()
    with contextlib.ExitStack() as opened:
        for _ in range(INOTIFY_PER_HOST):
            instance = libc.inotify_init1(os.O_CLOEXEC)
            if instance < 0:
                return (
                    f"This machine has no inotify instances left for it ({INOTIFY} is {limit}).\n"
                    "Stop other fleets, or raise the limit: sysctl fs.inotify.max_user_instances=512"
                )
            opened.callback(os.close, instance)
    return ""


def host_keys(fleet: str, host: Host) -> list[str]:
    """known_hosts lines of a host, read inside it (not over the network), so that ssh can check them."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        command = ["exec", container_name(fleet, host.name), "sh", "-c", "cat /etc/ssh/ssh_host_*_key.pub"]
        answer = podman(*command, check=False, timeout=20)
        keys = [" ".join(line.split()[:2]) for line in answer.stdout.splitlines()]
        if answer.returncode == 0 and keys:
            return [f"{host.address},{host.name} {key}" for key in sorted(keys)]
        if time.monotonic() > deadline:
            raise FleetError(f"Host {host.name} has no ssh host keys after {READY_SECONDS} s.")
        time.sleep(0.2)


def newest_kernel(fleet: str, host: Host) -> str:
    """Release of the newest kernel that a Debian host's own mirror has."""
    script = "apt-get update -qq >&2 && apt-cache depends --important linux-headers-amd64"
    answer = podman("exec", container_name(fleet, host.name), "sh", "-c", script, check=False, timeout=300)
    found = re.search(r"Depends: linux-headers-([0-9]\S+)", answer.stdout)
    if not found:
        raise FleetError(f"Host {host.name} cannot read Debian's package lists: {answer.stderr.strip()[-300:]}")
    return found.group(1)


def take_down(fleet: str) -> int:
    """Remove the containers and the network of a fleet; the number of removed containers."""
    own = ["--filter", f"label=gpuwright.fleet={fleet}", "--filter", f"label=gpuwright.checkout={REPO_ROOT}"]
    names = podman("ps", "--all", *own, "--format", "{{.Names}}").stdout.split()
    for name in names:
        remove(name)
    podman("network", "rm", "--force", network_name(fleet), check=False)
    return len(names)


def served_folders() -> set[str]:
    """The cache folders that containers mount."""
    names = podman("ps", "--all", "--filter", "label=gpuwright.fleet", "--format", "{{.Names}}").stdout.split()
    return {
        source.removesuffix("/wheels") for name in names for source in state_of(name).get("sources", "").split("\n")
    }


def overview() -> list[dict[str, str]]:
    text = podman("ps", "--all", "--filter", "label=gpuwright.fleet", "--format", "json").stdout
    rows = []
    for entry in json.loads(text or "[]"):
        fleet = entry["Labels"]["gpuwright.fleet"]
        row = {"fleet": fleet, "name": entry["Names"][0], "state": entry["State"], "status": entry.get("Status", "")}
        rows.append(row | {"checkout": entry["Labels"].get("gpuwright.checkout", "")})
    return sorted(rows, key=lambda row: row["name"])
