"""Which board the GPUs of a node are on, and what it needs beside the driver."""

from __future__ import annotations

import platform_hosts
import pytest
from gpuwright.gpu.device_table import PLATFORMS
from gpuwright.probe.board import read_platform
from gpuwright.probe.hardware import read_gpus
from host_tree import HostTree

MANAGED, SUBNET = ["fabric_manager", "nscq"], ["fabric_manager", "nvlsm"]
ARM = "aarch64"


def seen(tmp_path, name, machine="x86_64"):
    tree = HostTree(tmp_path)
    getattr(platform_hosts, name)(tree)
    return read_platform(tree.root, read_gpus(tree.root), machine)


@pytest.mark.parametrize(
    ("name", "machine", "key", "needs", "switches", "bridges"),
    [
        ("dgx_2", "x86_64", "hgx-2", ["fabric_manager"], {"1ac2": 12}, 0),
        ("dgx_a100", "x86_64", "hgx-a100", MANAGED, {"1af1": 6}, 0),
        ("hgx_h100", "x86_64", "hgx-h100", MANAGED, {"22a3": 4}, 0),
        ("hgx_h200", "x86_64", "hgx-h100", MANAGED, {"22a3": 4}, 0),
        ("switches_without_gpus", "x86_64", "hgx-h100", MANAGED, {"22a3": 4}, 0),
        ("hgx_b200", "x86_64", "hgx-b200", SUBNET, {}, 4),
        ("hgx_b300", "x86_64", "hgx-b200", SUBNET, {}, 4),
        ("gb200", ARM, "nvl72", ["imex"], {}, 0),
        ("a100_pcie", "x86_64", None, [], {}, 0),
        ("v100_sxm2", "x86_64", None, [], {}, 0),
        ("hgx_a100_four", "x86_64", None, [], {}, 0),
        ("b200_in_a_vm", "x86_64", None, [], {}, 0),
    ],
)
def test_what_a_machine_is(tmp_path, name, machine, key, needs, switches, bridges):
    found = seen(tmp_path, name, machine)
    assert (found["id"], found["needs"]) == (key, needs)
    assert (found["switches"], found["bridges"], found["known"]) == (switches, bridges, True)
    assert found["name"] == next((row.name for row in PLATFORMS if row.key == key), "")


@pytest.mark.parametrize(
    ("name", "machine", "words"),
    [
        ("switches_of_an_unknown_id", "x86_64", "12 NVSwitches 10de:1ac9"),
        ("b200_of_an_unknown_id", "x86_64", "4 bridges to NVSwitches"),
        ("hopper_behind_ampere_switches", "x86_64", "6 NVSwitches 10de:1af1"),
        ("hgx_b200", ARM, "4 bridges to NVSwitches"),
    ],
)
def test_a_board_that_no_row_knows(tmp_path, name, machine, words):
    found = seen(tmp_path, name, machine)
    assert (found["id"], found["needs"], found["known"]) == (None, [], False)
    assert words in found["because"]


def test_a_board_whose_switches_are_set_up_elsewhere_says_so(tmp_path):
    assert "no bridge to its NVSwitches" in seen(tmp_path, "b200_in_a_vm")["because"]
    assert seen(tmp_path / "two", "v100_sxm2")["because"] == ""


def test_product_data_that_only_root_reads_is_not_no_bridge(tmp_path):
    tree = HostTree(tmp_path)
    platform_hosts.hgx_b200(tree)
    for file in tmp_path.glob("sys/bus/pci/devices/*/vpd"):
        file.unlink()
        file.mkdir()
    found = read_platform(tree.root, read_gpus(tree.root), "x86_64")
    assert (found["id"], found["known"], found["bridges"]) == (None, False, None)
    assert "root" in found["because"] and "0000:05:00.0/vpd" in found["because"]


def test_the_product_data_is_only_read_where_switches_can_be_behind_it(tmp_path):
    """Reading it takes a network card milliseconds, and there are thousands of nodes with ConnectX-7 and other GPUs."""
    tree = HostTree(tmp_path)
    platform_hosts.a100_pcie(tree)
    platform_hosts.connectx(tree, 0x40, 2, platform_hosts.VPD_OF_A_BRIDGE)
    assert read_platform(tree.root, read_gpus(tree.root), "x86_64")["bridges"] == 0
