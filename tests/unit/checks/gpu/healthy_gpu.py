"""What the readings say of the GPUs where every check passes."""

from __future__ import annotations

from typing import Any

from node_names import BRIDGE, PCI_ID, Changes

NVLINK = {"index": 0, "name": "NVIDIA A100-SXM4-80GB", "wired": True, "links": 12, "active": 12}

TWO_APART: list[dict[str, Any]] = [
    {"pci_id": PCI_ID, "iommu": "identity", "bridges": [{"pci_id": BRIDGE, "acs": "off"}]},
    {"pci_id": "0000:5e:00.0", "iommu": "off", "bridges": [{"pci_id": "0000:5d:00.0", "acs": "absent"}]},
]

HEALTH = ("nvidia_smi", "gpus", 0, "health")

IN_FABRIC = {
    (*HEALTH, "fabric_state"): "Completed",
    (*HEALTH, "fabric_status"): "Success",
    (*HEALTH, "fabric_clique"): "0",
    (*HEALTH, "fabric_cluster"): "00000000-0000-0000-0000-000000000001",
}

READINGS: dict[str, Any] = {
    "dcgm_diag": None,
    "nvidia_smi": {
        "reachable": True,
        "rc": 0,
        "status": "ok",
        "message": "1 GPU",
        "action": "",
        "driver_version": "580.95.05",
        "cuda_version": "13.0",
        "gpus": [
            {
                "name": "Tesla V100-PCIE-16GB",
                "pci_id": PCI_ID,
                "architecture": "volta",
                "persistence_mode": "Enabled",
                "ecc_mode": "Enabled",
                "mig_mode": None,
                "ecc_uncorrected_volatile": 0,
                "retired_pages_pending": False,
                "remapped_rows_pending": None,
                "remapped_rows_failure": None,
                "uuid": "GPU-00000000-1111-2222-3333-000000000001",
                "lost": False,
                "memory_total_mib": 16384,
                "memory_used_mib": 0,
                "temperature_c": 34,
                "power_draw_w": 25.01,
                "power_limit_w": 250.0,
                "recovery_action": "none",
                "throttle_reasons": ["gpu_idle"],
                "processes": [],
                "health": {
                    "vbios": "88.00.48.00.02",
                    "compute_mode": "Default",
                    "ecc_pending": "Enabled",
                    "ecc_corrected_volatile": 0,
                    "sram_uncorrected_aggregate": None,
                    "sram_threshold_exceeded": None,
                    "retired_pages_single_bit": 0,
                    "retired_pages_double_bit": 0,
                    "remapped_rows_uncorrected": None,
                    "temperature_slowdown_c": 87,
                    "temperature_margin_c": None,
                    "power_default_w": 250.0,
                    "utilization_percent": 0,
                    "link_width_now": 16,
                    "link_width_max": 16,
                    "pcie_replays": 0,
                    "bar1_total_mib": 16384,
                    "fabric_state": None,
                    "fabric_status": None,
                    "performance_state": "P0",
                    "clocks_applied": "877,1245",
                    "clocks_default": "877,1245",
                    "unrepairable_memory": None,
                    "gsp_firmware": None,
                    "inforom_image": "G500.0200.00.03",
                    "virtualization": "None",
                    "vgpu_license": None,
                    "addressing_mode": "HMM",
                    "c2c_mode": None,
                    "mig_pending": None,
                    "mig_uncorrected_volatile": None,
                    "sram_uncorrected_sources": None,
                    "dram_uncorrected_aggregate": 0,
                    "channel_repair_pending": None,
                    "tpc_repair_pending": None,
                    "remapped_rows_corrected": None,
                    "spare_rows_low": None,
                    "spare_rows_none": None,
                    "temperature_memory_c": 33,
                    "temperature_memory_max_c": None,
                    "fan_speed": None,
                    "module_power_default_w": None,
                    "module_power_limit_w": None,
                    "throttled_by_heat_us": 0,
                    "throttled_by_brake_us": 0,
                    "link_gen_now": 3,
                    "link_gen_max": 3,
                    "link_gen_card": 3,
                    "link_gen_host": 3,
                    "pcie_replay_rollovers": 0,
                    "fabric_clique": None,
                    "fabric_cluster": None,
                    "fabric_summary": None,
                    "fabric_bandwidth": None,
                    "fabric_route_recovery": None,
                    "fabric_route_unhealthy": None,
                    "fabric_access_timeout": None,
                    "fabric_configuration": None,
                    "fabric_partition": None,
                },
            }
        ],
        "warnings": [],
    },
    "nvlink": None,
    "gpu_ways": None,
    "mig": None,
    "machine": "none",
    "isolation": [{"pci_id": PCI_ID, "iommu": "identity", "bridges": [{"pci_id": BRIDGE, "acs": "off"}]}],
    "strikes": {"cards": [], "slots": {}},
}
# Checks that make sense on other nodes only, and what makes this one such a node.
OTHER_NODES: dict[str, Changes] = {
    "gpu.sram": {("nvidia_smi", "gpus", 0, "health", "sram_uncorrected_aggregate"): 0},
    "gpu.remapped_rows_count": {("nvidia_smi", "gpus", 0, "health", "remapped_rows_uncorrected"): 0},
    "gpu.dcgm_diag": {
        ("expectations", "dcgm_level"): 2,
        ("dcgm_diag",): {"level": 2, "because": "", "tests": [{"name": "memory", "status": "Pass", "words": ""}]},
    },
    "gpu.fabric": IN_FABRIC,
    "gpu.fabric_domain": IN_FABRIC,
    "gpu.channel_repair": {(*HEALTH, "channel_repair_pending"): False},
    "gpu.tpc_repair": {(*HEALTH, "tpc_repair_pending"): False},
    "gpu.spare_rows": {(*HEALTH, "spare_rows_none"): 0, (*HEALTH, "spare_rows_low"): 0},
    "gpu.mig_errors": {(*HEALTH, "mig_uncorrected_volatile"): 0},
    "gpu.vgpu_license": {(*HEALTH, "virtualization"): "VGPU", (*HEALTH, "vgpu_license"): "Licensed"},
    "gpu.fan": {(*HEALTH, "fan_speed"): 0},
    "gpu.module_power": {(*HEALTH, "module_power_limit_w"): 2500.0, (*HEALTH, "module_power_default_w"): 2500.0},
    "gpu.c2c": {("nvidia_smi", "gpus", 0, "name"): "NVIDIA GB200", (*HEALTH, "c2c_mode"): "Enabled"},
    "gpu.addressing_mode": {("nvidia_smi", "gpus", 0, "name"): "NVIDIA GB200", (*HEALTH, "addressing_mode"): "ATS"},
    "gpu.gsp_firmware": {(*HEALTH, "gsp_firmware"): "580.95.05"},
    "gpu.iommu": {("isolation",): TWO_APART, ("expectations", "gpu_count"): 2},
    "gpu.acs": {("isolation",): TWO_APART, ("expectations", "gpu_count"): 2},
    "gpu.nvlink": {("nvlink",): [{**NVLINK, "errors": {"replay": 0}}]},
    "gpu.nvlink_errors": {("nvlink",): [{**NVLINK, "errors": {"replay": 0}}]},
    "gpu.topology": {("gpu_ways",): [["X", "NV12"], ["NV12", "X"]], ("expectations", "gpu_count"): 2},
    **{
        f"gpu.{name}": {(*HEALTH, name): value}
        for name, value in (
            ("fabric_summary", "Healthy"),
            ("fabric_bandwidth", "Full"),
            ("fabric_route_unhealthy", False),
            ("fabric_route_recovery", False),
            ("fabric_access_timeout", False),
            ("fabric_configuration", "None"),
            ("fabric_partition", True),
            ("unrepairable_memory", False),
        )
    },
}
