"""gan_trainer.performance: the same code on the CPU at small size, and that wrong results are no measurements."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gan_trainer.performance import measures as performance_measures
from gan_trainer.performance import placement
from gan_trainer.performance.measures import (
    CPU_SIZES,
    FORMATS,
    MeasureError,
    NotApplicable,
    copy_rate,
    median_seconds,
    product_rate,
    transfer_rates,
    why_no_format,
    why_wrong,
)
from gan_trainer.performance.placement import PlacementError, gpu_node, link_speed, numa_nodes, parse_cpus, working_on
from gan_trainer.performance.program import Collector, measure_device, measure_node

Run = Callable[..., subprocess.CompletedProcess]
CPU = torch.device("cpu")
SMALL = CPU_SIZES._replace(rounds=1, transfer=1 << 16, copy=1 << 16, edge=32)


def test_rehearsal_on_the_cpu_measures_everything_that_a_cpu_has(run_trainer: Run) -> None:
    done = run_trainer("-m", "gan_trainer.performance", "--device", "cpu", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    report = json.loads(done.stdout)
    assert set(report) == {"schema", "torch", "device", "devices", "all_reduce", "problems"}
    assert (report["schema"], report["device"], report["problems"]) == (1, "cpu", [])
    (device,) = report["devices"]
    assert (device["device"], device["name"], device["pci_id"]) == ("cpu", "CPU", None)
    had = {name for name, value in device["measures"].items() if value is not None}
    assert had == {"h2d_gb_s", "d2h_gb_s", "copy_gb_s", *(f"matmul_{name}_tflops" for name in FORMATS)}
    assert all(device["measures"][name] > 0 for name in had)
    assert set(device["left_out"]) == set(device["measures"]) - had
    assert report["all_reduce"]["gpus"] == 2 and report["all_reduce"]["value"] > 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has what the test wants to be missing")
def test_gpu_that_is_not_there_is_a_problem() -> None:
    report = measure_node("cuda")
    assert report["devices"] == [] and "finds no usable GPU" in report["problems"][0]


@pytest.mark.parametrize("arguments", [[], ["--device", "tpu"], ["--device", "cpu", "--fast"]])
def test_wrong_command_line_ends_with_2(run_trainer: Run, arguments: list) -> None:
    done = run_trainer("-m", "gan_trainer.performance", *arguments)
    assert (done.returncode, done.stdout) == (2, "") and "error: " in done.stderr


def test_median_of_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    # Warm-up: its end and one look at the clock; then begin and end of each round.
    clock = iter([0.0, 0.0, 0.0, 9.0, 10.0, 11.0, 20.0, 22.0])
    monkeypatch.setattr(performance_measures.time, "perf_counter", lambda: next(clock))
    calls = []
    assert median_seconds(CPU, lambda: calls.append(1), SMALL._replace(rounds=3)) == 2.0
    assert len(calls) == 4


@pytest.mark.parametrize("name", FORMATS)
def test_a_wrong_product_is_no_measurement(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert product_rate(CPU, name, SMALL) > 0
    right = torch.mm

    def wrong(left: torch.Tensor, other: torch.Tensor, out: torch.Tensor) -> None:
        right(left, other, out=out)
        out[3, 3] += 2.0

    monkeypatch.setattr(performance_measures.torch, "mm", wrong)
    with pytest.raises(MeasureError, match="the product is wrong"):
        product_rate(CPU, name, SMALL)


def test_a_product_with_rounded_factors_is_none_in_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVIDIA_TF32_OVERRIDE=1 has cuBLAS round them to ten bits, whatever torch asks for, and is faster by that."""
    right = torch.mm

    def rounded(factor: torch.Tensor) -> torch.Tensor:
        return ((factor.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)

    def as_tf32(left: torch.Tensor, other: torch.Tensor, out: torch.Tensor) -> None:
        right(rounded(left), rounded(other), out=out)

    monkeypatch.setattr(performance_measures.torch, "mm", as_tf32)
    with pytest.raises(MeasureError, match=r"the factors were rounded .*: this is no product in fp32"):
        product_rate(CPU, "fp32", SMALL)
    assert product_rate(CPU, "tf32", SMALL) > 0


@pytest.mark.parametrize("edge", [128, 2048])
def test_what_tells_fp32_from_tf32_does_so_at_every_size(edge: int) -> None:
    left, right = (torch.randn(edge, edge, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    exact = left[:8].double() @ right[:, :8].double()
    error = float(((left[:8] @ right[:, :8]).double() - exact).abs().max()) / edge**0.5
    cut = [
        ((each.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32) for each in (left[:8], right[:, :8].clone())
    ]
    coarse = float(((cut[0] @ cut[1]).double() - exact).abs().max()) / edge**0.5
    assert why_wrong("fp32", error, True) == why_wrong("tf32", coarse, True) == ""
    assert "no product in fp32" in why_wrong("fp32", coarse, True) and "TF32 is off" in why_wrong("tf32", error, True)
    # A CPU has no TF32.
    assert why_wrong("tf32", error, False) == ""


def test_a_damaged_copy_is_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    assert copy_rate(CPU, SMALL) > 0 and min(transfer_rates(CPU, SMALL)) > 0
    monkeypatch.setattr(torch, "equal", lambda first, second: False)
    with pytest.raises(MeasureError, match="is not what was copied"):
        copy_rate(CPU, SMALL)
    with pytest.raises(MeasureError, match="is not what was sent"):
        transfer_rates(CPU, SMALL)


@pytest.mark.parametrize(
    ("capability", "missing"),
    [
        (None, set()),
        ((9, 0), set()),
        ((8, 0), set()),
        ((7, 0), {"bf16", "tf32"}),
        ((6, 1), {"fp16", "bf16", "tf32"}),
        ((6, 0), {"bf16", "tf32"}),
    ],
)
def test_formats_of_a_card(capability: tuple | None, missing: set) -> None:
    assert {name for name in FORMATS if why_no_format(name, capability)} == missing


def test_one_failure_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(device: object, sizes: object) -> float:
        raise RuntimeError("CUDA error: an illegal\nmemory access")

    monkeypatch.setattr(performance_measures, "copy_rate", broken)
    record, problems = measure_device(CPU, 0, SMALL)
    assert record["measures"]["copy_gb_s"] is None and record["measures"]["h2d_gb_s"] > 0
    assert problems == ["cpu copy_gb_s: RuntimeError: CUDA error: an illegal memory access"]


def test_what_does_not_apply_is_no_problem() -> None:
    def alone() -> tuple[float]:
        raise NotApplicable("there is no other")

    found = Collector("cuda:0")
    found.take(("p2p_gb_s",), alone)
    found.take(("a", "b"), lambda: (1.23456, 2.0))
    assert found.values == {"p2p_gb_s": None, "a": 1.235, "b": 2.0}
    assert found.left_out == {"p2p_gb_s": "there is no other"} and found.problems == []


@pytest.fixture
def system(tmp_path: Path) -> Path:
    for path, text in {
        "devices/system/node/node0/cpulist": "0-3,8",
        "devices/system/node/node1/cpulist": "4-7",
        "devices/system/node/node2/cpulist": "",
        "bus/pci/devices/0000:3b:00.0/numa_node": "1",
        "bus/pci/devices/0000:3b:00.0/current_link_speed": "8.0 GT/s PCIe",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text + "\n")
    return tmp_path


def test_places_are_read_from_sysfs(system: Path) -> None:
    assert numa_nodes(system) == {0: {0, 1, 2, 3, 8}, 1: {4, 5, 6, 7}}
    assert gpu_node("0000:3b:00.0", system) == 1
    assert link_speed("0000:3b:00.0", "current", system) == 8.0
    with pytest.raises(PlacementError, match="cannot be read"):
        link_speed("0000:5e:00.0", "current", system)
    assert parse_cpus("3") == {3}


def test_working_elsewhere_ends_with_the_block() -> None:
    before = os.sched_getaffinity(0)
    one = {min(before)}
    with working_on(one):
        assert os.sched_getaffinity(0) == one
    assert os.sched_getaffinity(0) == before
    with pytest.raises(PlacementError, match="cannot be taken"), working_on({4095}):
        raise AssertionError("never here")
    assert os.sched_getaffinity(0) == before


def fake_node(monkeypatch: pytest.MonkeyPatch, nodes: dict[int, set[int]], node: int) -> None:
    monkeypatch.setattr(placement, "numa_nodes", lambda: nodes)
    monkeypatch.setattr(placement, "gpu_node", lambda address: node)
    monkeypatch.setattr(placement, "link_speed", lambda address, which: 8.0)


def transfers(address: str | None) -> Collector:
    from gan_trainer.performance.program import measure_transfers

    found = Collector("cuda:0")
    measure_transfers(found, CPU, address, SMALL)
    return found


def test_near_and_far_are_measured_from_their_own_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("needs two processors")
    seen = []

    def rates(device: object, sizes: object) -> tuple[float, float]:
        seen.append(os.sched_getaffinity(0))
        return 1.0, 2.0

    monkeypatch.setattr(performance_measures, "transfer_rates", rates)
    fake_node(monkeypatch, {0: {cpus[0]}, 1: {cpus[1]}}, 1)
    found = transfers("0000:3b:00.0")
    assert seen == [{cpus[1]}, {cpus[0]}]
    assert found.values["h2d_remote_gb_s"] == 1.0 and found.values["d2h_gb_s"] == 2.0
    assert found.values["link_gt_s"] == 8.0 and found.left_out == {}


def test_a_far_node_that_may_not_be_used_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_node(monkeypatch, {0: os.sched_getaffinity(0), 1: {4095}}, 0)
    found = transfers("0000:3b:00.0")
    assert (found.values["h2d_gb_s"] or 0) > 0 and found.problems == []
    assert "may not choose its NUMA node" in found.left_out["h2d_remote_gb_s"]


def test_a_process_that_may_not_choose_is_measured_where_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_node(monkeypatch, {0: {4094}, 1: {4095}}, 0)
    found = transfers("0000:3b:00.0")
    assert (found.values["h2d_gb_s"] or 0) > 0 and found.problems == []
    assert "processors [4095] cannot be taken" in found.left_out["h2d_remote_gb_s"]


@pytest.mark.parametrize(("nodes", "words"), [(1, "the host has one NUMA node"), (2, "names no NUMA node")])
def test_a_host_that_names_no_node(monkeypatch: pytest.MonkeyPatch, nodes: int, words: str) -> None:
    fake_node(monkeypatch, {node: os.sched_getaffinity(0) for node in range(nodes)}, -1)
    found = transfers("0000:3b:00.0")
    assert (found.values["h2d_gb_s"] or 0) > 0 and words in found.left_out["d2h_remote_gb_s"]
