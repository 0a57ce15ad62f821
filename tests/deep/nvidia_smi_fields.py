"""What judges each leaf of nvidia-smi's answer about a GPU, how hardware breaks it, and what is left alone and why.

Paths are those below an element `gpu`, as patterns of fnmatch. docs/nvidia-smi-fields.md is written from this file.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

# In the place of any value that could not be read; the first two are for a field alone, the others for a whole card.
UNREADABLE = ("ERR!", "[Unknown Error]")
CARD_WORDS = ("[GPU requires reset]", "GPU is lost")
ABSENT = "N/A"
HIGH = "999999"


class Judged(NamedTuple):
    """`checks` of which one must notice; `broken` values as hardware leaves them; `needed`: N/A is a failed reading."""

    checks: tuple[str, ...]
    broken: tuple[str, ...] = ()
    needed: bool = False


def judged(*checks: str, broken: tuple[str, ...] = (), needed: bool = False) -> Judged:
    return Judged(checks, broken, needed)


YES = ("Yes", "Pending")
TRUE = ("True", "Yes")
ACTIVE = ("Active",)
JUDGED: dict[str, Judged] = {
    "product_name": judged("gpu.idle_memory", "gpu.vbios", "gpu.c2c", "gpu.performance_state", "driver.ecc"),
    "uuid": judged("gpu.identity", broken=("", "GPU-1"), needed=True),
    "vbios_version": judged("gpu.vbios", broken=("",), needed=True),
    "persistence_mode": judged("driver.persistence", broken=("Disabled",), needed=True),
    "compute_mode": judged("gpu.compute_mode", broken=("Prohibited", "Exclusive_Process"), needed=True),
    "addressing_mode": judged("gpu.addressing_mode"),
    "c2c_mode": judged("gpu.c2c"),
    "mig_mode/current_mig": judged("gpu.mig_mode", "driver.retired_pages", "driver.ecc", broken=("Enabled",)),
    "mig_mode/pending_mig": judged("gpu.mig_mode"),
    "mig_devices/mig_device/ecc_error_count/*": judged("gpu.mig_errors", broken=("1",)),
    "inforom_version/img_version": judged("gpu.inforom", broken=("",)),
    "gpu_reset_status/*": judged("gpu.recovery_action", "driver.reachable", broken=("Yes",)),
    "gpu_recovery_action": judged(
        "gpu.recovery_action", broken=("Reset", "Reboot", "Drain P2P", "Drain and Reset", "GPU Reset")
    ),
    "vgpu_software_licensed_product/license_status": judged("gpu.vgpu_license", broken=("Unlicensed (Restricted)",)),
    "gsp_firmware_version": judged("gpu.gsp_firmware", broken=("1.2.3",)),
    "pci/pci_gpu_link_info/pcie_gen/max_link_gen": judged("gpu.link_generation", "gpu.link_limit", broken=()),
    "pci/pci_gpu_link_info/pcie_gen/current_link_gen": judged("gpu.link_generation", broken=("1", "0"), needed=True),
    "pci/pci_gpu_link_info/pcie_gen/max_device_link_gen": judged("gpu.link_limit"),
    "pci/pci_gpu_link_info/pcie_gen/max_host_link_gen": judged("gpu.link_limit"),
    "pci/pci_gpu_link_info/link_widths/max_link_width": judged("gpu.link_width", broken=("8x", "0x"), needed=True),
    "pci/pci_gpu_link_info/link_widths/current_link_width": judged(
        "gpu.link_width", broken=("8x", "1x", "0x"), needed=True
    ),
    "pci/replay_counter": judged("gpu.pcie_replays", broken=(HIGH,), needed=True),
    "pci/replay_rollover_counter": judged("gpu.pcie_replays", broken=("1",), needed=True),
    "fan_speed": judged("gpu.fan"),
    "performance_state": judged("gpu.performance_state"),
    "clocks_*_reasons/*_hw_slowdown": judged("gpu.throttle", broken=ACTIVE),
    "clocks_*_reasons/*_hw_thermal_slowdown": judged("gpu.throttle", broken=ACTIVE),
    "clocks_*_reasons/*_hw_power_brake_slowdown": judged("gpu.throttle", broken=ACTIVE),
    "clocks_*_reasons/*_sw_thermal_slowdown": judged("gpu.throttle", broken=ACTIVE),
    # No faults when active, but unreadable ones leave open what holds the clocks down.
    "clocks_*_reasons/*": judged("gpu.throttle"),
    "clocks_event_reasons_counters/*_hw_therm_slowdown": judged("gpu.throttle_history", broken=("7200000000 us",)),
    "clocks_event_reasons_counters/*_hw_power_brake": judged("gpu.throttle_history", broken=("7200000000 us",)),
    "fb_memory_usage/total": judged("gpu.memory_size", broken=("0 MiB", "512 MiB"), needed=True),
    "fb_memory_usage/used": judged("gpu.idle_memory", broken=("900 MiB",), needed=True),
    "bar1_memory_usage/total": judged("gpu.bar1", broken=("0 MiB", "256 MiB"), needed=True),
    "ecc_mode/current_ecc": judged("driver.ecc", "gpu.ecc_pending", broken=("Disabled",)),
    "ecc_mode/pending_ecc": judged("gpu.ecc_pending", broken=("Disabled",)),
    "ecc_errors/volatile/[sd]ram_uncorrectable*": judged("driver.ecc", broken=("1", HIGH)),
    "ecc_errors/volatile/[sd]ram_correctable": judged("gpu.ecc_corrected", broken=("99999999",)),
    "ecc_errors/volatile/double_bit/total": judged("driver.ecc", broken=("1", HIGH)),
    "ecc_errors/volatile/single_bit/total": judged("gpu.ecc_corrected", broken=("99999999",)),
    "ecc_errors/aggregate/dram_uncorrectable": judged("gpu.dram_uncorrected", broken=("1", HIGH)),
    "ecc_errors/aggregate/double_bit/total": judged("gpu.dram_uncorrected", broken=("1", HIGH)),
    "ecc_errors/aggregate/sram_uncorrectable*": judged("gpu.sram", broken=("5", HIGH)),
    "ecc_errors/aggregate/sram_threshold_exceeded": judged("gpu.sram", broken=YES),
    "ecc_errors/aggregate_uncorrectable_sram_sources/*": judged("gpu.sram", broken=("5", HIGH)),
    "ecc_errors/channel_repair_pending": judged("gpu.channel_repair", broken=YES),
    "ecc_errors/tpc_repair_pending": judged("gpu.tpc_repair", broken=YES),
    "ecc_errors/unrepairable_memory": judged("gpu.unrepairable_memory", broken=YES),
    "retired_pages/multiple_single_bit_retirement/retired_count": judged("gpu.retired_pages_count", broken=("60",)),
    "retired_pages/double_bit_retirement/retired_count": judged("gpu.retired_pages_count", broken=("16", "60")),
    "retired_pages/pending_retirement": judged("driver.retired_pages", broken=YES),
    "retired_pages/pending_blacklist": judged("driver.retired_pages", broken=YES),
    "remapped_rows/remapped_row_corr": judged("gpu.remapped_rows_count", broken=("512",)),
    "remapped_rows/remapped_row_unc": judged("gpu.remapped_rows_count", broken=("1", "512")),
    "remapped_rows/remapped_row_pending": judged("driver.retired_pages", broken=YES, needed=True),
    "remapped_rows/remapped_row_failure": judged("driver.retired_pages", broken=YES, needed=True),
    "remapped_rows/row_remapper_histogram/*_low": judged("gpu.spare_rows", broken=("1 bank(s)",)),
    "remapped_rows/row_remapper_histogram/*_none": judged("gpu.spare_rows", broken=("1 bank(s)", "640 bank(s)")),
    "temperature/gpu_temp": judged("gpu.temperature", needed=True),
    "temperature/gpu_temp_tlimit": judged("gpu.temperature", broken=("0 C", "-3 C", "4 C")),
    "temperature/gpu_temp_slow_threshold": judged("gpu.temperature", broken=("30 C",)),
    "temperature/memory_temp": judged("gpu.memory_temperature", broken=("95 C", "105 C", "93 C")),
    "temperature/gpu_temp_max_mem_threshold": judged("gpu.memory_temperature", broken=("30 C",)),
    "*power_readings/instant_power_draw": judged("gpu.power_draw", broken=("0.00 W", "9999.00 W")),
    "*power_readings/average_power_draw": judged("gpu.power_draw"),
    "*power_readings/power_draw": judged("gpu.power_draw", broken=("0.00 W", "9999.00 W"), needed=True),
    "*power_readings/*current_power_limit": judged("gpu.power_limit", "gpu.module_power", broken=("60.00 W",)),
    "*power_readings/*default_power_limit": judged("gpu.power_limit", "gpu.module_power", broken=("9999.00 W",)),
    "power_readings/power_limit": judged("gpu.power_limit", broken=("60.00 W",)),
    "power_readings/enforced_power_limit": judged("gpu.power_limit"),
    "applications_clocks/*_clock": judged("gpu.clocks", broken=("135 MHz",)),
    "default_applications_clocks/*_clock": judged("gpu.clocks", broken=("9999 MHz",)),
    "fabric/state": judged("gpu.fabric", broken=("In Progress", "Not Started")),
    "fabric/status": judged("gpu.fabric", broken=("Failed", "Unknown")),
    "fabric/cliqueId": judged("gpu.fabric_domain", broken=("9",)),
    "fabric/clusterUuid": judged("gpu.fabric_domain", broken=("0000000a-0000-0000-0000-00000000000a",)),
    "fabric/health/summary": judged("gpu.fabric_summary", broken=("Unhealthy", "Limited Capacity", "Degraded")),
    "fabric/health/bandwidth": judged("gpu.fabric_bandwidth", broken=("Degraded",)),
    "fabric/health/route_recovery_in_progress": judged("gpu.fabric_route_recovery", broken=TRUE),
    "fabric/health/route_unhealthy": judged("gpu.fabric_route_unhealthy", broken=TRUE),
    "fabric/health/access_timeout_recovery": judged("gpu.fabric_access_timeout", broken=TRUE),
    "fabric/health/incorrect_configuration": judged(
        "gpu.fabric_configuration", broken=("Incorrect SysGUID", "Incorrect Chassis SN", "True")
    ),
    "fabric/health/partition_assigned": judged("gpu.fabric_partition", broken=("False", "No")),
    "processes/process_info/type": judged("gpu.graphics", broken=("G", "C+G")),
    "processes/process_info/process_name": judged("gpu.graphics"),
}

IDENTITY = "who or where the card is; the host's own view of the PCI bus is compared instead (gpu.count, gpu.model)"
SETTING = "a setting of the site that harms no training"
LOAD = "what the card does at this moment, no sign of health"
RANGE = "the range of a setting, not a reading"
WINDOWS = "of Windows or of displays only"
SPEED = "depends on the load; the speed itself is measured at level deep (performance.*)"
CORRECTED = "errors that ECC corrected over the card's life; those since the driver was loaded are judged"
PART = "a part of a total that is judged"
NOT_JUDGED: dict[str, str] = {
    "product_brand": IDENTITY,
    "product_architecture": IDENTITY,
    "serial": IDENTITY,
    "minor_number": IDENTITY,
    "multigpu_board": IDENTITY,
    "board_id": IDENTITY,
    "board_part_number": IDENTITY,
    "gpu_part_number": IDENTITY,
    "gpu_fru_part_number": IDENTITY,
    "gpu_module_id": IDENTITY,
    "pdi": IDENTITY,
    "platformInfo/*": "where the card sits in its rack; what a wrong place does is the fabric's health",
    "display_*": WINDOWS,
    "driver_model/*": WINDOWS,
    "gpu_operation_mode/*": WINDOWS,
    "accounting_mode*": SETTING,
    "accounted_processes": LOAD,
    "inforom_version/oem_object": "versions of single InfoROM objects; a corrupted InfoROM is warned of beside the XML",
    "inforom_version/ecc_object": "versions of single InfoROM objects; a corrupted InfoROM is warned of beside the XML",
    "inforom_version/pwr_object": "versions of single InfoROM objects; a corrupted InfoROM is warned of beside the XML",
    "inforom_bbx_flush/*": "when the card last wrote its flight recorder",
    "inforom_time_data/*": "how long the card has run in its life",
    "gpu_virtualization_mode/*": "decides which N/A is believed and how lanes are judged; each mode is lawful",
    "vgpu_software_licensed_product/licensed_product_name": "which licence; whether there is one is judged",
    "ibmnpu/*": "of POWER hosts only",
    "mig_devices": "no slice",
    "mig_devices/mig_device/*": "size and number of a slice; its errors are judged",
    "pci/pci_bus": IDENTITY,
    "pci/pci_device": IDENTITY,
    "pci/pci_domain": IDENTITY,
    "pci/pci_base_class": IDENTITY,
    "pci/pci_sub_class": IDENTITY,
    "pci/pci_device_id": IDENTITY,
    "pci/pci_bus_id": IDENTITY,
    "pci/pci_sub_system_id": IDENTITY,
    "pci/pci_gpu_link_info/pcie_gen/device_current_link_gen": "the same as current_link_gen, seen from the card",
    "pci/pci_bridge_chip/*": "of boards with two GPUs",
    "pci/tx_util": LOAD,
    "pci/rx_util": LOAD,
    "pci/atomic_caps_*": "what the host's bridges can do",
    "clocks_event_reasons_counters/*": "count on healthy cards under load; gpu.throttle judges heat while it lasts",
    "sparse_operation_mode": SETTING,
    "fb_memory_usage/reserved": "what driver and firmware keep; total and used are judged",
    "fb_memory_usage/free": "total less used, which are judged",
    "bar1_memory_usage/used": LOAD,
    "bar1_memory_usage/free": LOAD,
    "cc_protected_memory_usage/*": SETTING,
    "utilization/*": LOAD,
    "encoder_stats/*": LOAD,
    "fbc_stats/*": LOAD,
    "dram_encryption_mode/*": SETTING,
    "ecc_errors/aggregate/*_correctable": CORRECTED,
    "ecc_errors/aggregate/single_bit/total": CORRECTED,
    "ecc_errors/*/*_bit/*": PART,
    "retired_pages/*/retired_pagelist": "which pages; how many is judged",
    "remapped_rows/*_inactive": "rows whose remapping is not active; no public source says what they ask for",
    "remapped_rows/row_remapper_histogram": "the card does not tell",
    "remapped_rows/row_remapper_histogram/*": "banks with most of their spare rows; those with few or none are judged",
    "remapped_rows": "the card does not remap rows, or not in this mode",
    "temperature/gpu_temp_max_threshold": "where the card switches itself off; the lower slowdown limit is judged",
    "temperature/gpu_temp_max_gpu_threshold": "where the driver begins to care, which gpu.throttle judges",
    "temperature/gpu_target_temperature": "a setting; what a low one costs shows as a slowdown by heat (gpu.throttle)",
    "temperature/*_tlimit_threshold": RANGE,
    "supported_gpu_target_temp/*": RANGE,
    "*power_readings/power_state": "the performance state once more (gpu.performance_state)",
    "power_readings/power_management": "whether the card measures power; its readings are judged",
    "*power_readings/requested_power_limit": "what was asked for; what is in force is judged",
    "*power_readings/*/requested_power_limit": "what was asked for; what is in force is judged",
    "*power_readings/min_power_limit": RANGE,
    "*power_readings/max_power_limit": RANGE,
    "gpu_power_readings/gpu_base_power/*": SETTING,
    "gpu_memory_power_readings/*": "a part of the card's power draw, which is judged",
    "module_power_readings/*_power_draw": "the GPU's own power draw is judged",
    "module_power_readings/power_draw": "the GPU's own power draw is judged",
    "power_smoothing": SETTING,
    "power_smoothing/*": SETTING,
    "power_profiles/*": SETTING,
    "edpp_multiplier": SETTING,
    "clocks/*": SPEED,
    "deferred_clocks/*": SETTING,
    "max_clocks/*": RANGE,
    "max_customer_boost_clocks/*": RANGE,
    "clock_policy/*": SETTING,
    "voltage/*": LOAD,
    "supported_clocks": RANGE,
    "supported_clocks/*": RANGE,
    "processes": "no program",
    "processes/process_info/*": LOAD,
    "capabilities/*": "what the card can do",
}
# Read before JUDGED, whose patterns are wider.
NOT_JUDGED_FIRST = (
    "gpu_memory_power_readings/*",
    "module_power_readings/*_power_draw",
    "module_power_readings/power_draw",
)


def rule_of(path: str) -> Judged | None:
    """What judges this leaf, None for one that is left alone; KeyError when neither table knows it."""
    if not any(fnmatchcase(path, pattern) for pattern in NOT_JUDGED_FIRST):
        for pattern, rule in JUDGED.items():
            if fnmatchcase(path, pattern):
                return rule
    reason_of(path)
    return None


def reason_of(path: str) -> str:
    """Why a leaf is left alone."""
    for pattern, reason in NOT_JUDGED.items():
        if fnmatchcase(path, pattern):
            return reason
    raise KeyError(f"{path} is neither judged nor left alone with a reason")


def page() -> str:
    """docs/nvidia-smi-fields.md."""
    lines = [
        "# Fields of nvidia-smi's answer",
        "",
        "Written by `make docs` from `tests/deep/nvidia_smi_fields.py`. `make test-deep` breaks every field of healthy",
        "answers as hardware does, and one of the checks named here must notice. Paths are those below `gpu` in",
        "`nvidia-smi -q -x`; `*` stands for any part, the first row that fits counts. In any field of a card",
        "`GPU is lost` and `GPU requires reset` fail `driver.reachable`.",
        "",
        "## Judged",
        "",
        "| field | checks |",
        "|---|---|",
    ]
    lines += [f"| `{pattern}` | {', '.join(f'`{name}`' for name in rule.checks)} |" for pattern, rule in JUDGED.items()]
    lines += ["", "## Left alone", "", "| field | why |", "|---|---|"]
    lines += [f"| `{pattern}` | {reason} |" for pattern, reason in NOT_JUDGED.items()]
    return "\n".join(lines) + "\n"
