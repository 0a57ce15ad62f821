"""The way between GPUs, and the services of a node: there, not there, and not to be read."""

from __future__ import annotations

import struct

import healthy_files
import node_names
import pytest
from gpuwright.checks.gpu.isolation_reading import parse_acs, read_isolation, read_machine
from gpuwright.checks.host.services_reading import UNITS, read_services
from gpuwright.host.access import number_of, read_device_links
from healthy_files import configuration
from host_tree import HostTree
from node_names import BRIDGE, PCI_ID

FOLDER = f"/sys/bus/pci/devices/{PCI_ID}"


@pytest.fixture
def host(tmp_path):
    return HostTree(tmp_path / "node")


@pytest.mark.parametrize(
    ("control", "start", "expected"), [(0, 0x100, "off"), (0x1D, 0x100, "on"), (0, 0x150, "off"), (4, 0xFF8, "on")]
)
def test_access_control(control, start, expected):
    config = configuration(control, start)
    if start == 0x100:
        config = config[:0x100] + struct.pack("<IHH", 0x1000D, 0x1F, control).ljust(3840, b"\0")
    assert parse_acs(config) == expected


def test_bridges_without_access_control():
    assert parse_acs(bytes(256)) == "absent"
    assert parse_acs(bytes(4096)) == "absent"
    # A list that leads back to its begin, and one that leads out of the configuration space.
    assert parse_acs(bytes(256) + struct.pack("<I", 0x100 << 20 | 1).ljust(3840, b"\0")) == "absent"
    assert parse_acs(bytes(256) + struct.pack("<I", 0xFFC << 20 | 1).ljust(3840, b"\0")) == "absent"


@pytest.mark.parametrize(
    ("config", "words"),
    [(b"", "only root"), (bytes(64), "only root"), (bytes(256) + b"\xff" * 3840, "does not answer")],
)
def test_a_configuration_space_that_tells_nothing(config, words):
    with pytest.raises(ValueError, match=words):
        parse_acs(config)


def test_isolation_of_a_card(host):
    gpus = [{"pci_id": PCI_ID}]
    with pytest.raises(ValueError, match="is not a link"):
        read_isolation(host.root, gpus)
    host.pci_device(PCI_ID)
    with pytest.raises(ValueError, match="is not a link"):
        read_isolation(host.root, gpus)
    healthy_files.put_bridge(host, BRIDGE, PCI_ID, configuration(0x1D))
    bridges = [{"pci_id": BRIDGE, "acs": "on"}]
    assert read_isolation(host.root, gpus) == [{"pci_id": PCI_ID, "iommu": "off", "bridges": bridges}]
    host.link(f"{FOLDER}/iommu_group", "../../../../../kernel/iommu_groups/7")
    assert "iommu_groups/7/type cannot be read" in read_isolation(host.root, gpus)[0]["iommu"]["unreadable"]
    host.put("/sys/kernel/iommu_groups/7/type", "DMA-FQ\n")
    assert read_isolation(host.root, gpus)[0]["iommu"] == "DMA-FQ"
    # What an ordinary user gets of it.
    host.put(f"/sys/bus/pci/devices/{BRIDGE}/config", bytes(64))
    assert "only root may read it" in read_isolation(host.root, gpus)[0]["bridges"][0]["acs"]["unreadable"]


def test_a_card_that_is_gone_has_no_iommu_that_is_off(host):
    host.link(FOLDER, f"../../../devices/pci0000:3a/{BRIDGE}/{PCI_ID}")
    assert "is not there" in read_isolation(host.root, [{"pci_id": PCI_ID}])[0]["iommu"]["unreadable"]


@pytest.mark.parametrize(("script", "expected"), [("echo none; exit 1", "none"), ("echo kvm", "kvm")])
def test_machine(on_path, script, expected):
    on_path("systemd-detect-virt", f'[ "$*" = --vm ] || exit 9; {script}')
    assert read_machine() == expected


def test_a_machine_that_nobody_names(on_path):
    on_path("systemd-detect-virt", "exit 1")
    with pytest.raises(OSError, match="says nothing"):
        read_machine()


# --- services

ANSWER = "Id={}\nActiveState={}\nUnitFileState={}\n"


def test_services(host, on_path, tmp_path):
    assert read_services(host.root, []) == {"toolkit": [], "inventory": []}
    host.put("/etc/systemd/system/gpuwright-check.timer")
    host.put("/etc/systemd/system/gpuwright-tuning.service")
    rows = [("gpuwright-tuning.service", "active", "enabled"), ("gpuwright-check.timer", "inactive", "disabled")]
    rows.append(("ssh.service", "active", ""))
    (tmp_path / "answer").write_text("\n".join(ANSWER.format(*row) for row in rows))
    wanted = "show --property=Id,ActiveState,UnitFileState -- gpuwright-tuning.service gpuwright-check.timer sshd"
    on_path("systemctl", f'[ "$*" = "{wanted}" ] && cat {tmp_path}/answer')
    assert read_services(host.root, ["sshd"]) == {
        "toolkit": [
            {"unit": "gpuwright-tuning.service", "active": "active", "enabled": "enabled"},
            {"unit": "gpuwright-check.timer", "active": "inactive", "enabled": "disabled"},
        ],
        "inventory": [{"unit": "sshd", "active": "active", "enabled": ""}],
    }


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'Failed to connect to bus' >&2; exit 1", "ended with 1: Failed to connect to bus"),
        ("echo", "says '' of 1 units"),
        ("printf 'Id=a\\nActiveState=active\\n'", "of 1 units"),
        ("printf 'Id=a\\n\\nId=b\\n'", "of 1 units"),
    ],
)
def test_an_answer_that_is_none(host, on_path, script, words):
    on_path("systemctl", script)
    with pytest.raises((OSError, ValueError), match=words):
        read_services(host.root, ["slurmd"])


def test_the_units_are_those_that_the_roles_write():
    roles = node_names.DATA.parents[2] / "roles"
    containers = {file.name[:-3] for file in (roles / "system_containers/templates").glob("gpuwright-*.j2")}
    monitor = (roles / "system_monitor/vars/main.yml").read_text()
    assert containers <= set(UNITS)
    assert [unit for unit in UNITS if "check" in unit and unit not in monitor] == []


# --- device nodes


def test_device_links(host, monkeypatch):
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        host.put(f"/dev/{name}")
    numbers = {"nvidia0": "195:0", "nvidiactl": "195:255", "nvidia-uvm": "508:0"}
    monkeypatch.setattr("gpuwright.host.access.number_of", lambda full: numbers[full.rpartition("/")[2]])
    paths = [f"/dev/{name}" for name in numbers]
    assert read_device_links(host.root, paths) == dict.fromkeys(paths, False)
    host.link("/dev/char/195:0", "../nvidia0")
    host.link("/dev/char/195:255", "/dev/nvidiactl")
    # The number that the module had before it was loaded again.
    host.link("/dev/char/511:0", "../nvidia-uvm")
    host.link("/dev/char/508:0", "../nvidia-gone")
    assert read_device_links(host.root, paths) == {
        "/dev/nvidia0": True,
        "/dev/nvidiactl": True,
        "/dev/nvidia-uvm": False,
    }


def test_the_number_of_a_device():
    assert number_of("/dev/null") == "1:3"
