"""Published floors: which card gets which, and that every row can be reached by a name that nvidia-smi prints."""

from __future__ import annotations

import re

import pytest
from gpuwright import floors
from gpuwright.devices import CHIPS, NAMES
from gpuwright.floors import Floor, amp_floor, floor_of, peak_of, reduce_floor

V100, A100, H100 = "Tesla V100-PCIE-16GB", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize(
    ("model", "measure", "floor"),
    [
        (V100, "h2d_gb_s", 9.0),
        (V100, "d2h_gb_s", 9.0),
        ("Tesla V100-SXM2-32GB", "copy_gb_s", 562.5),
        (V100, "matmul_fp16_tflops", 63.75),
        (V100, "matmul_fp32_tflops", 10.5),
        (V100, "matmul_bf16_tflops", None),
        (V100, "p2p_gb_s", None),
        ("Tesla P100-PCIE-16GB", "h2d_gb_s", 9.113),
        ("Tesla P100-PCIE-16GB", "d2h_gb_s", 9.668),
        ("Tesla P100-PCIE-16GB", "copy_gb_s", 332.85),
        (A100, "h2d_gb_s", 21.0),
        (A100, "copy_gb_s", 1016.25),
        (A100, "matmul_fp16_tflops", 203.25),
        (A100, "matmul_bf16_tflops", 203.25),
        (A100, "matmul_tf32_tflops", 81.0),
        (A100, "matmul_fp32_tflops", 10.575),
        (A100, "p2p_gb_s", 235.0),
        ("NVIDIA A100-PCIE-40GB", "p2p_gb_s", None),
        (H100, "h2d_gb_s", 48.0),
        (H100, "copy_gb_s", 1905.0),
        (H100, "matmul_fp16_tflops", 595.875),
        (H100, "matmul_bf16_tflops", 595.875),
        (H100, "matmul_fp32_tflops", 29.25),
        (H100, "p2p_gb_s", 335.0),
        ("NVIDIA H200", "d2h_gb_s", 48.0),
        ("NVIDIA H200 NVL", "d2h_gb_s", None),
        ("NVIDIA H100 PCIe", "h2d_gb_s", None),
        ("NVIDIA A40", "matmul_fp32_tflops", 14.175),
        ("NVIDIA A40", "matmul_tf32_tflops", 30.0),
        ("NVIDIA GeForce RTX 2080 Ti", "matmul_fp32_tflops", 8.55),
        ("NVIDIA GeForce RTX 2080 Ti", "matmul_fp16_tflops", 33.675),
        ("NVIDIA GeForce RTX 3090 Ti", "matmul_fp32_tflops", 15.75),
        ("NVIDIA GeForce RTX 3090 Ti", "matmul_fp16_tflops", 49.5),
        ("Tesla T4", "h2d_gb_s", None),
        ("NVIDIA GeForce RTX 4090", "copy_gb_s", None),
    ],
)
def test_floor_of_a_model(model, measure, floor):
    found = floor_of(model, measure)
    assert found.floor == floor
    assert (found.warn is None) == (floor is None) == (found.source == "")
    assert floor is None or found.warn == pytest.approx(1.05 * floor, rel=1e-3)
    assert found.unit == ("TFLOP/s" if "matmul" in measure else "GB/s")


@pytest.mark.parametrize("row", floors.KNOWN + floors.KNOWN_REDUCE)
def test_every_row_has_a_card_and_a_source(row):
    assert [name for name in NAMES.values() if re.search(row.models, name)], row
    assert row.source and row.good > 0 and row.share in (0.75, 1.0)


def test_no_two_rows_speak_of_one_card_and_measure():
    for name in NAMES.values():
        measures = [row.measure for row in floors.KNOWN if re.search(row.models, name)]
        assert len(measures) == len(set(measures)), name


@pytest.mark.parametrize("name", sorted(NAMES.values()))
def test_a_floor_is_below_the_makers_peak(name):
    for row in floors.KNOWN:
        found = floor_of(name, row.measure)
        if found.floor is not None and found.peak is not None:
            assert found.floor < found.peak, (name, row.measure)


@pytest.mark.parametrize(
    ("model", "measure", "peak"),
    [
        (V100, "h2d_gb_s", 15.75),
        (V100, "d2h_remote_gb_s", 15.75),
        (V100, "copy_gb_s", 900.0),
        (V100, "matmul_fp16_tflops", 112.0),
        (V100, "matmul_tf32_tflops", None),
        ("Tesla V100S-PCIE-32GB", "matmul_fp32_tflops", 16.4),
        ("NVIDIA H200", "copy_gb_s", 4800.0),
        ("NVIDIA H200", "link_gt_s", None),
        ("NVIDIA GeForce RTX 4090", "copy_gb_s", None),
    ],
)
def test_peak(model, measure, peak):
    assert peak_of(model, measure) == peak


@pytest.mark.parametrize(
    ("model", "gpus", "floor"),
    [(A100, 8, 171.0), (A100, 4, None), ("Tesla V100-SXM2-32GB", 8, 82.5), (H100, 8, 345.0), (V100, 8, None)],
)
def test_all_reduce_is_judged_where_others_measured_it(model, gpus, floor):
    assert reduce_floor(model, gpus).floor == floor
    assert reduce_floor("NVIDIA H200", 8).floor == 323.25


def test_amp_ratio_by_architecture():
    assert (amp_floor("volta").floor, amp_floor("volta").warn) == (1.62, 1.701)
    assert amp_floor("ampere").floor == 0.968
    for architecture in {chip[0] for chip in CHIPS.values()} - {"volta", "ampere"} | {"unknown"}:
        assert amp_floor(architecture) == Floor(None, None, None, "x", "")
