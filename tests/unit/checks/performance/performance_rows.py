"""Rows of test_checks_sad_paths: measured speeds around the floors, the spread, and where nothing was measured."""

from __future__ import annotations

import healthy_node
from gpuwright.verdict.check import FAIL, PASS, SKIP, UNKNOWN, WARN
from healthy_performance import performance_of

SPEED = ("performance",)
MEASURE = (*SPEED, "devices", 0, "measures")
BUSY = {**healthy_node.READINGS["performance"], "devices": [], "busy": ["0000:3b:00.0: python3 (pid 4321)"]}
CPU_SPEED = {**healthy_node.READINGS["performance"], "devices": [{"device": "cpu", "name": "CPU"}]}


def two_fast(**changes: object) -> dict:
    """Two equal cards, of which the second has these measures."""
    found = performance_of(2)
    for name, value in changes.items():
        found["devices"][1]["measures"][name]["value"] = value
    return found


def without(measure: str, problem: str | None) -> dict:
    """The V100 with a measure that failed, or that nobody says anything of."""
    found = healthy_node.readings()["performance"]
    found["devices"][0]["measures"][measure] = None
    return {**found, "problems": [problem] if problem else []}


def below(measure: str, floor: float) -> list[tuple]:
    """The rows of a measure around the floor of its model: below, at it, at the end of the band, and above."""
    name = f"performance.{measure.split('_gb_s')[0].split('_tflops')[0]}"
    path = (*MEASURE, measure, "value")
    band = round(floor * 1.05, 3)
    return [
        (name, {path: floor - 0.001}, {}, FAIL, f"floor {floor:g}"),
        (name, {path: floor}, {}, WARN, f"floor {floor:g}"),
        (name, {path: band - 0.001}, {}, WARN, f"floor {floor:g}"),
        (name, {path: band}, {}, PASS, f"floor {floor:g}"),
    ]


# (check, {path in the readings: value}, {expectation: value}, status, words of the message)
ROWS = [
    *below("h2d_gb_s", 9),
    *below("d2h_gb_s", 9),
    *below("copy_gb_s", 562.5),
    *below("matmul_fp16_tflops", 63.75),
    *below("matmul_fp32_tflops", 10.5),
    ("performance.h2d", {SPEED: BUSY}, {}, SKIP, "the GPUs are in use, and only idle ones are measured: 0000:3b:00.0"),
    ("performance.h2d", {SPEED: CPU_SPEED}, {}, SKIP, "says nothing about a GPU"),
    ("performance.h2d", {}, {"gpu_count": 2}, UNKNOWN, "1 of 2 GPUs were measured"),
    ("performance.h2d", {SPEED: without("h2d_gb_s", "cuda:0 h2d_gb_s: lost")}, {}, UNKNOWN, "cuda:0 h2d_gb_s: lost"),
    ("performance.h2d", {SPEED: without("h2d_gb_s", None)}, {}, UNKNOWN, "cuda:0 could not be measured"),
    ("performance.h2d", {SPEED: {"unreadable": "no gpu-run"}}, {}, UNKNOWN, "no gpu-run"),
    (
        "performance.h2d",
        {(*SPEED, "devices", 0, "name"): "Tesla T4"},
        {},
        SKIP,
        "no published floor for Tesla T4; cuda:0",
    ),
    ("performance.h2d", {}, {}, PASS, "12.3 GB/s, 78 % of the published peak; floor 9 (enforced by"),
    ("performance.copy", {}, {}, PASS, "floor 562.5 (0.75 x 750: V100-SXM2"),
    ("performance.matmul_bf16", {}, {}, SKIP, "cuda:0: compute capability 7.0 has bfloat16 by emulation only"),
    ("performance.matmul_bf16", {SPEED: two_fast(matmul_bf16_tflops=203.0)}, {"gpu_count": 2}, FAIL, "cuda:1"),
    ("performance.matmul_bf16", {SPEED: two_fast(matmul_bf16_tflops=203.3)}, {"gpu_count": 2}, WARN, "cuda:1"),
    ("performance.matmul_tf32", {SPEED: two_fast(matmul_tf32_tflops=80.9)}, {"gpu_count": 2}, FAIL, "floor 81"),
    ("performance.p2p", {SPEED: two_fast(p2p_gb_s=234.9)}, {"gpu_count": 2}, FAIL, "floor 235 (enforced by"),
    ("performance.p2p", {}, {}, SKIP, "there is no second GPU"),
    ("performance.link", {(*MEASURE, "link_gt_s", "value"): 2.5}, {}, FAIL, "runs at 2.5 of 8 GT/s"),
    ("performance.link", {(*MEASURE, "link_gt_s"): None}, {}, UNKNOWN, "could not be measured"),
    ("performance.link", {(*SPEED, "devices", 0, "pci_id"): "0000:5e:00.0"}, {}, UNKNOWN, "0000:5e:00.0"),
    ("performance.link", {(*SPEED, "devices", 0, "pci_id"): None}, {}, UNKNOWN, "pci_id"),
    ("performance.link", {SPEED: BUSY}, {}, SKIP, "in use"),
    ("performance.link", {}, {"gpu_count": 2}, UNKNOWN, "1 of 2"),
    ("performance.all_reduce", {SPEED: performance_of(8, 170.9)}, {"gpu_count": 8}, FAIL, "floor 171 (0.75 x 228"),
    ("performance.all_reduce", {SPEED: performance_of(8, 171.0)}, {"gpu_count": 8}, WARN, "floor 171"),
    ("performance.all_reduce", {SPEED: performance_of(2, 30.0)}, {"gpu_count": 2}, SKIP, "no published floor for 2 x"),
    ("performance.all_reduce", {SPEED: performance_of(2)}, {"gpu_count": 2}, UNKNOWN, "could not be measured"),
    ("performance.all_reduce", {}, {}, SKIP, "there is one GPU"),
    ("performance.all_reduce", {SPEED: BUSY}, {}, SKIP, "in use"),
    ("performance.all_reduce", {}, {"gpu_count": 2}, UNKNOWN, "1 of 2"),
    (
        "performance.all_reduce",
        {SPEED: performance_of(8, 231.0), (*SPEED, "all_reduce", "gpus"): 7},
        {"gpu_count": 8},
        UNKNOWN,
        "ran over 7 of 8 GPUs",
    ),
    (
        "performance.all_reduce",
        {SPEED: performance_of(2, 231.0), (*SPEED, "devices", 0, "name"): "Tesla T4"},
        {"gpu_count": 2},
        SKIP,
        "of different models",
    ),
    (
        "performance.numa",
        {(*MEASURE, "h2d_remote_gb_s", "value"): 13.6},
        {},
        WARN,
        "12.3 GB/s from near processors, 13.6 GB/s from far",
    ),
    ("performance.numa", {(*MEASURE, "h2d_remote_gb_s", "value"): 13.5}, {}, PASS, "13.5 GB/s from far"),
    (
        "performance.numa",
        {(*MEASURE, "h2d_gb_s", "value"): 10.0, (*MEASURE, "h2d_remote_gb_s", "value"): 11.0},
        {},
        PASS,
        "11 GB/s from far",
    ),
    ("performance.numa", {(*MEASURE, "h2d_remote_gb_s"): None}, {}, UNKNOWN, "could not be measured"),
    (
        "performance.numa",
        {(*MEASURE, "h2d_remote_gb_s"): None, (*SPEED, "devices", 0, "left_out", "h2d_remote_gb_s"): "one NUMA node"},
        {},
        SKIP,
        "cuda:0: one NUMA node",
    ),
    ("performance.numa", {SPEED: BUSY}, {}, SKIP, "in use"),
    ("performance.numa", {}, {"gpu_count": 2}, UNKNOWN, "1 of 2"),
    ("performance.spread", {SPEED: two_fast(matmul_fp32_tflops=18.0)}, {"gpu_count": 2}, WARN, "cuda:1: 18 TFLOP/s"),
    ("performance.spread", {SPEED: two_fast(matmul_fp32_tflops=18.1)}, {"gpu_count": 2}, PASS, "cuda:1: 18.1"),
    ("performance.spread", {SPEED: two_fast(matmul_fp32_tflops=19.95)}, {"gpu_count": 2}, PASS, "cuda:1: 19.95"),
    (
        "performance.spread",
        {SPEED: performance_of(2), (*SPEED, "devices", 0, "name"): "Tesla T4"},
        {"gpu_count": 2},
        SKIP,
        "of different models",
    ),
    ("performance.spread", {}, {}, SKIP, "there is one GPU"),
    ("performance.spread", {SPEED: BUSY}, {}, SKIP, "in use"),
    ("performance.spread", {}, {"gpu_count": 2}, UNKNOWN, "1 of 2"),
]
