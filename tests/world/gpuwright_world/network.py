"""The servers beside a fleet's hosts: a mirror with a login, and the proxy that is the only way to it."""

from __future__ import annotations

from pathlib import Path

from gpuwright_fleet import containers
from gpuwright_fleet.podman import podman

# Made up, of characters that addresses must escape. Of ASCII alone: pip sends others as Latin-1, dnf as UTF-8.
USER, PASSWORD = "ci-site", "pa:ss@word/7+x"
QUOTED = "pa%3Ass%40word%2F7%2Bx"
MIRROR_HOST = "mirror.world.test"
SERVERS = Path(__file__).with_name("servers.py")


def start_servers(fleet: str, host: str) -> dict[str, str]:
    """Start mirror and proxy in the fleet's network; what @NAME@ means in the scripts of conditions."""
    state = containers.state_of(containers.container_name(fleet, host))
    repository = containers.state_of(containers.container_name(fleet, "repo"))["repository"]
    wheels = next(line for line in state["sources"].splitlines() if line.endswith("/wheels"))
    network = containers.ensure_network(fleet)
    mirror, proxy = str(network[3]), str(network[4])
    known = [f"--add-host={MIRROR_HOST}:{mirror}", f"--add-host={containers.REPOSITORY_HOST}:{network[2]}"]
    folders = [f"--volume={repository}:/srv/repositories:ro", f"--volume={wheels}:/srv/wheels:ro"]
    for name, address, words in (
        ("mirror", mirror, ["mirror", USER, PASSWORD, "/srv/repositories", "/srv/wheels"]),
        ("proxy", proxy, ["proxy"]),
    ):
        container = containers.container_name(fleet, name)
        containers.remove(container)
        podman(
            "run", "--detach", "--name", container, "--hostname", name, "--restart", "always", "--systemd=false",
            *containers.labels(fleet), "--network", containers.network_name(fleet), *containers.address_words(address),
            *known, *folders, f"--volume={SERVERS}:/srv/servers.py:ro", state["image"],
            "/usr/libexec/platform-python", "-u", "/srv/servers.py", *words,
        )  # fmt: skip
    bracketed = f"[{proxy}]" if ":" in proxy else proxy
    return {
        "USER": USER,
        "PASSWORD": PASSWORD,
        "QUOTED": QUOTED,
        "PROXY": f"http://{bracketed}:3128",
        "MIRROR_ADDRESS": mirror,
    }


def requests_of(fleet: str, server: str) -> list[str]:
    """One line for each request that a server of this fleet was sent."""
    done = podman("logs", containers.container_name(fleet, server), check=False)
    return [line for line in (done.stdout + done.stderr).splitlines() if '" ' in line]
