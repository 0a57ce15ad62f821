"""What `fleet up` writes, and how it plans addresses, sources and wheels."""

from __future__ import annotations

import ipaddress
import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

FLEET = Path(__file__).resolve().parents[2] / "fleet"
sys.path.insert(0, str(FLEET))

from gpuwright_fleet import base, cli, containers, image, inventory, paths, wheelhouse  # noqa: E402
from gpuwright_fleet.shell import FleetError  # noqa: E402

HOSTS = yaml.safe_load((FLEET / "hosts.yml").read_text())
NOW = 1_800_000_000
FINGERPRINTS = {"epel": "1" * 40, "nvidia": "2" * 40, "redhat": "3" * 40}


def hosts() -> list[containers.Host]:
    names = HOSTS["fleets"]["demo"]
    plan = containers.address_plan(ipaddress.IPv4Network("10.9.8.0/24"), list(HOSTS["hosts"]))
    return [containers.Host(name, plan[name], HOSTS["hosts"][name]) for name in names]


def test_every_fleet_names_known_hosts_with_complete_gpus() -> None:
    for names in HOSTS["fleets"].values():
        for name in names:
            for gpu in HOSTS["hosts"][name]["gpus"]:
                assert {"pci", "device", "name", "uuid", "serial", "numa_node"} <= set(gpu)
    uuids = [gpu["uuid"] for host in HOSTS["hosts"].values() for gpu in host["gpus"]]
    assert len(uuids) == len(set(uuids))


def test_inventory_is_read_back_as_it_was_meant() -> None:
    text = inventory.inventory_text(inventory.inventory(hosts(), Path("/state"), FINGERPRINTS, {}))
    group = yaml.safe_load(text)["gpu_nodes"]
    model = {"verify_expected_gpu_model": "Tesla V100-PCIE-16GB"}
    simulated = {"gpuwright_simulated": inventory.SIMULATED["el8"], **model}
    assert group["hosts"]["a5-01"] == {"ansible_host": "10.9.8.10", "verify_expected_gpu_count": 1, **simulated}
    assert group["hosts"]["a5-02"] == {"ansible_host": "10.9.8.11", "verify_expected_gpu_count": 2, **simulated}
    assert group["vars"]["framework_pytorch_version"] == "2.13.0"
    assert group["vars"]["system_driver_repository_key_fingerprint"] == "2" * 40
    assert "StrictHostKeyChecking=yes" in group["vars"]["ansible_ssh_common_args"]


def test_every_platform_says_what_is_simulated() -> None:
    for name, spec in HOSTS["hosts"].items():
        platform = containers.Host(name, "10.9.8.10", spec).platform
        assert "GPUs" in inventory.SIMULATED[platform], name


def test_versions_and_fingerprints_are_quoted_strings() -> None:
    text = inventory.inventory_text(inventory.inventory(hosts(), Path("/state"), FINGERPRINTS, {}))
    assert 'framework_pytorch_version: "2.13.0"' in text
    assert f'system_kernel_epel_key_fingerprint: "{"1" * 40}"' in text


def test_ssh_config_checks_host_keys() -> None:
    text = inventory.ssh_config_text(hosts(), Path("/state"))
    assert "Host a5-02\n    HostName 10.9.8.11\n" in text
    assert "StrictHostKeyChecking yes" in text


@pytest.mark.parametrize(("fleet", "follows"), [("demo", True), ("el8", False), ("my-own", False)])
def test_the_demo_alone_loads_the_group_vars_that_a_user_edits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fleet: str, follows: bool
) -> None:
    """In the demo a variable of the checkout counts, before the fleet's own; tests follow nobody's edits."""
    folder = tmp_path / "inventory/group_vars"
    shutil.copytree(paths.REPO_ROOT / "inventory/group_vars", folder)
    lines = (
        ("system", 'system_driver_branch: "575"\nverify_report_dir: "/srv/reports"'),
        ("framework", 'framework_pytorch_version: "2.10.0"'),
    )
    for name, line in lines:
        with (folder / f"gpu_nodes/{name}.yml").open("a") as file:
            file.write(line + "\n")
    state = tmp_path / ".fleet" / fleet
    state.mkdir(parents=True)
    (tmp_path / "fingerprints.yml").write_text(json.dumps(FINGERPRINTS))
    monkeypatch.setattr(inventory, "REPO_ROOT", tmp_path)
    monkeypatch.setattr(containers, "host_keys", lambda fleet, host: [])
    # A second `up` finds what the first one wrote.
    for _ in range(2):
        cli.write_files(fleet, hosts(), state, tmp_path)
    shown = subprocess.run(
        [Path(sys.executable).with_name("ansible-inventory"), "-i", state / "inventory.yml", "--host", "a5-01"],
        cwd=paths.REPO_ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(shown.stdout)
    wanted = ("575", "2.10.0") if follows else (None, inventory.PYTORCH_VERSION)
    assert (told.get("system_driver_branch"), told["framework_pytorch_version"]) == wanted
    assert told["verify_expected_gpu_count"] == 1
    # A demo's simulated hosts are not among the user's own, also where group_vars name a folder for these.
    assert told.get("verify_report_dir") == (f"{state}/reports" if follows else None)
    monkeypatch.setattr(cli, "state_dir", lambda fleet: state)
    monkeypatch.setattr(containers, "take_down", lambda fleet: 0)
    cli.down(fleet)
    first, last = capsys.readouterr().out.splitlines()
    assert "takes up to a minute" in first and "0 containers removed" in last
    assert not state.exists() and (folder / "gpu_nodes/system.yml").exists()


def test_hosts_may_be_chosen() -> None:
    assert cli.host_names(HOSTS, "demo", None) == ["a5-01", "a5-02"]
    assert cli.host_names(HOSTS, "my-own", "a5-21") == ["a5-21"]


@pytest.mark.parametrize(("fleet", "only"), [("nowhere", None), ("demo", "a5-01,a5-99")])
def test_an_unknown_name_is_an_error(fleet: str, only: str | None) -> None:
    with pytest.raises(FleetError, match="Unknown"):
        cli.host_names(HOSTS, fleet, only)


def test_only_debian_12_sources_are_used() -> None:
    targets = (
        "Debian|bookworm|http://mirror.test/debian/|main\n"
        "Debian|bookworm-security|http://mirror.test/security/|main\n"
        "Node Source|nodistro|http://other.test/|main\n"
        "Debian|trixie|http://mirror.test/debian/|main\n"
    )
    assert base.source_lines(targets) == [
        "deb http://mirror.test/debian/ bookworm main",
        "deb http://mirror.test/security/ bookworm-security main",
    ]
    assert base.source_lines(targets, "trixie") == ["deb http://mirror.test/debian/ trixie main"]


def test_a_machine_of_debian_12_knows_where_debian_13_is() -> None:
    """One mirror has every suite of Debian under the same address."""
    targets = "Debian|bookworm|http://mirror.test/debian/|main\nDebian|bookworm-security|http://mirror.test/sec/|main\n"
    assert base.source_lines(targets, "trixie") == [
        "deb http://mirror.test/debian/ trixie main",
        "deb http://mirror.test/sec/ trixie-security main",
    ]
    assert base.source_lines("Node|nodistro|http://other.test/|main\n", "trixie") == []


def test_a_bundle_is_split_into_its_certificates() -> None:
    one = "-----BEGIN CERTIFICATE-----\nAAA\n-----END CERTIFICATE-----\n"
    two = one.replace("AAA", "BBB")
    assert image.split_certificates(f"# comment\n{one}\n# other\n{two}") == [one, two]


def test_wheels_are_chosen_for_the_hosts_python() -> None:
    command = wheelhouse.download_command("python", wheelhouse.LOCK, Path("wheels"), native=False)
    assert "--require-hashes" in command
    assert command[command.index("--python-version") + 1] == "3.11"
    later = wheelhouse.download_command("python", Path("py3.12-torch9.9.9-cu999.txt"), Path("wheels"), native=False)
    assert later[later.index("--python-version") + 1] == "3.12" and "cp312" in later and "cp311" not in later
    assert "manylinux_2_28_x86_64" in command
    assert "--platform" not in wheelhouse.download_command("python", Path("l"), Path("w"), native=True)


def test_a_host_whose_python_has_no_cpu_build_gets_the_lock_of_a_real_node() -> None:
    for platform, lock in wheelhouse.LOCK_OF.items():
        assert lock.exists() and platform in cli.PLATFORMS
        spec = next(spec for spec in HOSTS["hosts"].values() if spec.get("platform") == platform)
        host = containers.Host("one", "10.9.8.10", spec)
        told = inventory.inventory([host], Path("/state"), FINGERPRINTS, {})["gpu_nodes"]["hosts"]["one"]
        version, build = told["framework_pytorch_version"], told["framework_pytorch_build"]
        assert f"-torch{version}-{build}" in lock.name and build.startswith("cu")
    assert wheelhouse.pytorch_of(wheelhouse.LOCK) == (inventory.PYTORCH_VERSION, "cpu")


def test_a_host_has_the_wheels_of_the_lock_that_it_names() -> None:
    host = containers.Host("one", "10.9.8.10", HOSTS["hosts"]["deb12-21"])
    other = containers.Host("one", "10.9.8.10", HOSTS["hosts"]["deb12-11"])
    assert other.lock == wheelhouse.LOCK and host.lock != wheelhouse.LOCK and host.lock.exists()
    assert wheelhouse.pytorch_of(host.lock) == wheelhouse.pytorch_of(wheelhouse.LOCK)


def test_a_host_keeps_its_mac_address_when_it_is_made_anew() -> None:
    assert containers.mac_address("10.89.0.11") == "02:67:0a:59:00:0b"


def test_the_cache_forgets_what_is_old_unused_and_not_the_newest(tmp_path: Path) -> None:
    """Folders of two kinds; a number is the age in hours."""
    ages = {
        "base_el8-a": 9,
        "base_el8-b": 8,
        "base_el8-c": 7,
        "base_el8-d": 6,
        "repositories-a": 0.5,
        "repositories-b": 0.4,
    }
    ages |= {"repositories-c": 0.3}
    folders = []
    for name, hours in ages.items():
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (NOW - hours * 3600,) * 2)
        folders.append(tmp_path / name)
    # b serves a running fleet; the repositories were all used within the hour.
    assert cli.surplus(folders, {str(tmp_path / "base_el8-b")}, NOW) == [tmp_path / "base_el8-a"]


def test_a_fleet_without_ipv4_has_addresses_of_its_own() -> None:
    subnets = {containers.ipv6_subnet(fleet) for fleet in ("world", "demo")}
    assert len(subnets) == 2
    for subnet in subnets:
        network = ipaddress.IPv6Network(subnet)
        assert network.subnet_of(ipaddress.IPv6Network("fd00::/8"))
        plan = containers.address_plan(network, ["a5-01", "a5-02"])
        assert len(set(map(containers.mac_address, plan.values()))) == len(plan) == 3
        assert containers.address_words(plan["repo"])[0] == "--ip6"
    assert containers.address_words("10.9.8.2") == ["--ip", "10.9.8.2", "--mac-address", "02:67:0a:09:08:02"]


@pytest.mark.parametrize("left", [False, True])
def test_a_host_that_finds_no_inotify_instance_left_is_explained(left: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Systemd says nowhere why it does not finish starting. Here the limit of open files stands in the way."""
    monkeypatch.setattr(containers, "READY_SECONDS", -1)
    log = subprocess.CompletedProcess([], 0, stdout="the host's log")
    monkeypatch.setattr(containers, "podman", lambda *_, **__: log)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The next numbers of files need not follow each other: other tests may have files open in between.
    next_ones = [os.open(os.devnull, os.O_RDONLY) for _ in range(4)]
    for number in next_ones:
        os.close(number)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft if left else next_ones[3], hard))
    try:
        with pytest.raises(FleetError) as error:
            containers.wait_ready("demo", hosts()[:1], Path("ssh_config"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    late, *advice, last = str(error.value).splitlines()
    assert "is not ready after" in late and last == "the host's log"
    assert advice == [] if left else "sysctl fs.inotify.max_user_instances=" in advice[1]
