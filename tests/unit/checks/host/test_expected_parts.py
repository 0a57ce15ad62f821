"""The disks and links of a made-up server: two disks for data, a card reader, volumes, a bond, four adapters."""

from __future__ import annotations

import time

import pytest
from gpuwright.checks.host import parts_reading, size
from gpuwright.checks.host.parts_reading import read_parts
from gpuwright.verdict.check import FAIL, PASS, UNKNOWN
from gpuwright.verdict.evidence import Evidence, Unreadable
from host_tree import HostTree

DISKS = {
    "nvme0n1": (7501476528, "0"),
    "nvme1n1": (7501476528, "0"),
    "sda": (937703088, "0"),
    "sdb": (60000000, "1"),
    "nvme0c0n1": (7501476528, "0"),
    "mmcblk0boot0": (8192, "0"),
    "sr0": (2097151, "1"),
    "sdc": (0, "0"),
}
VOLUMES = ("md0", "dm-0", "loop0", "zram0", "ram0")
LINKS = {"eno1": "10000", "eno2": "-1", "ens1f0": "100000"}


def server(host: HostTree) -> None:
    for name, (sectors, removable) in DISKS.items():
        host.put(f"/sys/block/{name}/size", f"{sectors}\n")
        host.put(f"/sys/block/{name}/removable", f"{removable}\n")
        host.put(f"/sys/block/{name}/device/model", "x\n")
    for name in VOLUMES:
        host.put(f"/sys/block/{name}/size", "1000000000\n")
    for name, speed in LINKS.items():
        host.put(f"/sys/class/net/{name}/speed", f"{speed}\n")
        host.put(f"/sys/class/net/{name}/type", "1\n")
        host.put(f"/sys/class/net/{name}/device/vendor", "0x15b3\n")
    for name, kind in (("bond0", "1"), ("lo", "772")):
        host.put(f"/sys/class/net/{name}/speed", "200000\n")
        host.put(f"/sys/class/net/{name}/type", f"{kind}\n")
    host.put("/sys/class/net/ib0/type", "32\n")
    host.put("/sys/class/net/ib0/speed", "400000\n")
    host.put("/sys/class/net/ib0/device/vendor", "0x15b3\n")
    for number, (state, rate) in enumerate((("4: ACTIVE", "400 Gb/sec (4X NDR)"), ("1: DOWN", "10 Gb/sec (4X SDR)"))):
        port = f"/sys/class/infiniband/mlx5_{number}/ports/1"
        for name, text in (("state", state), ("phys_state", "5: LinkUp"), ("rate", rate), ("link_layer", "InfiniBand")):
            host.put(f"{port}/{name}", text + "\n")
        host.put(f"{port}/counters/link_downed", "0\n")


def test_disks_and_links_of_a_server(tmp_path):
    host = HostTree(tmp_path)
    server(host)
    found = read_parts(host.root)
    assert {disk["name"]: disk["gb"] for disk in found["disks"]} == {"nvme0n1": 3840.8, "nvme1n1": 3840.8, "sda": 480.1}
    assert {link["name"]: link["gbits"] for link in found["ethernet"]} == {"eno1": 10.0, "ens1f0": 100.0}
    assert found["rdma"] == [{"name": "mlx5_0 port 1", "gbits": 400.0}]


def test_an_adapter_that_hangs_costs_three_seconds_and_the_rest_is_read(tmp_path, monkeypatch):
    host = HostTree(tmp_path)
    server(host)
    right = parts_reading.read_int

    def hangs(root: str, path: str) -> int | None:
        if path == "/sys/class/net/eno2/speed":
            time.sleep(600)
        return right(root, path)

    monkeypatch.setattr(parts_reading, "read_int", hangs)
    monkeypatch.setattr(parts_reading, "ETHERNET_SECONDS", 0.3)
    found = read_parts(host.root)
    assert len(found["disks"]) == 3 and len(found["rdma"]) == 1
    assert [link["name"] for link in found["ethernet"] if "gbits" in link] == ["eno1", "ens1f0"]
    assert silent(found["ethernet"]) == {"eno2": "eno2 does not answer within 0.3 s"}


def silent(parts: list[dict]) -> dict[str, str]:
    return {part["name"]: part["unreadable"] for part in parts if "unreadable" in part}


@pytest.mark.parametrize("file", ["state", "rate"])
def test_a_port_or_link_that_says_nothing_is_named(tmp_path, file):
    """An error of its driver, which leaves a file unreadable; a link that is down has no speed either."""
    host = HostTree(tmp_path)
    server(host)
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    host.put(f"{port}/{file}", "")
    host.put("/sys/class/net/ens1f0/speed", "")
    host.put("/sys/class/net/ens1f0/operstate", "up\n")
    host.put("/sys/class/net/eno2/speed", "")
    host.put("/sys/class/net/eno2/operstate", "down\n")
    found = read_parts(host.root)
    assert silent(found["rdma"]) == {"mlx5_0 port 1": "mlx5_0 port 1 does not say its state and rate"}
    assert silent(found["ethernet"]) == {"ens1f0": "ens1f0 is up and does not say its speed"}


@pytest.mark.parametrize(
    ("wishes", "status"),
    [
        ({"rdma_ports": 1}, PASS),
        ({"rdma_gbits": 400, "ethernet_gbits": 10}, PASS),
        ({"rdma_ports": 2}, UNKNOWN),
        ({"rdma_ports": 2, "rdma_gbits": 400}, UNKNOWN),
        ({"ethernet_gbits": 100}, UNKNOWN),
        ({"disk_count": 4}, FAIL),
    ],
)
def test_what_does_not_answer_may_be_what_is_missing(tmp_path, monkeypatch, wishes, status):
    host = HostTree(tmp_path)
    server(host)
    silent_ports = [{"name": "mlx5_0 port 1", "unreadable": "mlx5_0 port 1 does not answer within 3 s"}]
    answers = [{"name": "mlx5_1 port 1", "state": "ACTIVE", "rate": "400 Gb/sec (4X NDR)"}]
    monkeypatch.setattr(parts_reading, "read_infiniband", lambda root: silent_ports + answers)
    host.put("/sys/class/net/ens1f0/speed", "")
    host.put("/sys/class/net/ens1f0/operstate", "up\n")
    parts = Evidence({"parts": read_parts(host.root), "probe": {"virtualization": "none"}}, "readings")
    monkeypatch.setattr(size, "in_container", lambda readings: "")
    try:
        found = size.size(parts, Evidence({"host": wishes}, "expectations")).status
    except Unreadable:
        found = UNKNOWN
    assert found == status


def test_a_host_that_shows_no_disks_has_its_links_judged(tmp_path):
    host = HostTree(tmp_path)
    host.put("/sys/class/net/eno1/type", "1\n")
    found = read_parts(host.root)
    assert found == {"disks": {"unreadable": "/sys/block is not there"}, "ethernet": [], "rdma": []}
