"""Reports as a fleet leaves them: whole, broken, old, long, and without the parts that not every node has."""

from __future__ import annotations

import copy
from typing import Any

import healthy_node
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.fleet import host_row, index_page
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.folder import page_files
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.host import host_page
from gpuwright.checks.all import run_checks
from gpuwright.checks.waivers.report import with_waivers
from gpuwright.verdict.report import make_report
from waiver_rows import MOMENT, THREE, entry, struck

NOW = "2026-01-06T10:00:00Z"
HOSTILE = "<script>alert(1)</script>\"'&{{ 7*7 }}\x1b[2J"


def measure(value: float, floor: float | None, peak: float | None, unit: str) -> dict:
    warn = floor and round(floor * 1.05, 2)
    source = "0.75 x a measurement on the same card" if floor else ""
    return {"value": value, "floor": floor, "warn": warn, "peak": peak, "unit": unit, "source": source}


PERFORMANCE = {
    "schema": 1,
    "because": "",
    "devices": [
        {
            "device": "cuda:0",
            "name": "Tesla V100-PCIE-16GB",
            "measures": {
                "h2d_gb_s": measure(12.3, 9.0, 15.75, "GB/s"),
                "d2h_gb_s": measure(9.2, 9.0, 15.75, "GB/s"),
                "h2d_remote_gb_s": measure(8.1, 9.0, 15.75, "GB/s"),
                "copy_gb_s": measure(780.0, 590.0, 900.0, "GB/s"),
                "matmul_fp16_tflops": measure(95.0, 70.0, 112.0, "TFLOP/s"),
                "matmul_bf16_tflops": None,
                "matmul_tf32_tflops": None,
                "matmul_fp32_tflops": measure(13.1, None, 14.0, "TFLOP/s"),
            },
        }
    ],
    "all_reduce": {"gpus": 2, "value": 9.8, "floor": 7.0, "unit": "GB/s"},
    "problems": [],
}
TUNING = [
    {"name": "cpu governor", "wanted": "performance", "found": "performance", "reason": "the loader's workers decide"},
    {"name": "vm.swappiness", "wanted": "10", "found": "60", "reason": "keep the page cache of the images"},
    {"name": "transparent huge pages", "wanted": "madvise", "found": None, "reason": ""},
]
OFF = "torch.compile is off: compute capability 7.0"
BENCH = {
    "schema": 1,
    "time": "2026-01-04T08:00:00Z",
    "device": "Tesla V100-PCIE-16GB",
    "torch": "2.10.0+cu128",
    "image_size": 128,
    "images_per_epoch": 70000,
    "reduced": False,
    "precision": [
        {
            "name": name,
            "gpus": gpus,
            "epoch_s": seconds,
            "memory_fraction": memory,
            "stable": True,
            "fid": fid,
            "reported": {"epoch_min": minutes, "memory_percent": percent, "fid": told},
        }
        for name, gpus, seconds, memory, fid, minutes, percent, told in (
            ("fp32", 1, 1122.0, 0.93, 21.4, 18.0, 95, 20.1),
            ("amp", 1, 660.0, 0.55, None, 10.0, 60, 20.3),
            ("amp_2_gpus", 2, 410.0, None, None, 5.5, 60, None),
        )
    ],
    "batch": [
        {
            "batch_size": 32,
            "epoch_s": 900.0,
            "memory_fraction": 0.4,
            "reported": {"epoch_min": 14, "memory_percent": 45},
        }
    ],
    "ladder": [
        {"name": "as it comes", "images_per_s": 312.0, "ratio": 1.0, "peak_memory_mib": 9000, "not_run": ""},
        {"name": "mixed precision", "images_per_s": 561.0, "ratio": 1.8, "peak_memory_mib": None, "not_run": None},
        {"name": "+ torch.compile", "images_per_s": None, "ratio": None, "peak_memory_mib": None, "not_run": OFF},
    ],
    "contradictions": ["Two GPUs are documented to halve the epoch; here they take 0.62 of one."],
}
LOCKS = {"streams": {"nvidia-driver": "enabled 580-dkms"}, "versions": ["nvidia-driver-cuda-3:580.95.05-1.el8.*"]}
PROBE = {
    "os": {"name": "Red Hat Enterprise Linux 8.8 (Ootpa)"},
    "cpu": {"model": "Intel Xeon Silver 4210", "sockets": 2, "physical_cores": 10, "logical_cpus": 20},
    "memory_mib": 128000,
}
BECAUSE = {
    "driver": "580 is the last branch for volta, and the proprietary module the only one that drives it",
    "cuda": "12.9 is the last toolkit that compiles for compute capability 7.0",
    "pytorch": "2.10.0 is the newest with code for sm_70 (cu128)",
}


def report(readings: dict | None = None, time: str = "2026-01-05T10:00:00Z") -> dict:
    readings = readings or healthy_node.readings()
    expectations = healthy_node.expectations()
    checks = run_checks(readings, expectations, healthy_node.smoke())
    return make_report("a5-01", time, checks, readings, expectations, healthy_node.smoke())


def broken() -> dict:
    readings = healthy_node.readings()
    readings["probe"]["nvidia"]["loaded"]["version"] = "535.1"
    readings["nvidia_smi"]["driver_version"] = "535.1"
    readings["persistenced"] = "failed"
    return report(readings, NOW)


def whole(record: dict | None = None) -> dict:
    """The report with every part that a node may have."""
    found = copy.deepcopy(record or report())
    found["performance"] = copy.deepcopy(PERFORMANCE)
    readings = found["readings"]
    readings.update(tuning=copy.deepcopy(TUNING), bench=copy.deepcopy(BENCH), locks=copy.deepcopy(LOCKS))
    readings["probe"].update(copy.deepcopy(PROBE))
    readings["probe"]["gpus"][0]["link"] = {
        "speed_now": "8.0 GT/s PCIe",
        "speed_max": "8.0 GT/s PCIe",
        "width_now": 8,
        "width_max": 16,
    }
    found["expectations"]["plan"].update(because=BECAUSE, amp={"dtype": "float16", "because": "volta has no bfloat16"})
    found["expectations"]["plan"]["pytorch"]["locked"] = True
    device = found["smoke"]["devices"][0]
    found["smoke"]["steps"] = 100
    device["speed_ratio"] = 1.9
    device["fp32"].update(peak_memory_mib=410, seconds=2.1)
    device["amp"].update(peak_memory_mib=290, seconds=1.1)
    return found


def everywhere(value: Any) -> Any:
    """The record with every text of it made hostile, but for what the page must understand."""
    if isinstance(value, dict):
        return {key: v if key in ("status", "verdict", "time", "id") else everywhere(v) for key, v in value.items()}
    if isinstance(value, list):
        return [everywhere(member) for member in value]
    return HOSTILE if isinstance(value, str) else value


def waived() -> dict:
    """A node with an acknowledged failure, one that no longer counts, a check that is switched off, and strikes."""
    readings = healthy_node.readings("gpu.sram")
    healthy_node.put(readings, ("nvidia_smi", "gpus", 0, "health", "sram_uncorrected_aggregate"), 5)
    expired = entry("gpu.bar1", when="2026-01-01T00:00:00Z", until="2026-01-02T00:00:00Z", user="bob")
    readings.update(moment=dict(MOMENT), acknowledgements=[entry(), expired])
    readings["strikes"]["cards"] = [struck(*THREE[:2], serial="1234567890123")]
    expectations = healthy_node.expectations(skip_checks={"gpu.link_width": "riser with 8 lanes"})
    checks = run_checks(readings, expectations, healthy_node.smoke())
    return with_waivers(make_report("a5-01", str(MOMENT["time"]), checks, readings, expectations, healthy_node.smoke()))


def unread() -> dict:
    """A node of which much could not be read."""
    readings = healthy_node.readings()
    readings["nvidia_smi"]["gpus"][0]["temperature_c"] = "unknown"
    readings["kernel_log"] = {"unreadable": "no permission"}
    return report(readings)


def warned() -> dict:
    readings = healthy_node.readings()
    readings["host"]["governors"] = ["powersave"]
    return report(readings, "2025-11-01T10:00:00Z")


def fleet(number: int) -> list[tuple]:
    """`[(name, report, report before, problem)]`: of every verdict when there are enough of them."""
    long = whole(broken())
    long["checks"][0]["message"] = "x" * 400
    kinds = [
        (whole(broken()), whole(), ""),
        (whole(), whole(), ""),
        (whole(unread()), None, ""),
        (warned(), report(), ""),
        (long, report(), ""),
        (None, None, "Expecting value: line 1 column 1 (char 0)"),
    ]
    found = []
    for place in range(number):
        # Most hosts of a large fleet are as they should be.
        now, before, problem = kinds[place] if place < len(kinds) else (whole(), whole(), "")
        if place >= 30:
            now = whole(warned())
        name = f"a5-{place + 1:02}" + (".a-rather-long-name.of-a-data-centre.example.org" if place == 1 else "")
        found.append((name, copy.deepcopy(now), copy.deepcopy(before), problem))
    return found


def make_pages(hosts: list[tuple], now: str = NOW) -> dict[str, str]:
    """`{path: text}` of every page, the index last, as the action writes them."""
    files = page_files([host[0] for host in hosts])
    paths = [f"hosts/{files[host[0]]}" for host in hosts]
    found = {path: host_page(*host) for path, host in zip(paths, hosts, strict=True)}
    rows = [host_row(host[0], path, *host[1:]) for path, host in zip(paths, hosts, strict=True)]
    return {**found, "index.html": index_page(rows, now)}
