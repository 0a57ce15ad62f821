"""The burn-in on the CPU: a wrong bit is found wherever it is made, and the record has what the judgement needs.

`python tests/run.py trainer` names the interpreter and the paths of these imports.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import between
import burn_in
import forked
import product_bits
import pytest
import seeds
import torch
import work

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = REPOSITORY / "roles/accept/files/burn_in"
# Seconds after which a program is taken for hanging, as in the trainer's tests.
PATIENCE = 900.0
CPU = torch.device("cpu")
EDGE = 32
TINY_MEMORY = 1 << 16


@pytest.fixture(autouse=True)
def one_thread_and_seed(request: pytest.FixtureRequest) -> None:
    torch.set_num_threads(1)
    seeds.seed_all(request.node.name)


@pytest.fixture(scope="module", autouse=True)
def forks() -> Iterator[None]:
    yield
    forked.end_server()


def started() -> work.Found:
    return work.Found("cpu", time.monotonic())


def burn(names: tuple[str, ...] = ("fp32", "bf16"), seconds: float = 1.0) -> work.Found:
    found = started()
    work.burn_products(CPU, [work.Products(CPU, name, EDGE) for name in names], seconds, found)
    return found


def test_right_products_have_no_fault() -> None:
    found = burn()
    assert found.counts["products"] >= 2 * work.PRODUCTS_AT_ONCE and (found.faults, found.counts["faults"]) == ([], 0)


@pytest.mark.parametrize("call", [2, 3, work.PRODUCTS_AT_ONCE])
def test_one_wrong_bit_of_one_product_is_found(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    calls = 0

    def flips_the_last_bit_once(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor) -> None:
        nonlocal calls
        calls += 1
        torch.mm(left, right, out=out)
        if calls == call:
            out.view(torch.int32)[5, 7] ^= 1

    monkeypatch.setattr(work, "multiply", flips_the_last_bit_once)
    found = burn(("fp32",))
    assert found.counts["faults"] == 1
    assert f"1 of {EDGE * EDGE} numbers of a product in fp32 differ from the first product" in found.faults[0]


def test_a_wrong_first_product_is_not_the_measure_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor) -> None:
        torch.mm(left, right, out=out)
        out[0, 0] += 4.0

    monkeypatch.setattr(work, "multiply", wrong)
    found = burn(("fp32",), 0.05)
    assert found.counts["faults"] == found.counts["products"] > 0
    assert "the first product in fp32 is wrong" in found.faults[0] and len(found.faults) <= work.MOST_FAULTS


def test_a_product_that_is_not_done_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result of the product before must not be taken for it."""
    products = work.Products(CPU, "fp32", EDGE)
    assert products.once() == ""
    monkeypatch.setattr(work, "multiply", lambda left, right, out: None)
    assert "differ from the first product" in products.once()


def test_inputs_have_spread_one_and_the_same_bits_everywhere() -> None:
    found = product_bits.numbers(CPU, 64, 0)
    assert abs(float(found.mean())) < 0.05 and abs(float(found.std()) - 1.0) < 0.02
    assert not torch.equal(found, product_bits.numbers(CPU, 64, 1))
    # As plain Python computes them from the same whole numbers: no release of torch and no device decides.
    assert product_bits.bits_of(found) == "be3862d63aeaa7cf"


def test_one_other_bit_gives_other_bits() -> None:
    product = torch.ones(4, 4, dtype=torch.bfloat16)
    before = product_bits.bits_of(product)
    product.view(torch.int16)[3, 3] ^= 1
    assert product_bits.bits_of(product) != before and len(before) == product_bits.DIGITS


def test_memory_without_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "CPU_MEMORY", TINY_MEMORY)
    found = started()
    work.burn_memory(CPU, 0.0, found)
    assert found.faults == [] and found.counts["memory_bytes"] == len(work.PATTERNS) * TINY_MEMORY


@pytest.mark.parametrize("bit", [0x01, 0x80])
def test_a_bit_that_sticks_is_found_in_both_places(monkeypatch: pytest.MonkeyPatch, bit: int) -> None:
    def sticks(part: torch.Tensor, pattern: int) -> None:
        part.fill_(pattern)
        part[-1] |= bit

    monkeypatch.setattr(work, "CPU_MEMORY", TINY_MEMORY)
    monkeypatch.setattr(work, "fill", sticks)
    found = started()
    work.burn_memory(CPU, 0.0, found)
    # Two of the patterns have the bit themselves.
    assert len(found.faults) == 4 and "1 bytes are not 0x00 as they were written" in found.faults[0]
    assert "moved" in found.faults[1]


def run_program(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = {"PYTHONPATH": str(REPOSITORY / "trainer"), "OMP_NUM_THREADS": "1"}
    return forked.run([str(PROGRAM / "burn_in.py"), *words], {**os.environ, **path, **variables}, PATIENCE)


def test_the_program_measures_everything_that_a_cpu_has() -> None:
    done = run_program("node", "--device", "cpu", "--seconds", "4")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["schema"], record["kind"], record["device"], record["problems"]) == (1, "node", "cpu", [])
    assert len(record["devices"]) == burn_in.CPU_RANKS
    for place, device in enumerate(record["devices"]):
        wanted = {"h2d_gb_s", "d2h_gb_s", "copy_gb_s", "matmul_fp32_tflops"} | ({"all_reduce"} if not place else set())
        assert wanted <= set(device["series"]) and device["faults"] == []
        assert all(value > 0 for points in device["series"].values() for _at, value in points)
        assert device["counts"]["products"] > 0 and device["counts"]["memory_bytes"] > 0
    # The same processor, in two processes.
    first, second = (device["products"] for device in record["devices"])
    assert first == second and set(first["bits"]) == set(work.measures.FORMATS) and str(work.CPU_EDGE) in first["of"]


@pytest.mark.long
def test_two_nodes_meet_by_torchrun_and_measure_together() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "trainer"), "OMP_NUM_THREADS": "1"}
    nodes = [
        subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", f"--node-rank={rank}",
             "--master-addr=127.0.0.1", f"--master-port={port}", str(PROGRAM / "burn_in.py"), "group",
             "--device", "cpu", "--seconds", "2", "--timeout", f"{PATIENCE:.0f}"],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    records: list[dict[str, Any]] = []
    for node in nodes:
        said, errors = node.communicate(timeout=PATIENCE)
        assert node.returncode == 0, errors
        records.append(json.loads(said))
    assert sorted(record["rank"] for record in records) == [0, 1]
    for record in records:
        assert record["ranks"] == 2 and record["interface"] == "lo" and record["problems"] == record["faults"] == []
        assert all(value > 0 for name in ("reduce_gb_s", "steps_per_s") for value in record["series"][name])
        assert record["own_product_s"] > 0


def test_a_group_whose_first_node_is_not_there_says_so() -> None:
    environment = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9"}
    done = run_program("group", "--device", "cpu", "--seconds", "1", "--timeout", "3", **environment)
    assert done.returncode == 1
    assert json.loads(done.stdout)["problems"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["node", "--device", "cpu"],
        ["node", "--device", "cpu", "--seconds", "0"],
        ["both"],
        ["node", "--seconds", "nan"],
    ],
)
def test_a_wrong_command_line_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        burn_in.parse(arguments)
    assert ended.value.code == 2


def test_a_week_has_no_more_rounds_than_an_hour() -> None:
    assert burn_in.rounds_of(3600.0) == 60.0 and burn_in.rounds_of(7 * 86400.0) == 10080.0
    assert burn_in.rounds_of(60.0) == burn_in.LEAST_ROUND_S and burn_in.rounds_of(4.0) == 4.0


def test_the_interface_is_that_of_the_address() -> None:
    assert between.interface_of("127.0.0.1") == "lo" and between.interface_of("192.0.2.1") == ""
    assert between.own_address("127.0.0.1", 29500) == "127.0.0.1"
