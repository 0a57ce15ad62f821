"""GPUs, processors, memory and disks of made-up hosts."""

from __future__ import annotations

import pytest
from gpuwright.probe.hardware import read_cpu, read_disks, read_gpus, read_memory_mib, read_numa
from host_tree import HostTree


@pytest.fixture
def host(tmp_path):
    return HostTree(tmp_path)


def test_the_reference_card(host):
    host.pci_device("0000:3b:00.0")
    host.bind("0000:3b:00.0", "nvidia")
    assert read_gpus(host.root) == [
        {
            "pci_id": "0000:3b:00.0",
            "device_id": "1db4",
            "name": "Tesla V100-PCIE-16GB",
            "architecture": "volta",
            "compute_capability": "7.0",
            "numa_node": 0,
            "local_cpus": "0-19",
            "link": {
                "speed_now": "8.0 GT/s PCIe",
                "speed_max": "8.0 GT/s PCIe",
                "width_now": 16,
                "width_max": 16,
                "slot_width_max": None,
            },
            "bound_driver": "nvidia",
        }
    ]


@pytest.mark.parametrize(
    "files",
    [
        {"vendor": "0x8086"},
        {"class": "0x040300"},  # the sound function of a GeForce
        {"class": "0x0c0330"},  # its USB controller
        {"class": "0x068000"},  # NVSwitch
        {"vendor": ""},
        {"class": ""},
        {"class": "0x030200 ", "vendor": "10de"},
    ],
)
def test_what_is_no_gpu(host, files):
    host.pci_device("0000:3b:00.1", **files)
    assert read_gpus(host.root) == []


def test_a_virtual_function_is_not_counted_beside_its_card(host):
    host.pci_device("0000:3b:00.0")
    host.pci_device("0000:3b:00.4")
    host.link("/sys/bus/pci/devices/0000:3b:00.4/physfn", "../0000:3b:00.0")
    assert [gpu["pci_id"] for gpu in read_gpus(host.root)] == ["0000:3b:00.0"]


def test_several_cards_come_in_the_order_of_their_addresses(host):
    for pci_id in ("0000:d8:00.0", "0000:3b:00.0", "0000:3c:00.0"):
        host.pci_device(pci_id, **{"class": "0x030000"})
    assert [gpu["pci_id"][5:7] for gpu in read_gpus(host.root)] == ["3b", "3c", "d8"]


def test_a_card_without_a_row_in_the_table(host):
    host.pci_device("0000:01:00.0", device="0xfff1")
    (gpu,) = read_gpus(host.root)
    assert (gpu["name"], gpu["architecture"], gpu["compute_capability"]) == ("unknown 10de:fff1", "unknown", None)


def test_unreadable_attributes_are_no_values(host):
    names = ("numa_node", "local_cpulist", "current_link_speed", "max_link_speed", "current_link_width", "device")
    host.pci_device("0000:01:00.0", **dict.fromkeys(names, ""))
    (gpu,) = read_gpus(host.root)
    assert gpu["device_id"] == "unknown" and gpu["architecture"] == "unknown"
    assert gpu["numa_node"] == -1 and gpu["local_cpus"] == "" and gpu["bound_driver"] is None
    assert gpu["link"] == {
        "speed_now": None,
        "speed_max": None,
        "width_now": None,
        "width_max": 16,
        "slot_width_max": None,
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8 GT/s", "8.0 GT/s PCIe"),
        ("2.5 GT/s", "2.5 GT/s PCIe"),
        ("16.0 GT/s PCIe", "16.0 GT/s PCIe"),
        ("Unknown speed", None),
        ("Unknown", None),
        ("-1 GT/s", None),
    ],
)
def test_link_speed_has_one_spelling(host, text, expected):
    host.pci_device("0000:01:00.0", current_link_speed=text)
    assert read_gpus(host.root)[0]["link"]["speed_now"] == expected


def test_a_link_that_does_not_answer_has_no_width(host):
    host.pci_device("0000:01:00.0", current_link_width="255", max_link_width="0")
    link = read_gpus(host.root)[0]["link"]
    assert (link["width_now"], link["width_max"]) == (None, None)


def test_cpu_of_the_reference_server(host):
    blocks = [
        f"processor\t: {cpu}\nmodel name\t: Intel(R) Xeon(R) Silver 4210 CPU @ 2.20GHz\nphysical id\t: 0\n"
        f"core id\t\t: {cpu % 10}\n"
        for cpu in range(20)
    ]
    host.put("/proc/cpuinfo", "\n".join(blocks))
    assert read_cpu(host.root) == {
        "model": "Intel(R) Xeon(R) Silver 4210 CPU @ 2.20GHz",
        "sockets": 1,
        "physical_cores": 10,
        "logical_cpus": 20,
    }


def test_cpu_counts_that_nobody_tells(host):
    host.put("/proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 50\n\nprocessor\t: 1\n")
    assert read_cpu(host.root) == {"model": "unknown", "sockets": None, "physical_cores": None, "logical_cpus": 2}
    host.put("/proc/cpuinfo", "")
    assert read_cpu(host.root)["logical_cpus"] is None


def test_memory(host):
    assert read_memory_mib(host.root) is None
    host.put("/proc/meminfo", "MemTotal:       131072000 kB\nMemFree: 1 kB\n")
    assert read_memory_mib(host.root) == 128000
    host.put("/proc/meminfo", "MemTotal: lots\n")
    assert read_memory_mib(host.root) is None


def test_numa(host):
    for node, cpus in (("node0", "0-9,20-29"), ("node1", "10-19,30-39")):
        host.put(f"/sys/devices/system/node/{node}/cpulist", cpus + "\n")
        host.put(f"/sys/devices/system/node/{node}/meminfo", f"Node {node[4:]} MemTotal:       65536000 kB\n")
    host.put("/sys/devices/system/node/possible", "0-1\n")
    assert read_numa(host.root) == {
        "0": {"cpus": "0-9,20-29", "memory_mib": 64000},
        "1": {"cpus": "10-19,30-39", "memory_mib": 64000},
    }


def test_disks(host):
    host.put("/boot/x")
    disks = read_disks(host.root)
    boot = disks["/boot"]
    assert boot is not None and (boot["free_mib"] or 0) > 0 and (boot["free_inodes"] or 0) > 0
    assert disks["/opt"] is None


@pytest.mark.parametrize(("lanes", "expected"), [("8", 8), ("16", 16), ("0", None), ("255", None), ("", None)])
def test_the_slot_is_the_bridge_right_above_the_card(host, lanes, expected):
    devices = host.folder / "sys/bus/pci/devices"
    way = host.folder / "sys/devices/pci0000:3a/0000:3a:00.0/0000:3a:01.0"
    host.pci_device("0000:3b:00.0")
    way.mkdir(parents=True)
    (devices / "0000:3b:00.0").rename(way / "0000:3b:00.0")
    (devices / "0000:3b:00.0").symlink_to("../../../devices/pci0000:3a/0000:3a:00.0/0000:3a:01.0/0000:3b:00.0")
    (way.parent / "max_link_width").write_text("4\n")
    (way / "max_link_width").write_text(f"{lanes}\n")
    (devices / "0000:3a:00.0").symlink_to("../../../devices/pci0000:3a/0000:3a:00.0")
    (devices / "0000:3a:01.0").symlink_to("../../../devices/pci0000:3a/0000:3a:00.0/0000:3a:01.0")
    (gpu,) = read_gpus(host.root)
    assert gpu["link"]["slot_width_max"] == expected
