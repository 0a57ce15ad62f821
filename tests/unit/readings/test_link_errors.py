"""Error counters of InfiniBand and RoCE ports over time: what has risen since an earlier look, and what begins anew."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from gpuwright.readings.link_errors import PATH, Sample, compared, read_link_errors
from host_tree import HostTree

PORT = "/sys/class/infiniband/mlx5_0/ports/1"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root's file is believed")


@pytest.fixture
def host(tmp_path: Path) -> HostTree:
    made = HostTree(tmp_path)
    (tmp_path / "var/lib/gpuwright").mkdir(parents=True)
    return made


def look(host: HostTree, uptime_s: float, boot: str = "a", **counters: object) -> list[dict]:
    """What is read at this time."""
    host.put("/proc/uptime", f"{uptime_s} 1.0")
    host.put("/proc/sys/kernel/random/boot_id", boot)
    for name, number in counters.items():
        folder = "hw_counters" if name == "rx_icrc_encapsulated" else "counters"
        host.put(f"{PORT}/{folder}/{name}", f"{number}\n")
    found = read_link_errors(host.root)
    return [{**port, "rises": {row["counter"]: row["rise"] for row in port["rises"]}} for port in found]


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
