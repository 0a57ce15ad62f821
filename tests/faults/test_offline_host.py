"""Neither hosts nor controller have a route out: what a connected machine bundled makes a bare host PASS."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from conftest import FLEET, REPOSITORY, on_host

NODE, BUILDER = "a5-91", "a5-92"
STATE = REPOSITORY / ".fleet" / "offline"
RUN_SECONDS = 1200
NAMESPACE, CABLE = "gpuwright-offline", "gpuwoff"
OUT = ("https://pypi.org/simple/", "http://repo.fleet.test/baseos/repodata/repomd.xml", "http://192.0.2.1/")


class Site(NamedTuple):
    """Where the bundle is, who signed it, and the inventory."""

    inventory: Path
    bundle: Path
    signer: str
    bridge: str


def words(command: list[str], check: bool = True) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def container(name: str) -> str:
    names = words(["podman", "ps", "--all", "--format", "{{.Names}}"]).split()
    return next(one for one in names if one.endswith(f"-offline-{name}"))


def play(
    site: Site, playbook: str, *arguments: str, inside: bool = True, use: dict[str, str] | None = None
) -> tuple[int, str]:
    """A run of the toolkit; `inside`: in the network namespace that has the fleet's bridge, and no route."""
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    command = [program, "-i", str(site.inventory), playbook, *arguments]
    command += ["-e", json.dumps(use)] if use else []
    prefix = ["ip", "netns", "exec", NAMESPACE] if inside else []
    done = subprocess.run(
        [*prefix, *command], cwd=REPOSITORY, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
    )
    return done.returncode, done.stdout + done.stderr


def commands(site: Site) -> str:
    """Those with which the page has a controller installed, for this bundle."""
    page = (REPOSITORY / "docs/air-gapped.md").read_text()
    found = re.search(r"## Install the controller.*?```\n(.*?)```", page, re.DOTALL)
    assert found and "/media/usb/bundle" in found.group(1)
    return found.group(1).replace("/media/usb/bundle", str(site.bundle))


def of(site: Site, **other: str) -> dict[str, str]:
    """What an inventory beside air-gapped nodes says."""
    return {"gpuwright_bundle": str(site.bundle), "gpuwright_bundle_signer": site.signer, **other}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The fleet `offline` bare and connected, and an operator's key."""
    if not shutil.which("ip"):
        pytest.fail("iproute2 is needed, for a network namespace without a route")
    subprocess.run([*FLEET, "up", "--fleet", "offline"], cwd=REPOSITORY, check=True)
    subprocess.run([*FLEET, "reset", "--fleet", "offline"], cwd=REPOSITORY, check=True)
    folder = tmp_path_factory.mktemp("offline")
    words(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")])
    signer = words(["ssh-keygen", "-l", "-f", str(folder / "key.pub")]).split()[1]
    data = yaml.safe_load((STATE / "inventory.yml").read_text())
    nodes = data["gpu_nodes"]
    builder = nodes["hosts"].pop(BUILDER)
    # The fleet's hosts have a folder of wheels; who has none gets them from the bundle.
    del nodes["vars"]["framework_pytorch_wheelhouse"]
    login = {name: value for name, value in nodes["vars"].items() if name.startswith("ansible_")}
    data["bundle_builders"] = {"hosts": {BUILDER: {"ansible_host": builder["ansible_host"]}}, "vars": login}
    data["all"] = {"vars": {"bundle_folder": str(folder / "bundle"), "bundle_key": str(folder / "key")}}
    (folder / "inventory.yml").write_text(yaml.safe_dump(data))
    name = container(NODE).removesuffix(f"-{NODE}")
    network = json.loads(words(["podman", "network", "inspect", name]))
    yield Site(folder / "inventory.yml", folder / "bundle", signer, network[0]["network_interface"])
    subprocess.run([*FLEET, "down", "--fleet", "offline"], cwd=REPOSITORY, check=True)


@pytest.fixture(scope="module")
def bundle(site: Site) -> dict[str, Any]:
    """Made while everything is connected; the second time from what is there."""
    rc, output = play(site, "playbooks/bundle.yml", "--check", inside=False)
    assert rc == 0, output
    rc, output = play(site, "playbooks/bundle.yml", inside=False)
    assert rc == 0 and site.signer in output.replace("\n", "").replace(" ", ""), output
    assert " MiB to download" in output and "wheels to download" in output
    return json.loads((site.bundle / "bundle.json").read_text())


@pytest.fixture(scope="module")
def cut_off(site: Site, bundle: dict[str, Any]) -> Iterator[None]:
    """No packages' server, no way through the bridge, and a controller that has nothing but the bridge."""
    repository = container("repo")
    address = on_host("ip -4 -brief address show eth0", fleet="offline", host=NODE).split()[2]
    subnet = address.rpartition(".")[0]
    rule = [
        "FORWARD",
        "-i",
        site.bridge,
        "!",
        "-o",
        site.bridge,
        "-j",
        "REJECT",
        "--reject-with",
        "icmp-net-unreachable",
    ]
    words(["podman", "stop", "--time", "1", repository])
    try:
        words(["iptables", "-I", *rule])
        words(["ip", "netns", "add", NAMESPACE])
        words(["ip", "link", "add", f"{CABLE}0", "type", "veth", "peer", "name", f"{CABLE}1", "netns", NAMESPACE])
        words(["ip", "link", "set", f"{CABLE}0", "master", site.bridge, "up"])
        words(["ip", "-n", NAMESPACE, "address", "add", f"{subnet}.250/24", "dev", f"{CABLE}1"])
        for name in ("lo", f"{CABLE}1"):
            words(["ip", "-n", NAMESPACE, "link", "set", name, "up"])
        yield
    finally:
        with contextlib.suppress(AssertionError):
            words(["ip", "netns", "del", NAMESPACE], check=False)
        words(["iptables", "-D", *rule], check=False)
        words(["podman", "start", repository], check=False)


def test_a_second_run_downloads_nothing_and_signs_nothing(site: Site, bundle: dict[str, Any]) -> None:
    rc, output = play(site, "playbooks/bundle.yml", inside=False)
    assert rc == 0 and "wheels to download" not in output, output
    assert "; 0 MiB to download" in output
    found = json.loads((site.bundle / "bundle.json").read_text())
    assert [path for path, row in found["files"].items() if bundle["files"].get(path) != row] == []
    assert found == bundle


def test_nothing_answers_out_there(site: Site, cut_off: None) -> None:
    """Neither host nor controller can fetch anything; but ssh goes from one to the other."""
    for url in OUT:
        script = f"curl -sS -m 10 -o /dev/null {url} && echo came || echo none"
        assert on_host(script, fleet="offline", host=NODE).endswith("none"), url
        assert words(["ip", "netns", "exec", NAMESPACE, "sh", "-c", f"{script} 2>&1"]).endswith("none"), url
    assert words(["ip", "-n", NAMESPACE, "route", "show", "default"]) == ""


def test_a_damaged_bundle_stops_before_the_host_is_contacted(site: Site, cut_off: None, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(site.bundle, folder)
    wheel = next((folder / "wheels").glob("torch-*"))
    with wheel.open("r+b") as file:
        file.seek(1000)
        file.write(b"XXXX")
    before = on_host("ls -A /var/lib/gpuwright 2>&1; ls /etc/yum.repos.d", fleet="offline", host=NODE)
    started = time.monotonic()
    rc, output = play(site, "site.yml", use=of(site, gpuwright_bundle=str(folder)))
    assert rc == 2 and "[bundle.altered]" in output and wheel.name in output.replace("\n", "").replace(" ", ""), output
    other = "SHA256:" + "A" * 43
    rc, output = play(site, "site.yml", use=of(site, gpuwright_bundle_signer=other))
    assert rc == 2 and "[bundle.signer]" in output, output
    rc, output = play(site, "site.yml", use=of(site, system_driver_branch="570"))
    assert rc == 2 and "[bundle.plan]" in output, output
    assert on_host("ls -A /var/lib/gpuwright 2>&1; ls /etc/yum.repos.d", fleet="offline", host=NODE) == before
    assert time.monotonic() - started < RUN_SECONDS


def test_a_controller_is_installed_from_the_bundle_as_the_page_says(site: Site, cut_off: None, tmp_path: Path) -> None:
    """In an empty home, without an index; the installed collection then reads the host and the bundle."""
    shutil.copy(site.bundle.with_name("key.pub"), tmp_path / "gpuwright_bundle.pub")
    own = {"HOME": str(tmp_path), "PATH": os.defpath, "LANG": "C.UTF-8", "PIP_NO_INDEX": "1"}
    prefix = ["ip", "netns", "exec", NAMESPACE]

    def run(*command: str) -> str:
        done = subprocess.run(
            [*prefix, *command], cwd=tmp_path, env=own, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert 'Good "gpuwright-bundle" signature' in run("bash", "-e", "-c", commands(site))
    program = str(tmp_path / "gpuwright/bin/ansible-playbook")
    play = [program, "gpuwright.node.preflight", "-i", str(site.inventory), "-e", json.dumps(of(site))]
    assert "failed=0" in run(*play)
    # What was installed is passed on by the next bundle.
    make = [program, "gpuwright.node.bundle", "-e", "bundle_part=controller", "-e", "bundle_folder=next"]
    run(*make, "-e", json.dumps({"bundle_key": str(site.bundle.with_name("key")), "bundle_controller_pythons": []}))
    assert list((tmp_path / "next/collection").glob("*.tar.gz"))


def test_a_bare_host_becomes_pass_and_a_second_run_changes_nothing(site: Site, cut_off: None) -> None:
    rc, output = play(site, "site.yml", "--check", use=of(site))
    assert rc == 0, output
    there = on_host("test -e /var/lib/gpuwright/bundle && echo copied || echo none", fleet="offline", host=NODE)
    assert there == "none"
    rc, output = play(site, "site.yml", use=of(site))
    assert rc == 0 and f"{NODE}  PASS" in output, output
    assert on_host("rpm -q kmod-nvidia-latest-dkms cuda-toolkit-12-9 | wc -l", fleet="offline", host=NODE) == "2"
    rc, output = play(site, "site.yml", use=of(site))
    assert rc == 0 and "changed=0" in output, output


def test_the_node_gets_its_own_repositories_back(site: Site, cut_off: None) -> None:
    rc, output = play(site, "playbooks/system.yml", "--tags", "preflight", use={"bundle_state": "absent"})
    assert rc == 0, output
    look = "grep -c '^enabled *= *1' /etc/yum.repos.d/redhat.repo; ls /var/lib/gpuwright"
    found = on_host(look, fleet="offline", host=NODE)
    assert found.split()[0] == "2" and "bundle" not in found.split()
