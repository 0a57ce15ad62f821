"""Error counters of InfiniBand and RoCE ports over time: what has risen since an earlier look, and what begins anew."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from gpuwright.checks.host.infiniband import NO_ANSWER, reset
from gpuwright.readings import link_errors, links
from gpuwright.readings.link_errors import PATH, Sample, compared, keep_link_errors, read_link_errors
from gpuwright.verdict.boot_check import read_moment
from gpuwright.verdict.commands import pasteable
from host_tree import HostTree

PORT = "/sys/class/infiniband/mlx5_0/ports/1"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root's file is believed")


@pytest.fixture
def host(tmp_path: Path) -> HostTree:
    made = HostTree(tmp_path)
    (tmp_path / "var/lib/gpuwright").mkdir(parents=True)
    return made


def look(host: HostTree, uptime_s: float, boot: str = "a", recorded: bool = True, **counters: object) -> list[dict]:
    """What is read at this time, by a recorded check or by hand."""
    host.put("/proc/uptime", f"{uptime_s} 1.0")
    host.put("/proc/sys/kernel/random/boot_id", boot)
    for name, number in counters.items():
        folder = "hw_counters" if name == "rx_icrc_encapsulated" else "counters"
        host.put(f"{PORT}/{folder}/{name}", f"{number}\n")
    found = read_link_errors(host.root)
    if recorded:
        keep_link_errors({"link_errors": found, "moment": read_moment(host.root)}, host.root)
    return [
        {
            "name": port["name"],
            "since_s": port["since_s"],
            "rises": {row["counter"]: row["rise"] for row in port["rises"]},
        }
        for port in found
    ]


def kept(host: HostTree) -> list[float]:
    """When the samples that are kept were taken."""
    return [row[0] for row in json.loads((host.folder / PATH[1:]).read_text())["ports"]["mlx5_0 port 1"]]


def test_a_host_without_an_adapter_has_none_and_keeps_nothing(host: HostTree) -> None:
    assert read_link_errors(host.root) is None
    assert not (host.folder / PATH[1:]).exists()


@needs_root
def test_a_rise_is_told_since_an_earlier_look(host: HostTree) -> None:
    counters: dict[str, Any] = {
        "symbol_error": 7,
        "rx_icrc_encapsulated": 0,
        "port_xmit_data": 10**15,
        "link_downed": "N/A (no PMA)",
    }
    assert look(host, 100.0, **counters) == [{"name": "mlx5_0 port 1", "since_s": 0.0, "rises": {}}]
    [found] = look(host, 400.0, symbol_error=9)
    assert found == {"name": "mlx5_0 port 1", "since_s": 300.0, "rises": {"symbol_error": 2, "rx_icrc_encapsulated": 0}}
    # What lies between two looks is at least an hour, so that a rise does not vanish with the next one.
    assert kept(host) == [100.0]
    assert look(host, 3700.0, symbol_error=10)[0]["rises"]["symbol_error"] == 3 and kept(host) == [100.0, 3700.0]
    assert look(host, 7200.0, symbol_error=12)[0] == {
        "name": "mlx5_0 port 1", "since_s": 7100.0, "rises": {"symbol_error": 5, "rx_icrc_encapsulated": 0}
    }  # fmt: skip
    assert look(host, 7300.0)[0]["since_s"] == 7200.0 and kept(host) == [3700.0, 7300.0]
    [found] = look(host, 7600.0, symbol_error=12)
    assert (found["since_s"], found["rises"]["symbol_error"]) == (3900.0, 2)


@needs_root
def test_a_reset_and_a_boot_begin_anew(host: HostTree) -> None:
    look(host, 100.0, symbol_error=500)
    # Somebody has reset the counters, and some have come since; how many is not known.
    assert look(host, 5000.0, symbol_error=40)[0]["rises"] == {} and kept(host) == [5000.0]
    assert look(host, 5300.0, symbol_error=41)[0]["rises"] == {"symbol_error": 1}
    # A boot: a larger number than before is none of this one's rise.
    assert look(host, 60.0, boot="b", symbol_error=900)[0] == {"name": "mlx5_0 port 1", "since_s": 0.0, "rises": {}}
    # A file of a time that is to come, as after a copy of another node's disk.
    assert look(host, 20.0, boot="b", symbol_error=901)[0]["since_s"] == 0.0


@needs_root
@pytest.mark.parametrize("content", ["", "{", '{"schema": 2}', '{"schema": 1, "boot_id": "a", "ports": {"p": [[1]]}}'])
def test_a_damaged_file_costs_one_look(host: HostTree, content: str) -> None:
    look(host, 100.0, symbol_error=500)
    (host.folder / PATH[1:]).write_text(content)
    assert look(host, 400.0, symbol_error=900)[0]["rises"] == {}
    assert look(host, 700.0, symbol_error=901)[0]["rises"] == {"symbol_error": 1}


@needs_root
def test_ports_come_and_go_each_with_its_own_counters(host: HostTree) -> None:
    look(host, 100.0, symbol_error=1)
    host.put("/sys/class/infiniband/mlx5_1/ports/1/counters/symbol_error", "70")
    found = {port["name"]: port for port in look(host, 400.0, symbol_error=2)}
    assert found["mlx5_0 port 1"]["rises"] == {"symbol_error": 1} and found["mlx5_1 port 1"]["rises"] == {}
    host.put("/sys/class/infiniband/mlx5_1/ports/1/counters/symbol_error", "75")
    assert look(host, 700.0)[1] == {"name": "mlx5_1 port 1", "since_s": 300.0, "rises": {"symbol_error": 5}}


def test_a_boot_that_cannot_be_named_is_no_reading(host: HostTree) -> None:
    host.put(f"{PORT}/counters/symbol_error", "1")
    with pytest.raises(OSError, match="boot's id or uptime"):
        read_link_errors(host.root)


def test_a_counter_that_appears_later_has_no_rise() -> None:
    old = [Sample(0.0, {"symbol_error": 1})]
    now = Sample(10.0, {"symbol_error": 1, "link_downed": 5})
    assert compared(old, now) == (10.0, {"symbol_error": 0}, old)


@needs_root
def test_a_look_by_hand_compares_and_keeps_nothing(host: HostTree) -> None:
    assert look(host, 100.0, recorded=False, symbol_error=5)[0]["since_s"] == 0.0
    assert not (host.folder / PATH[1:]).exists()
    look(host, 200.0)
    assert look(host, 9000.0, recorded=False, symbol_error=9)[0]["rises"] == {"symbol_error": 4}
    assert kept(host) == [200.0]


def test_what_was_not_read_is_not_kept(host: HostTree) -> None:
    moment = {"boot_id": "a", "uptime_s": 5.0}
    for readings in ({}, {"link_errors": None, "moment": moment}, {"link_errors": {"unreadable": "x"}}):
        keep_link_errors(readings, host.root)
    assert not (host.folder / PATH[1:]).exists()


WIDTHS = {
    "symbol_error": 65535, "port_rcv_errors": 65535, "port_rcv_remote_physical_errors": 65535,
    "port_xmit_discards": 65535, "VL15_dropped": 65535, "link_error_recovery": 255, "link_downed": 255,
    "local_link_integrity_errors": 15, "excessive_buffer_overrun_errors": 15,
}  # fmt: skip


@pytest.mark.parametrize("name", WIDTHS)
def test_a_counter_at_its_maximum_is_full_and_below_it_is_not(name: str) -> None:
    assert link_errors.full({name: WIDTHS[name], "rx_icrc_encapsulated": 65535}) == [name]
    assert link_errors.full({name: WIDTHS[name] - 1}) == []


def test_wider_counters_go_on(host: HostTree) -> None:
    # The driver shows 64 bits: what happens to stand at 65535 has not stopped.
    assert link_errors.full({"symbol_error": 70000, "link_downed": 255, "VL15_dropped": 65535}) == []
    # Counters of the hardware's own folder have no such end.
    assert link_errors.full({"rx_icrc_encapsulated": 65535, "local_ack_timeout_err": 255}) == []
    assert set(WIDTHS) == {name for name, one in link_errors.COUNTERS.items() if one.most is not None}


@needs_root
def test_a_full_counter_stays_full_until_it_is_reset(host: HostTree) -> None:
    for uptime_s, value, full in ((100.0, 65535, True), (9000.0, 65535, True), (9100.0, 0, False), (9200.0, 3, False)):
        found = look(host, uptime_s, symbol_error=value)
        assert read_link_errors(host.root)[0]["full"] == ["symbol_error"] * full
    # The reset itself is no rise, and begins anew.
    assert found[0]["rises"] == {"symbol_error": 3} and found[0]["since_s"] == 100.0


def test_the_command_that_resets_names_adapter_and_port() -> None:
    line = pasteable(reset([("mlx5_0 port 1", "InfiniBand"), ("ib x; port 2", "")]))
    first, second = "perfquery -R -C mlx5_0 -P 1", "perfquery -R -C 'ib x;' -P 2"
    assert line.startswith(f"Run: sudo {first} ; sudo {second} # From then on")


def test_no_command_is_named_that_cannot_work_on_ethernet() -> None:
    """perfquery asks by packets of InfiniBand's management, which a port for RoCE does not have."""
    words = "a reload of the driver of mlx5_1, mlx5_2 or a reboot begins their counters anew"
    ethernet = [("mlx5_1 port 1", "Ethernet"), ("mlx5_2 port 1", "Ethernet")]
    line = pasteable(reset(ethernet))
    assert words in line.lower() and "perfquery" not in line and not line.startswith("Run: ")
    line = pasteable(reset([*ethernet, ("mlx5_0 port 1", "InfiniBand")]))
    assert line.startswith("Run: sudo perfquery -R -C mlx5_0 -P 1 # From then on") and words in line.lower()


def test_the_layer_of_a_port_is_read(host: HostTree) -> None:
    host.put(f"{PORT}/link_layer", "Ethernet\n")
    look(host, 100.0, recorded=False, symbol_error=5)
    assert read_link_errors(host.root)[0]["layer"] == "Ethernet"


def test_a_log_that_root_alone_may_read_is_asked_by_sudo() -> None:
    assert "sudo dmesg |" in NO_ANSWER


def test_an_adapter_that_hangs_costs_three_seconds_and_the_others_are_read(host: HostTree, monkeypatch) -> None:
    look(host, 100.0, recorded=False, symbol_error=5)
    for number in range(1, 9):
        host.put(f"/sys/class/infiniband/mlx5_{number}/ports/1/counters/symbol_error", "7")
        host.put(f"/sys/class/infiniband/mlx5_{number}/ports/1/state", "4: ACTIVE")
    here = os.getpid()

    def hangs(read):
        def slow(root: str, path: str) -> object:
            assert os.getpid() != here or "/ports/" not in path
            if "/mlx5_0/" not in path:
                time.sleep(600)
            return read(root, path)

        return slow

    monkeypatch.setattr(link_errors, "read_text", hangs(link_errors.read_text))
    monkeypatch.setattr(links, "read_int", hangs(links.read_int))
    monkeypatch.setattr(links, "SECONDS_OF_PORT", 0.5)
    monkeypatch.setattr(link_errors, "SECONDS_OF_PORT", 0.5)
    for read, key in ((read_link_errors, "counters"), (links.read_infiniband, "state")):
        begun = time.monotonic()
        found = read(host.root)
        assert time.monotonic() - begun < 2.0
        assert found[0]["name"] == "mlx5_0 port 1" and key in found[0]
        assert found[1:] == [
            {"name": f"mlx5_{number} port 1", "unreadable": f"mlx5_{number} port 1 does not answer within 0.5 s"}
            for number in range(1, 9)
        ]


@needs_root
def test_what_is_known_of_a_port_outlives_its_silence(host: HostTree) -> None:
    look(host, 100.0, symbol_error=5)
    moment = {"boot_id": "a", "uptime_s": 5000.0}
    keep_link_errors({"link_errors": [links.silent_port("mlx5_0 port 1", None)], "moment": moment}, host.root)
    assert look(host, 5100.0, symbol_error=9)[0]["rises"] == {"symbol_error": 4}


@needs_root
@pytest.mark.parametrize("said", ["", "N/A"])
def test_counters_of_which_none_can_be_read_are_no_quiet_ones(host: HostTree, said: str) -> None:
    """A driver's error (EIO) leaves the files empty."""
    look(host, 100.0, symbol_error=5)
    host.put(f"{PORT}/counters/symbol_error", said)
    host.put(f"{PORT}/counters/link_downed", "N/A (no PMA)\n")
    host.put(f"{PORT}/hw_counters/lifespan", "10\n")
    [found] = read_link_errors(host.root)
    assert found == {"name": "mlx5_0 port 1", "unreadable": "mlx5_0 port 1: none of 2 error counters can be read"}
    # What was known before stays.
    keep_link_errors({"link_errors": [found], "moment": read_moment(host.root)}, host.root)
    assert kept(host) == [100.0]
    assert look(host, 400.0, symbol_error=9)[0]["rises"] == {"symbol_error": 4}


@pytest.mark.parametrize("files", [{}, {"link_downed": "N/A (no PMA)"}, {"port_xmit_data": "7"}])
def test_a_driver_that_counts_no_errors_has_none(host: HostTree, files: dict[str, str]) -> None:
    """As of iWARP, for which the kernel has the files all the same."""
    host.put(f"{PORT}/state", "4: ACTIVE\n")
    look(host, 100.0, recorded=False, **files)
    [found] = read_link_errors(host.root)
    assert found["counters"] == {} and found["rises"] == [] and found["full"] == []


@needs_root
def test_a_slower_check_leaves_what_a_quicker_one_has_kept_since(host: HostTree) -> None:
    look(host, 100.0, symbol_error=5)
    look(host, 3800.0, recorded=False, symbol_error=6)
    slow = {"link_errors": read_link_errors(host.root), "moment": read_moment(host.root)}
    look(host, 3900.0, symbol_error=7)
    assert kept(host) == [100.0, 3900.0]
    keep_link_errors(slow, host.root)
    assert kept(host) == [100.0, 3900.0]
    assert look(host, 4000.0, symbol_error=9)[0]["rises"] == {"symbol_error": 4}
    # What is newer than the node itself, as after a copy of its disk, begins anew all the same.
    look(host, 50.0, symbol_error=9)
    assert kept(host) == [50.0]
