"""Cores of a rank's own, and the network cards near its GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_run_machines import build, choose, two_sockets, write
from gpuwright.host.topology import format_cpu_list
from gpuwright.launch.runtime_policy import LaunchError

# As a DGX has them: two GPUs and two cards below each switch.
PLACES = {
    "0000:07:00.0": "pci0000:00/0000:00:01.1/0000:01:00.0/0000:07:00.0",
    "0000:47:00.0": "pci0000:40/0000:40:01.1/0000:41:00.0/0000:47:00.0",
}
CARDS = {
    "mlx5_0": ("pci0000:00/0000:00:01.1/0000:01:00.0/0000:0c:00.0", 0, "4: ACTIVE"),
    "mlx5_1": ("pci0000:00/0000:00:01.1/0000:01:00.0/0000:12:00.0", 0, "1: DOWN"),
    "mlx5_2": ("pci0000:40/0000:40:01.1/0000:41:00.0/0000:4b:00.0", 1, "4: ACTIVE"),
    "mlx5_3": ("pci0000:60/0000:60:01.1/0000:61:00.0", 1, "4: ACTIVE"),
}


def fabric(root: Path, cards: dict = CARDS) -> Path:
    build(root, {0: "0-3", 1: "4-7"}, {})
    for address, place in PLACES.items():
        node = 0 if "0000:00" in place else 1
        for name, text in (("vendor", "0x10de"), ("class", "0x030200"), ("device", "0x20b0"), ("numa_node", str(node))):
            write(root, f"sys/devices/{place}/{name}", text)
        (root / "sys/bus/pci/devices" / address).symlink_to(f"../../../devices/{place}")
    for name, (place, node, state) in cards.items():
        write(root, f"sys/devices/{place}/numa_node", str(node))
        write(root, f"sys/devices/{place}/infiniband/{name}/ports/1/state", state)
        (root / f"sys/devices/{place}/infiniband/{name}/device").symlink_to("../..")
        (root / "sys/class/infiniband").mkdir(parents=True, exist_ok=True)
        (root / "sys/class/infiniband" / name).symlink_to(f"../../devices/{place}/infiniband/{name}")
    return root


def rank(index: int, count: int = 2) -> dict[str, str]:
    return {"LOCAL_RANK": str(index), "LOCAL_WORLD_SIZE": str(count)}


def shown(decision: Any) -> list:
    return [row[1] for row in decision.rows if row[0] == "nearest InfiniBand"]


def test_the_nearest_card_is_shown_and_given_only_when_asked(tmp_path: Path) -> None:
    root = fabric(tmp_path)
    for index, card in enumerate(("mlx5_0", "mlx5_2")):
        decision = choose(root, rank(index), allowed="0-7")
        assert shown(decision) == [card] and "NCCL_IB_HCA" not in decision.environment
        asked = choose(root, rank(index), allowed="0-7", nic=True)
        assert asked.environment["NCCL_IB_HCA"] == f"={card}" and asked.warnings == []
    assert shown(choose(root, allowed="0-7")) == ["mlx5_0, mlx5_2"]


def test_without_a_common_switch_the_card_on_the_same_node_is_nearer(tmp_path: Path) -> None:
    far = {name: CARDS[name] for name in ("mlx5_3",)}
    root = fabric(tmp_path, {**far, "mlx5_9": ("pci0000:20/0000:20:01.1/0000:21:00.0", 0, "4: ACTIVE")})
    assert shown(choose(root, rank(1), allowed="0-7")) == ["mlx5_3"]
    assert shown(choose(root, rank(0), allowed="0-7")) == ["mlx5_9"]


def test_no_card_is_a_line_where_one_was_asked_for(tmp_path: Path) -> None:
    root = fabric(tmp_path, {"mlx5_1": CARDS["mlx5_1"]})
    assert shown(choose(root, rank(0), allowed="0-7")) == []
    (warning,) = choose(root, rank(0), allowed="0-7", nic=True).warnings
    assert "--nic: no InfiniBand card" in warning


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("ib0", ""),
        ("ib", ""),
        ("eth,ib", ""),
        ("=ib0", ""),
        ("^docker,lo", ""),
        ("=ib", "there is no such interface"),
        ("ens5", "there is no such interface"),
        ("docker", "docker0 is down"),
        ("^ib", "docker0 is down"),
    ],
)
def test_the_network_of_the_ranks_must_be_there(tmp_path: Path, value: str, said: str) -> None:
    root = two_sockets(tmp_path)
    for name, state in {"lo": "unknown", "ib0": "up", "docker0": "down"}.items():
        write(root, f"sys/class/net/{name}/operstate", state)
    decision = choose(root, rank(0), nccl={"NCCL_SOCKET_IFNAME": value})
    assert decision.environment["NCCL_SOCKET_IFNAME"] == value
    assert [said in warning for warning in decision.warnings] == ([True] if said else [])


def test_one_cpu_of_each_core(tmp_path: Path) -> None:
    root = two_sockets(tmp_path)
    decision = choose(root, rank(1), allowed="0-39", no_smt=True)
    assert (format_cpu_list(decision.cpus), decision.environment["OMP_NUM_THREADS"]) == ("10-19", "10")
    assert format_cpu_list(choose(root, allowed="25,30-31", no_smt=True).cpus) == "25,30-31"


def test_exclusive_refuses_to_share_a_core(tmp_path: Path) -> None:
    root = two_sockets(tmp_path)
    assert format_cpu_list(choose(root, rank(1), allowed="0-39", exclusive=True).cpus) == "10-19,30-39"
    assert choose(root, allowed="0", exclusive=True).cpus == {0}
    for environ, allowed in ((rank(0, 3), "0,20"), (rank(0, 2), "0,20"), ({"LOCAL_RANK": "0"}, "0-39")):
        with pytest.raises(LaunchError, match="--exclusive"):
            choose(root, environ, allowed=allowed, exclusive=True)
