"""Rows of test_checks_sad_paths: cards that are missing, other than expected, worn, hot, slow, badly connected."""

from __future__ import annotations

from typing import Any

import healthy_node
from gpuwright.verdict.check import FAIL, PASS, SKIP, UNKNOWN, WARN
from healthy_gpu import NVLINK
from node_names import PCI_ID
from row_values import A100, DOWN, GEFORCE, GPU, HEALTH, SMI, SMI_GPU, TUNING, V100

SECOND = {**healthy_node.READINGS["probe"]["gpus"][0], "pci_id": "0000:5e:00.0"}
PROCESS = {"pid": 4321, "type": "C", "name": "python3", "used_memory_mib": 900}
ONE_BUILD = [V100, {**V100, "health": {**V100["health"], "vbios": "88.00.48.00.03"}}]
TWO_FIRMWARES = [V100, {**V100, "health": {**V100["health"], "vbios": "88.00.4F.00.09"}}]
TUNED_POWER = {"name": "gpu_power_limit", "wanted": "200", "found": "200", "reason": "The power supply is small."}
UNLISTED = {(*SMI_GPU, "device_id"): "2abc", (*SMI_GPU, "name"): "NVIDIA B400"}
LINKS = ("nvlink",)
WAYS = ("gpu_ways",)


def diag(*statuses: str, because: str = "") -> dict:
    names = ("software", "memory", "pcie", "diagnostic")
    tests = [
        {"name": name, "status": status, "words": "GPU 3: memory error" if status == "Fail" else ""}
        for name, status in zip(names, statuses, strict=False)
    ]
    return {("dcgm_diag",): {"level": 2, "because": because, "tests": tests}}


ASKED = {"dcgm_level": 2}


def link(active: int, errors: dict | None = None, **changes: object) -> list[dict]:
    return [{**NVLINK, "active": active, "errors": {"replay": 0} if errors is None else errors, **changes}]


HALVES: dict[str, Any] = {"mig": {"all": ["3g.20gb", "3g.20gb"]}}
MOMENT, NOW = ("moment",), {"time": "2026-02-01T10:00:00Z", "boot_id": "a", "uptime_s": 1000.0}
# The last moment at which it counts.
ASIDE = "strikes.json.damaged-2026-01-02T100000Z"
LOST: dict[str, Any] = {"cards": [], "slots": {}}
STRUCK = {
    **dict.fromkeys(("serial", "uuid", "name", "pci_id", "message"), "x"),
    **dict.fromkeys(("first", "last"), NOW["time"]),
    "boots_total": 1,
    "counts": {"gpu.sram": 1},
    "boots": [{"boot_id": "b", "time": NOW["time"], "ids": ["gpu.sram"]}],
}
ON = {(*SMI_GPU, "mig_mode"): "Enabled"}


NO_LIST: dict[Any, Any] = {("mig",): None}
NO_ANSWER: dict[Any, Any] = {("mig",): {"unreadable": "no answer"}}


def cut(*profiles: str, **changes: object) -> dict:
    """The card in MIG mode with these devices."""
    devices = [{"profile": name, "uuid": f"MIG-{at}"} for at, name in enumerate(profiles)]
    return {**ON, ("mig",): [{"uuid": V100["uuid"], "devices": devices, **changes}]}


# (check, {path in the readings: value}, {expectation: value}, status, words of the message)
ROWS = [
    ("gpu.dcgm_diag", {}, {}, SKIP, "verify_dcgm_level is 0"),
    ("gpu.dcgm_diag", diag("Pass", "Pass", "Skip"), ASKED, PASS, "level 2: 2 tests passed, 1 skipped by DCGM"),
    ("gpu.dcgm_diag", diag("Pass", "Fail", "Warn"), ASKED, FAIL, "level 2, Fail: memory: GPU 3: memory error"),
    ("gpu.dcgm_diag", diag("Pass", "Warn"), ASKED, WARN, "level 2, Warn: memory"),
    ("gpu.dcgm_diag", diag("Skip", "Skip"), ASKED, SKIP, "DCGM skipped all of 2 tests"),
    ("gpu.dcgm_diag", diag(because="dcgmi is not installed"), ASKED, SKIP, "dcgmi is not installed"),
    ("gpu.dcgm_diag", diag("Pass", "Isolated"), ASKED, UNKNOWN, "Isolated"),
    ("gpu.dcgm_diag", {}, ASKED, UNKNOWN, "was not run"),
    ("gpu.dcgm_diag", {("dcgm_diag",): {"unreadable": "no connection"}}, ASKED, UNKNOWN, "no connection"),
    ("gpu.plan", {}, {"plan_gpus": 0}, FAIL, "made for 0 of 1 GPUs, and this node has 1"),
    ("gpu.plan", {("probe", "gpus"): []}, {"plan_gpus": 0}, FAIL, "and this node has 0"),
    ("gpu.plan", {}, {"plan_gpus": 1}, PASS, "made for 1 GPUs"),
    ("gpu.plan", {}, {"gpu_count": 2}, PASS, "made for 2 GPUs"),
    ("gpu.plan", {}, {"gpu_count": 2, "plan_gpus": 1}, FAIL, "made for 1 of 2 GPUs"),
    ("gpu.plan", {}, {"driver.branch": ""}, FAIL, "made for 0 of 1 GPUs"),
    ("gpu.plan", {}, {"driver.branch": "", "plan_gpus": True}, FAIL, "made for 0 of 1 GPUs"),
    ("gpu.count", {("probe", "gpus"): []}, {}, FAIL, "0 of 1 expected"),
    ("gpu.count", {}, {"gpu_count": 2}, FAIL, "1 of 2 expected"),
    ("gpu.count", {}, {"gpu_count": 0}, WARN, "1 on the PCI bus of a node that should have no GPUs"),
    ("gpu.count", {("probe", "gpus", 0): SECOND}, {}, FAIL, "does not show 0000:5e:00.0"),
    ("gpu.count", {(*SMI, "gpus"): [V100] * 2}, {}, FAIL, "shows 2 of 1"),
    ("gpu.count", {SMI: DOWN}, {}, UNKNOWN, "driver cannot be queried"),
    ("gpu.model", {(*GPU, "name"): "Tesla T4"}, {}, FAIL, "Tesla T4 instead of Tesla V100"),
    ("gpu.model", {(*GPU, "name"): "unknown 10de:9999"}, {}, UNKNOWN, "no name for unknown 10de:9999"),
    ("gpu.model", {("probe", "gpus"): []}, {}, FAIL, "no GPU"),
    ("gpu.model", {}, {"gpu_model": ""}, SKIP, "names no model; this node has Tesla V100"),
    (
        "gpu.model",
        {("probe", "gpus"): [{"name": "Tesla T4"}, {"name": "Tesla V100-PCIE-16GB"}]},
        {"gpu_model": ""},
        FAIL,
        "different models",
    ),
    ("gpu.bound_driver", {(*GPU, "bound_driver"): None}, {}, FAIL, f"{PCI_ID} has none"),
    ("gpu.bound_driver", {(*GPU, "bound_driver"): "vfio-pci"}, {}, FAIL, "vfio-pci"),
    ("gpu.bound_driver", {(*GPU, "bound_driver"): "nouveau"}, {}, FAIL, "nouveau"),
    ("gpu.bound_driver", {("probe", "gpus"): []}, {}, UNKNOWN, "no GPU"),
    (
        "gpu.compute_mode",
        {(*HEALTH, "compute_mode"): "Prohibited"},
        {},
        FAIL,
        "0000:3b:00.0: compute mode is Prohibited",
    ),
    ("gpu.compute_mode", {SMI: DOWN}, {}, UNKNOWN, "driver cannot be queried"),
    ("gpu.known_card", UNLISTED, {}, WARN, "no row for 10de:2abc, which nvidia-smi calls NVIDIA B400"),
    ("gpu.known_card", UNLISTED, {}, WARN, "it is judged as a data-centre card"),
    (
        "gpu.known_card",
        {(*SMI_GPU, "device_id"): "2bf0", (*SMI_GPU, "name"): "NVIDIA GeForce RTX 5095"},
        {},
        WARN,
        "which nvidia-smi calls NVIDIA GeForce RTX 5095; it is judged as a consumer card",
    ),
    ("gpu.known_card", {(*SMI_GPU, "name"): "NVIDIA B400"}, {}, WARN, "no row for 10de:unknown, which"),
    ("gpu.known_card", {(*SMI_GPU, "device_id"): "2abc"}, {}, PASS, "what each card must have"),
    (
        "gpu.known_card",
        {(*SMI_GPU, "name"): "Graphics Device", (*SMI_GPU, "device_id"): "2184"},
        {},
        PASS,
        "what each card must have",
    ),
    ("gpu.known_card", {(*SMI_GPU, "device_id"): "2abc", (*SMI_GPU, "name"): "unknown"}, {}, UNKNOWN, "name reads"),
    (
        "gpu.strikes",
        {("strikes",): {"cards": [STRUCK], "slots": {}}, MOMENT: NOW},
        {},
        PASS,
        "no card failed in 3 boots",
    ),
    ("gpu.strikes", {("strikes",): {**LOST, "set_aside": ASIDE}, MOMENT: NOW}, {}, WARN, f"set aside as {ASIDE}"),
    (
        "gpu.strikes",
        {("strikes",): {**LOST, "set_aside": ASIDE.replace("-02T", "-01T")}, MOMENT: NOW},
        {},
        PASS,
        "no card",
    ),
    ("gpu.mig_mode", {(*SMI_GPU, "mig_mode"): "Enabled"}, {}, WARN, "MIG is Enabled"),
    ("gpu.mig_mode", {(*SMI_GPU, "mig_mode"): "Disabled"}, {}, PASS, "no card is cut"),
    ("gpu.mig_mode", cut("3g.20gb", "3g.20gb"), HALVES, PASS, "each card is cut as declared"),
    ("gpu.mig_mode", cut("3g.20gb", "3g.20gb"), {"mig": {"0": ["3g.20gb"] * 2}}, PASS, "as declared"),
    ("gpu.mig_mode", cut("1g.5gb", "3g.20gb"), {"mig": {"00000000:3b:00": ["3g.20gb", "1g.5gb"]}}, PASS, "as declared"),
    ("gpu.mig_mode", cut("3g.20gb"), HALVES, FAIL, "0000:3b:00.0: 3g.20gb; declared: 2 x 3g.20gb"),
    ("gpu.mig_mode", cut(), HALVES, FAIL, "no MIG device; declared: 2 x 3g.20gb"),
    ("gpu.mig_mode", cut("7g.40gb"), HALVES, FAIL, "7g.40gb; declared: 2 x 3g.20gb"),
    ("gpu.mig_mode", cut("1c.3g.20gb", "3g.20gb"), HALVES, FAIL, "1c.3g.20gb, 3g.20gb; declared"),
    ("gpu.mig_mode", cut("3g.20gb", "3g.20gb", "1g.5gb"), HALVES, FAIL, "1g.5gb, 2 x 3g.20gb; declared"),
    ("gpu.mig_mode", {(*SMI_GPU, "mig_mode"): "Disabled"}, HALVES, FAIL, "MIG is Disabled; declared"),
    ("gpu.mig_mode", {}, HALVES, FAIL, "the card has no MIG; declared"),
    ("gpu.mig_mode", {**cut("3g.20gb", "3g.20gb"), (*HEALTH, "mig_pending"): "Disabled"}, HALVES, WARN, "will be"),
    ("gpu.mig_mode", cut("3g.20gb"), {"mig": {"0": []}}, FAIL, "MIG is Enabled"),
    ("gpu.mig_mode", {(*SMI_GPU, "mig_mode"): "Disabled"}, {"mig": {"0": []}}, PASS, "as declared"),
    ("gpu.mig_mode", cut("3g.20gb"), {"mig": {"4": ["3g.20gb"]}}, FAIL, "names 4: no card here"),
    ("gpu.mig_mode", {**ON, **NO_LIST}, HALVES, UNKNOWN, "readings.mig"),
    ("gpu.mig_mode", cut("3g.20gb", uuid="GPU-other"), HALVES, UNKNOWN, "does not list"),
    ("gpu.mig_mode", {**ON, **NO_ANSWER}, HALVES, UNKNOWN, "no answer"),
    ("gpu.mig_mode", {SMI: DOWN}, HALVES, UNKNOWN, "driver cannot be queried"),
    ("gpu.ecc_pending", {(*HEALTH, "ecc_pending"): "Disabled"}, {}, WARN, "will be Disabled after a reboot"),
    ("gpu.ecc_pending", {SMI_GPU: GEFORCE}, {}, SKIP, "no ECC"),
    ("gpu.ecc_corrected", {(*HEALTH, "ecc_corrected_volatile"): 10000001}, {}, WARN, "10000001 corrected errors"),
    ("gpu.ecc_corrected", {(*HEALTH, "ecc_corrected_volatile"): 10000000}, {}, PASS, "few corrected"),
    ("gpu.ecc_corrected", {SMI_GPU: GEFORCE}, {}, SKIP, "no ECC"),
    ("gpu.sram", {(*HEALTH, "sram_uncorrected_aggregate"): 5}, {}, FAIL, "5 uncorrected errors"),
    ("gpu.sram", {(*HEALTH, "sram_uncorrected_aggregate"): 4}, {}, PASS, "few errors"),
    (
        "gpu.sram",
        {(*HEALTH, "sram_uncorrected_aggregate"): 0, (*HEALTH, "sram_threshold_exceeded"): True},
        {},
        FAIL,
        "lim",
    ),
    ("gpu.sram", {}, {}, SKIP, "does not count"),
    ("gpu.retired_pages_count", {(*HEALTH, "retired_pages_single_bit"): 60}, {}, FAIL, "60 pages retired"),
    ("gpu.retired_pages_count", {(*HEALTH, "retired_pages_single_bit"): 59}, {}, PASS, "enough spare"),
    ("gpu.retired_pages_count", {(*HEALTH, "retired_pages_double_bit"): 16}, {}, WARN, "16 of them"),
    ("gpu.retired_pages_count", {(*HEALTH, "retired_pages_double_bit"): 15}, {}, PASS, "enough spare"),
    ("gpu.retired_pages_count", {SMI_GPU: A100}, {}, SKIP, "does not retire pages"),
    ("gpu.remapped_rows_count", {(*HEALTH, "remapped_rows_uncorrected"): 512}, {}, FAIL, "512 rows"),
    ("gpu.remapped_rows_count", {(*HEALTH, "remapped_rows_uncorrected"): 511}, {}, WARN, "511 rows"),
    ("gpu.remapped_rows_count", {(*HEALTH, "remapped_rows_uncorrected"): 0}, {}, PASS, "no row"),
    ("gpu.remapped_rows_count", {}, {}, SKIP, "does not remap rows"),
    ("gpu.recovery_action", {(*SMI_GPU, "recovery_action"): "gpu reset"}, {}, FAIL, "asks for: gpu reset"),
    ("gpu.recovery_action", {(*SMI_GPU, "recovery_action"): None}, {}, SKIP, "too old"),
    (
        "gpu.recovery_action",
        {(*SMI, "gpus"): [V100, {**V100, "pci_id": "0000:5e:00.0", "recovery_action": None}]},
        {},
        UNKNOWN,
        "but not of 0000:5e:00.0",
    ),
    ("gpu.throttle", {(*SMI_GPU, "throttle_reasons"): ["hw_thermal_slowdown"]}, {}, FAIL, "by hw_thermal_slowdown"),
    ("gpu.throttle", {(*SMI_GPU, "throttle_reasons"): ["hw_slowdown"]}, {}, FAIL, "by hw_slowdown"),
    ("gpu.throttle", {(*SMI_GPU, "throttle_reasons"): ["hw_power_brake_slowdown"]}, {}, FAIL, "power_brake"),
    ("gpu.throttle", {(*SMI_GPU, "throttle_reasons"): ["sw_thermal_slowdown"]}, {}, FAIL, "sw_thermal"),
    ("gpu.throttle", {(*SMI_GPU, "throttle_reasons"): ["gpu_idle", "sw_power_cap"]}, {}, PASS, "neither"),
    ("gpu.temperature", {(*SMI_GPU, "temperature_c"): 87}, {}, FAIL, "87 C, 0 C below"),
    ("gpu.temperature", {(*SMI_GPU, "temperature_c"): 82}, {}, WARN, "82 C, 5 C below"),
    ("gpu.temperature", {(*SMI_GPU, "temperature_c"): 81}, {}, PASS, "below the temperature"),
    ("gpu.temperature", {(*HEALTH, "temperature_slowdown_c"): None}, {}, SKIP, "reports no limit"),
    (
        "gpu.temperature",
        {(*HEALTH, "temperature_slowdown_c"): None, (*HEALTH, "temperature_margin_c"): 3},
        {},
        WARN,
        "3 C below",
    ),
    ("gpu.power_limit", {(*SMI_GPU, "power_limit_w"): 200.0}, {}, WARN, "limited to 200 W; its default is 250 W"),
    ("gpu.power_limit", {(*SMI_GPU, "power_limit_w"): 251.0}, {}, PASS, "own limit"),
    ("gpu.power_limit", {(*SMI_GPU, "power_limit_w"): 251.5}, {}, WARN, "251.5 W"),
    ("gpu.power_limit", {(*HEALTH, "power_default_w"): None}, {}, SKIP, "no power limit"),
    ("gpu.power_limit", {(*SMI_GPU, "power_limit_w"): 200.0, TUNING: TUNED_POWER}, {}, PASS, "200 W, as set in"),
    ("gpu.power_limit", {(*SMI_GPU, "power_limit_w"): 201.0, TUNING: TUNED_POWER}, {}, PASS, "200 W, as set in"),
    ("gpu.power_limit", {(*SMI_GPU, "power_limit_w"): 201.5, TUNING: TUNED_POWER}, {}, WARN, "tuning is set to 200 W"),
    ("gpu.power_limit", {TUNING: TUNED_POWER}, {}, WARN, "limited to 250 W, system_tuning is set to 200 W"),
    ("gpu.power_limit", {("tuning",): None}, {}, PASS, "own limit"),
    ("gpu.power_limit", {("tuning",): {"unreadable": "not JSON"}}, {}, UNKNOWN, "not JSON"),
    ("gpu.power_limit", {TUNING: {**TUNED_POWER, "wanted": "low"}}, {}, UNKNOWN, "not a number of watts"),
    ("gpu.power_limit", {(*SMI_GPU, "power_limit_w"): None, TUNING: TUNED_POWER}, {}, UNKNOWN, "power_limit_w"),
    ("gpu.link_width", {(*HEALTH, "link_width_now"): 8}, {}, FAIL, "8 of 16 lanes"),
    ("gpu.link_width", {(*HEALTH, "link_width_now"): 0}, {}, FAIL, "0 of 16 lanes"),
    ("gpu.bar1", {(*HEALTH, "bar1_total_mib"): 0}, {}, FAIL, "0 MiB"),
    ("gpu.idle_memory", {(*SMI_GPU, "memory_used_mib"): 101}, {}, WARN, "101 MiB in use"),
    ("gpu.idle_memory", {(*SMI_GPU, "memory_used_mib"): 100}, {}, PASS, "empty"),
    ("gpu.idle_memory", {(*SMI_GPU, "processes"): [PROCESS]}, {}, SKIP, "in use by 1 program"),
    ("gpu.graphics", {(*SMI_GPU, "processes"): [{**PROCESS, "type": "C+G"}]}, {}, WARN, "python3"),
    (
        "gpu.graphics",
        {(*SMI_GPU, "processes"): [{**PROCESS, "type": "G", "name": "unknown"}]},
        {},
        WARN,
        "without a name",
    ),
    ("gpu.graphics", {(*SMI_GPU, "processes"): [{**PROCESS, "type": "unknown"}]}, {}, UNKNOWN, "type"),
    ("gpu.graphics", {(*SMI_GPU, "processes"): [PROCESS]}, {}, PASS, "no graphics"),
    (
        "gpu.fabric",
        {(*HEALTH, "fabric_state"): "In Progress", (*HEALTH, "fabric_status"): "Success"},
        {},
        FAIL,
        "In Pr",
    ),
    ("gpu.fabric", {(*HEALTH, "fabric_state"): "Completed", (*HEALTH, "fabric_status"): "Failed"}, {}, FAIL, "Failed"),
    ("gpu.fabric", {}, {}, SKIP, "no fabric"),
    (
        "gpu.identity",
        {(*SMI, "gpus"): [V100] * 2},
        {},
        FAIL,
        "2 cards have 1",
    ),
    ("gpu.vbios", {(*SMI, "gpus"): ONE_BUILD}, {}, PASS, "88.00.48.00.02, 88.00.48.00.03"),
    ("gpu.vbios", {(*SMI, "gpus"): TWO_FIRMWARES}, {}, WARN, "different firmware on cards of Tesla V100-PCIE-16GB"),
    ("gpu.inforom", {(*SMI, "warnings"): ["WARNING: infoROM is corrupted at gpu 0000:3B:00.0"]}, {}, FAIL, "infoROM"),
    ("gpu.numa", {(*GPU, "numa_node"): -1}, {}, WARN, "0000:3b:00.0 says -1"),
    ("gpu.numa", {(*GPU, "numa_node"): 7}, {}, WARN, "0000:3b:00.0 says 7"),
    ("gpu.numa", {(*GPU, "numa_node"): -1, ("probe", "numa"): {"0": {"cpus": "0-3"}}}, {}, PASS, "1 NUMA nodes"),
    ("gpu.numa", {(*GPU, "numa_node"): 1, ("probe", "numa"): {"0": {"cpus": "0-3"}}}, {}, WARN, "says 1"),
    ("gpu.numa", {(*GPU, "numa_node"): "x"}, {}, UNKNOWN, "reads 'x'"),
    ("gpu.numa", {("probe", "gpus"): []}, {}, UNKNOWN, "no NUMA node or no GPU"),
    ("gpu.numa", {("probe", "numa"): {}}, {}, UNKNOWN, "no NUMA node or no GPU"),
    ("gpu.nvlink", {LINKS: link(11)}, {}, FAIL, "11 of 12 links are up"),
    ("gpu.nvlink", {LINKS: link(0)}, {}, FAIL, "0 of 12 links are up"),
    ("gpu.nvlink", {LINKS: link(0, wired=False)}, {}, SKIP, "no bridge: GPU 0"),
    ("gpu.nvlink", {LINKS: link(0, links=0, wired=False)}, {}, SKIP, "0 of 0"),
    ("gpu.nvlink", {LINKS: link(0, links=0)}, {}, FAIL, "0 of 0"),
    ("gpu.nvlink", {LINKS: link(3, links=4, wired=False)}, {}, FAIL, "3 of 4"),
    ("gpu.nvlink", {LINKS: link(4, links=6, name="Tesla V100-SXM2-16GB")}, {}, WARN, "4 of 6"),
    ("gpu.nvlink", {LINKS: link(0, links=6, name="Tesla V100-SXM2-16GB")}, {}, FAIL, "0 of 6"),
    ("gpu.nvlink", {LINKS: link(0, wired=False) + link(12, index=1)}, {}, SKIP, "no bridge"),
    ("gpu.nvlink", {LINKS: link(12) + link(12, index=1)}, {}, PASS, "2 cards"),
    ("gpu.nvlink", {LINKS: []}, {}, UNKNOWN, "lists no card"),
    ("gpu.nvlink", {LINKS: {"unreadable": "exit status 9"}}, {}, UNKNOWN, "exit status 9"),
    ("gpu.nvlink", {}, {}, SKIP, "no card of this node has NVLink"),
    ("gpu.nvlink_errors", {LINKS: link(12, {"replay": 0, "crc flit": 5})}, {}, WARN, "GPU 0: 5 crc flit"),
    ("gpu.nvlink_errors", {LINKS: link(12, {})}, {}, UNKNOWN, "says nothing about 1 cards"),
    ("gpu.nvlink_errors", {LINKS: link(12) + link(12, {}, index=1)}, {}, UNKNOWN, "nothing about 1 cards"),
    ("gpu.nvlink_errors", {LINKS: link(0, {})}, {}, SKIP, "no NVLink is up"),
    ("gpu.nvlink_errors", {LINKS: link(12)}, {}, PASS, "no error on 1 cards"),
    ("gpu.nvlink_errors", {}, {}, SKIP, "no card of this node has NVLink"),
    ("gpu.topology", {WAYS: [["X", "X"], ["SYS", "X"]]}, {"gpu_count": 2}, FAIL, "no path from GPU0 to GPU1"),
    ("gpu.topology", {WAYS: [["X", "SYS"], ["SYS", "X"]]}, {"gpu_count": 2}, PASS, "2 GPUs, connected by SYS"),
    ("gpu.topology", {WAYS: [["X", "SYS"], ["SYS", "X"]]}, {"gpu_count": 3}, FAIL, "shows 2 of 3"),
    ("gpu.topology", {WAYS: {"unreadable": "cannot be parsed"}}, {}, UNKNOWN, "cannot be parsed"),
    ("gpu.topology", {}, {}, SKIP, "one GPU"),
]
