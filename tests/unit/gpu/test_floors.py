"""Published floors: which card gets which, and that every measurement belongs to a card."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gpuwright.gpu.cards import CARDS
from gpuwright.gpu.device_table import ARCHITECTURES, KNOWN_GOOD
from gpuwright.gpu.floors import Floor, amp_floor, floor_of, peak_of, reduce_floor

GOLDEN = Path(__file__).parents[1] / "data" / "floors_and_peaks.json"
PEAKS = ("copy_gb_s", "matmul_fp16_tflops", "matmul_bf16_tflops", "matmul_tf32_tflops", "matmul_fp32_tflops")
MEASURES = ("h2d_gb_s", "d2h_gb_s", "p2p_gb_s", *PEAKS)
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


@pytest.mark.parametrize("name", sorted(KNOWN_GOOD))
def test_every_measurement_has_a_card_and_a_source(name):
    row = KNOWN_GOOD[name]
    assert [card for card in CARDS if name in card.known_good]
    assert row.text and row.share in (0.75, 1.0) and min(row.measures.values()) > 0
    assert (row.gpus is not None) == ("all_reduce" in row.measures)


def test_the_source_of_a_floor_names_its_number():
    assert floor_of(A100, "p2p_gb_s").source == "enforced by azurehpc-health-checks conf/nd96asr_v4"
    assert floor_of(A100, "copy_gb_s").source.startswith("0.75 x 1355: A100 40 GB, PTsolvers/")
    assert reduce_floor(H100, 8).source.startswith(
        "0.75 x 460: all-reduce floor of azurehpc-health-checks conf/nd96isr"
    )
    assert amp_floor("volta").source.startswith("0.75 x 2.16: HiFi-GAN on V100")


def test_no_two_rows_speak_of_one_card_and_measure():
    for card in CARDS:
        measures = [measure for name in card.known_good for measure in KNOWN_GOOD[name].measures]
        assert len(measures) == len(set(measures)), card.name


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_a_floor_is_below_the_makers_peak(card):
    for measure in {measure for name in card.known_good for measure in KNOWN_GOOD[name].measures} - {"all_reduce"}:
        found = floor_of(card.name, measure)
        assert found.floor is not None
        if found.peak is not None:
            assert found.floor < found.peak, (card.name, measure)


def test_cards_have_the_floors_and_peaks_that_their_sources_gave_them():
    """Golden values: a row that loses a measurement would no longer be judged, and nobody would see it."""
    found = {}
    for card in CARDS:
        values = {measure: floor_of(card.name, measure).floor for measure in MEASURES}
        values["all_reduce"] = reduce_floor(card.name, 8).floor
        peaks = {"peak " + measure: peak_of(card.name, measure) for measure in PEAKS}
        kept = {measure: value for measure, value in {**values, **peaks}.items() if value is not None}
        if kept:
            found[card.name] = kept
    assert found == json.loads(GOLDEN.read_text())


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
        ("NVIDIA A2", "h2d_gb_s", 15.75),
        (A100, "d2h_gb_s", 31.5),
        (H100, "h2d_gb_s", 63.0),
        ("Tesla K20m", "d2h_gb_s", 8.0),
        ("NVIDIA GB300", "h2d_gb_s", None),
        ("NVIDIA GH200 480GB", "h2d_gb_s", None),
        ("NVIDIA GH200 480GB", "copy_gb_s", 4000.0),
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
    for architecture in set(ARCHITECTURES) - {"volta", "ampere"} | {"unknown"}:
        assert amp_floor(architecture) == Floor(None, None, None, "x", "")
