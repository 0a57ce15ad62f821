# SPDX-License-Identifier: Apache-2.0
"""What a sound GPU of a model reaches: floors from others' published measurements, and the peaks of its maker.

A floor is 0.75 of a known-good measurement on the same model (the rule of DCGM's diag-skus.yaml.in), or what a health
check of the field itself enforces. Where nobody has published a measurement there is no floor, and nothing is judged.
"""

import collections
import re

SHARE = 0.75
# Azure's health checks warn this near to the floor.
WARN_BAND = 1.05

Known = collections.namedtuple("Known", "models measure good share source")
Known.__doc__ = (
    """A measurement on good cards: regular expression of the models' names, measure, value, share that is the floor."""
)

Floor = collections.namedtuple("Floor", "floor warn peak unit source")
Floor.__doc__ = """Limits of one measure on one model; floor, warn and peak are None where nobody has published one."""

AZURE = "enforced by azurehpc-health-checks conf/"
AZURE_REDUCE = "0.75 x {}: all-reduce floor of azurehpc-health-checks conf/{} at larger messages"
ML_ENGINEERING = "ml-engineering compute/accelerator, maximum achievable matmul"
MLXCEL = "cuBLAS on a V100 at m=2048, lablup/mlxcel issue 1654"
BUSY_GEMM = "torch at 8000 x 8000, bewantbe/busy-gemm-benchmark README"
DCGM = "DCGM diag-skus.yaml.in"
GEARSHIFFT = "bandwidthTest on a P100-PCIE-16GB, mpicbg-scicomp/gearshifft pull request 82"
HALF_AS_BF16 = "; float16 and bfloat16 use the same units"

V100, A100 = r"V100", r"A100"
H100_SXM, H200 = r"H100 80GB HBM3|H100 SXM", r"H200(?! NVL)"
HOPPER_SXM = H100_SXM + "|" + H200


def _both(models, good, share, source):
    """The same limit in both directions."""
    return (Known(models, "h2d_gb_s", good, share, source), Known(models, "d2h_gb_s", good, share, source))


KNOWN = (
    _both(V100, 9.0, 1.0, AZURE + "nd40rs_v2")
    + _both(A100, 21.0, 1.0, AZURE + "nd96asr_v4")
    + _both(HOPPER_SXM, 48.0, 1.0, AZURE + "nd96isr_h100_v5 and nd96isr_h200_v5")
    + (
        Known(r"P100-PCIE", "h2d_gb_s", 12.15, SHARE, GEARSHIFFT),
        Known(r"P100-PCIE", "d2h_gb_s", 12.89, SHARE, GEARSHIFFT),
        Known(r"P100-PCIE", "copy_gb_s", 443.8, SHARE, GEARSHIFFT),
        Known(V100, "copy_gb_s", 750.0, SHARE, "V100-SXM2-16GB, ginkgo-project/ginkgo issue 164"),
        Known(A100, "copy_gb_s", 1355.0, SHARE, "A100 40 GB, PTsolvers/gpu-workshop-JuliaCon23 issue 7"),
        Known(HOPPER_SXM, "copy_gb_s", 2540.0, SHARE, DCGM + ", H100; an H200's memory is faster"),
        Known(V100, "matmul_fp16_tflops", 85.0, SHARE, "hma02/cublasHgemm-P100 pull request 1; 95 to 100 in " + MLXCEL),
        Known(V100, "matmul_fp32_tflops", 14.0, SHARE, MLXCEL),
        Known(A100, "matmul_fp16_tflops", 271.0, SHARE, ML_ENGINEERING + HALF_AS_BF16),
        Known(A100, "matmul_bf16_tflops", 271.0, SHARE, ML_ENGINEERING),
        Known(A100, "matmul_tf32_tflops", 108.0, SHARE, BUSY_GEMM),
        Known(A100, "matmul_fp32_tflops", 14.1, SHARE, BUSY_GEMM),
        Known(HOPPER_SXM, "matmul_fp16_tflops", 794.5, SHARE, ML_ENGINEERING + HALF_AS_BF16),
        Known(HOPPER_SXM, "matmul_bf16_tflops", 794.5, SHARE, ML_ENGINEERING),
        Known(HOPPER_SXM, "matmul_fp32_tflops", 39.0, SHARE, DCGM + ", H100"),
        Known(r"NVIDIA A40$", "matmul_fp32_tflops", 18.9, SHARE, BUSY_GEMM),
        Known(r"NVIDIA A40$", "matmul_tf32_tflops", 40.0, SHARE, BUSY_GEMM),
        Known(r"RTX 2080 Ti", "matmul_fp32_tflops", 11.4, SHARE, BUSY_GEMM),
        Known(r"RTX 2080 Ti", "matmul_fp16_tflops", 44.9, SHARE, BUSY_GEMM),
        Known(r"RTX 3090 Ti", "matmul_fp32_tflops", 21.0, SHARE, BUSY_GEMM),
        Known(r"RTX 3090 Ti", "matmul_fp16_tflops", 66.0, SHARE, BUSY_GEMM),
        Known(r"A100-SXM", "p2p_gb_s", 235.0, 1.0, AZURE + "nd96asr_v4"),
        Known(HOPPER_SXM, "p2p_gb_s", 335.0, 1.0, AZURE + "nd96isr_h100_v5 and nd96isr_h200_v5"),
    )
)

# Of eight GPUs behind NVLink: with fewer, or behind PCIe, nobody has published what is good.
REDUCE_GPUS = 8
KNOWN_REDUCE = (
    Known(r"V100-SXM", "all_reduce", 110.0, SHARE, AZURE_REDUCE.format(110, "nd40rs_v2")),
    Known(r"A100-SXM", "all_reduce", 228.0, SHARE, AZURE_REDUCE.format(228, "nd96asr_v4")),
    Known(H100_SXM, "all_reduce", 460.0, SHARE, AZURE_REDUCE.format(460, "nd96isr_h100_v5")),
    Known(H200, "all_reduce", 431.0, SHARE, AZURE_REDUCE.format(431, "nd96isr_h200_v5")),
)

# Mixed over single precision in a GAN, by architecture; float32 is what PyTorch makes of it, with TF32 from Ampere on.
AMP_RATIOS = {
    "volta": (2.16, "HiFi-GAN on V100, NVIDIA DeepLearningExamples @729963dd"),
    "ampere": (1.29, "HiFi-GAN on A100 against TF32, NVIDIA DeepLearningExamples @729963dd"),
}

# The maker's figures for dense matrices: models, (fp16, bf16, tf32, fp32 TFLOP/s, memory GB/s, PCIe GB/s each way).
PEAK_MEASURES = ("matmul_fp16_tflops", "matmul_bf16_tflops", "matmul_tf32_tflops", "matmul_fp32_tflops", "copy_gb_s")
PCIE_3, PCIE_4, PCIE_5 = 15.75, 31.5, 63.0
PEAKS = (
    (r"P100-PCIE-16GB", (18.7, None, None, 9.3, 732.0, PCIE_3)),
    (r"V100S-PCIE", (130.0, None, None, 16.4, 1134.0, PCIE_3)),
    (r"V100-PCIE", (112.0, None, None, 14.0, 900.0, PCIE_3)),
    (r"V100-SXM2", (125.0, None, None, 15.7, 900.0, PCIE_3)),
    (r"Tesla T4$", (65.0, None, None, 8.1, 320.0, PCIE_3)),
    (r"A100 80GB PCIe", (312.0, 312.0, 156.0, 19.5, 1935.0, PCIE_4)),
    (r"A100-SXM4-80GB", (312.0, 312.0, 156.0, 19.5, 2039.0, PCIE_4)),
    (r"A100-(SXM4|PCIE)-40GB", (312.0, 312.0, 156.0, 19.5, 1555.0, PCIE_4)),
    (r"NVIDIA A30$", (165.0, 165.0, 82.0, 10.3, 933.0, PCIE_4)),
    (r"NVIDIA A40$", (149.7, 149.7, 74.8, 37.4, 696.0, PCIE_4)),
    (r"NVIDIA A10$", (125.0, 125.0, 62.5, 31.2, 600.0, PCIE_4)),
    (r"NVIDIA L4$", (121.0, 121.0, 60.0, 30.3, 300.0, PCIE_4)),
    (r"NVIDIA L40S$", (362.0, 362.0, 183.0, 91.6, 864.0, PCIE_4)),
    (r"H100 PCIe", (756.0, 756.0, 378.0, 51.0, 2000.0, PCIE_5)),
    (H100_SXM, (989.0, 989.0, 494.5, 67.0, 3350.0, PCIE_5)),
    (H200, (989.0, 989.0, 494.5, 67.0, 4800.0, PCIE_5)),
)


def unit_of(measure):
    endings = (("_gb_s", "GB/s"), ("_tflops", "TFLOP/s"), ("_gt_s", "GT/s"), ("all_reduce", "GB/s"))
    return next(unit for ending, unit in endings if measure.endswith(ending))


def floor_of(model, measure):
    """The `Floor` of a measure on the card that nvidia-smi calls `model`."""
    known = next((row for row in KNOWN if row.measure == measure and re.search(row.models, model)), None)
    return _floor(known, peak_of(model, measure), measure)


def reduce_floor(model, gpus):
    """The `Floor` of all-reduce's bus bandwidth over `gpus` cards of a model."""
    rows = [row for row in KNOWN_REDUCE if gpus == REDUCE_GPUS and re.search(row.models, model)]
    return _floor(rows[0] if rows else None, None, "all_reduce")


def _floor(known, peak, measure):
    if known is None:
        return Floor(None, None, peak, unit_of(measure), "")
    floor = known.good * known.share
    source = known.source if known.share == 1 or known.measure == "all_reduce" else "{:g} x {:g}: {}"
    text = source.format(known.share, known.good, known.source)
    return Floor(round(floor, 3), round(floor * WARN_BAND, 3), peak, unit_of(measure), text)


def peak_of(model, measure):
    """The maker's figure, None where the table has none."""
    for models, figures in PEAKS:
        if re.search(models, model):
            if measure.startswith(("h2d", "d2h")):
                return figures[-1]
            return figures[PEAK_MEASURES.index(measure)] if measure in PEAK_MEASURES else None
    return None


def amp_floor(architecture):
    """The `Floor` of mixed over single precision, for an architecture as gpu_node names it."""
    if architecture not in AMP_RATIOS:
        return Floor(None, None, None, "x", "")
    good, source = AMP_RATIOS[architecture]
    floor = good * SHARE
    text = "{:g} x {:g}: {}".format(SHARE, good, source)
    return Floor(round(floor, 3), round(floor * WARN_BAND, 3), None, "x", text)
