# SPDX-License-Identifier: Apache-2.0
"""The fields of nvidia-smi with their names in each form: XML, the text of -q, and the columns of --query-gpu.

A row is (field, XML path, labels of the text, columns). The field is the key in the record of `xml.read_gpu`, or in its
`health`; the XML path is below the element `gpu`. Labels are the path of indentation, in lower case and divided by "/";
names that differ between drivers are divided by "|". The other forms are turned into the XML's elements by this table,
so that one reader judges all of them. Units are those of the XML in all forms but the CSV, where the head has them.

Sources: nvidia-smi -q, -q -x and --help-query-gpu of drivers 418 to 610; public captures of H100, H200, L40S, T4, V100
and GeForce (utkuozdemir/nvidia_gpu_exporter internal/captures, influxdata/telegraf, issue threads).
"""

from typing import Dict, FrozenSet, Iterable, Tuple

from .forms_memory import MEMORY_FIELDS, Field

POWER = "gpu_power_readings/"
LINK = "pci/pci_gpu_link_info/"
INFO = "pci/gpu link info/"
COUNTERS = "clocks_event_reasons_counters/clocks_event_reasons_counters_"

FIELDS: Tuple[Field, ...] = MEMORY_FIELDS + (
    Field("name", "product_name", "product name", "name|gpu_name"),
    Field("architecture", "product_architecture", "product architecture"),
    Field("persistence_mode", "persistence_mode", "persistence mode", "persistence_mode"),
    Field("addressing_mode", "addressing_mode", "addressing mode", "addressing_mode"),
    Field("mig_mode", "mig_mode/current_mig", "mig mode/current", "mig.mode.current"),
    Field("mig_pending", "mig_mode/pending_mig", "mig mode/pending", "mig.mode.pending"),
    Field("serial", "serial", "serial number", "serial|gpu_serial"),
    Field("uuid", "uuid", "gpu uuid", "uuid|gpu_uuid"),
    Field("vbios", "vbios_version", "vbios version", "vbios_version"),
    Field("inforom_image", "inforom_version/img_version", "inforom version/image version", "inforom.img|inforom.image"),
    Field(
        "virtualization",
        "gpu_virtualization_mode/virtualization_mode",
        "gpu virtualization mode/virtualization mode",
    ),
    Field(
        "vgpu_license",
        "vgpu_software_licensed_product/license_status",
        "vgpu software licensed product/license status",
    ),
    Field("gsp_firmware", "gsp_firmware_version", "gsp firmware version"),
    Field("c2c_mode", "c2c_mode", "gpu c2c mode", "c2c.mode"),
    Field("recovery_action", "gpu_recovery_action", "gpu recovery action", "gpu_recovery_action"),
    Field(
        "recovery_action",
        "gpu_reset_status/reset_required",
        "gpu reset status/reset required",
        "reset_status.reset_required",
    ),
    Field(
        "recovery_action",
        "gpu_reset_status/drain_and_reset_recommended",
        "gpu reset status/drain and reset recommended",
        "reset_status.drain_and_reset_recommended",
    ),
    Field("device_id", "pci/pci_device_id", "pci/device id", "pci.device_id"),
    Field("pci_id", "pci/pci_bus_id", "pci/bus id", "pci.bus_id|gpu_bus_id"),
    Field("link_gen_max", LINK + "pcie_gen/max_link_gen", INFO + "pcie generation/max", "pcie.link.gen.max"),
    Field(
        "link_gen_now", LINK + "pcie_gen/current_link_gen", INFO + "pcie generation/current", "pcie.link.gen.current"
    ),
    Field(
        "link_gen_card",
        LINK + "pcie_gen/max_device_link_gen",
        INFO + "pcie generation/device max",
        "pcie.link.gen.gpumax",
    ),
    Field(
        "link_gen_host", LINK + "pcie_gen/max_host_link_gen", INFO + "pcie generation/host max", "pcie.link.gen.hostmax"
    ),
    Field("link_width_max", LINK + "link_widths/max_link_width", INFO + "link width/max", "pcie.link.width.max"),
    Field(
        "link_width_now",
        LINK + "link_widths/current_link_width",
        INFO + "link width/current",
        "pcie.link.width.current",
    ),
    Field("pcie_replays", "pci/replay_counter", "pci/replays since reset|pci/replay counter"),
    Field("pcie_replay_rollovers", "pci/replay_rollover_counter", "pci/replay number rollovers"),
    Field("fan_speed", "fan_speed", "fan speed", "fan.speed"),
    Field("performance_state", "performance_state", "performance state", "pstate"),
    Field("memory_total_mib", "fb_memory_usage/total", "fb memory usage/total", "memory.total"),
    Field("memory_used_mib", "fb_memory_usage/used", "fb memory usage/used", "memory.used"),
    Field("bar1_total_mib", "bar1_memory_usage/total", "bar1 memory usage/total"),
    Field("compute_mode", "compute_mode", "compute mode", "compute_mode"),
    Field("utilization_percent", "utilization/gpu_util", "utilization/gpu", "utilization.gpu"),
    Field("ecc_mode", "ecc_mode/current_ecc", "ecc mode/current", "ecc.mode.current"),
    Field("ecc_pending", "ecc_mode/pending_ecc", "ecc mode/pending", "ecc.mode.pending"),
    Field("temperature_c", "temperature/gpu_temp", "temperature/gpu current temp", "temperature.gpu"),
    Field(
        "temperature_margin_c",
        "temperature/gpu_temp_tlimit",
        "temperature/gpu t.limit temp|temperature/gpu t.limit|temperature/gpu temperature margin",
        "temperature.gpu.tlimit",
    ),
    Field("temperature_slowdown_c", "temperature/gpu_temp_slow_threshold", "temperature/gpu slowdown temp"),
    Field("temperature_memory_c", "temperature/memory_temp", "temperature/memory current temp", "temperature.memory"),
    Field(
        "temperature_memory_max_c", "temperature/gpu_temp_max_mem_threshold", "temperature/memory max operating temp"
    ),
    Field(
        "power_draw_w",
        POWER + "instant_power_draw",
        "gpu power readings/instantaneous power draw",
        "power.draw.instant",
    ),
    Field("power_draw_w", POWER + "average_power_draw", "gpu power readings/average power draw", "power.draw.average"),
    Field(
        "power_draw_w", POWER + "power_draw", "gpu power readings/power draw|power readings/power draw", "power.draw"
    ),
    Field("power_limit_w", POWER + "current_power_limit", "gpu power readings/current power limit"),
    Field(
        "power_limit_w",
        POWER + "gpu_ceiling_power_limit/current_power_limit",
        "gpu power readings/gpu ceiling power limit/current power limit",
    ),
    Field("power_limit_w", POWER + "power_limit", "power readings/power limit", "power.limit"),
    Field(
        "power_limit_w", POWER + "enforced_power_limit", "power readings/enforced power limit", "enforced.power.limit"
    ),
    Field(
        "power_default_w",
        POWER + "default_power_limit",
        "gpu power readings/default power limit|power readings/default power limit",
        "power.default_limit",
    ),
    Field(
        "power_default_w",
        POWER + "gpu_ceiling_power_limit/default_power_limit",
        "gpu power readings/gpu ceiling power limit/default power limit",
    ),
    Field(
        "module_power_limit_w",
        "module_power_readings/current_power_limit",
        "module power readings/current power limit",
        "module.power.limit",
    ),
    Field(
        "module_power_default_w",
        "module_power_readings/default_power_limit",
        "module power readings/default power limit",
        "module.power.default_limit",
    ),
    Field(
        "clocks_applied",
        "applications_clocks/graphics_clock",
        "applications clocks/graphics",
        "clocks.applications.graphics",
    ),
    Field(
        "clocks_applied", "applications_clocks/mem_clock", "applications clocks/memory", "clocks.applications.memory"
    ),
    Field(
        "clocks_default",
        "default_applications_clocks/graphics_clock",
        "default applications clocks/graphics",
        "clocks.default_applications.graphics",
    ),
    Field(
        "clocks_default",
        "default_applications_clocks/mem_clock",
        "default applications clocks/memory",
        "clocks.default_applications.memory",
    ),
    Field(
        "throttled_by_heat_us",
        COUNTERS + "hw_therm_slowdown",
        "clocks event reasons counters/hw thermal slowdown",
        "clocks_event_reasons_counters.hw_thermal_slowdown",
    ),
    Field(
        "throttled_by_brake_us",
        COUNTERS + "hw_power_brake",
        "clocks event reasons counters/hw power braking",
        "clocks_event_reasons_counters.hw_power_brake_slowdown",
    ),
    *(
        Field(
            "throttle_reasons",
            "clocks_event_reasons/clocks_event_reason_" + tag,
            "|".join(f"clocks {word} reasons/{label}" for word in ("event", "throttle") for label in labels.split("|")),
            "|".join(f"clocks_{word}_reasons.{column}" for word in ("event", "throttle")),
        )
        for tag, labels, column in (
            ("gpu_idle", "idle", "gpu_idle"),
            ("applications_clocks_setting", "applications clocks setting", "applications_clocks_setting"),
            ("sw_power_cap", "sw power cap", "sw_power_cap"),
            ("hw_slowdown", "hw slowdown", "hw_slowdown"),
            ("hw_thermal_slowdown", "hw slowdown/hw thermal slowdown|hw thermal slowdown", "hw_thermal_slowdown"),
            (
                "hw_power_brake_slowdown",
                "hw slowdown/hw power brake slowdown|hw power brake slowdown",
                "hw_power_brake_slowdown",
            ),
            ("sync_boost", "sync boost", "sync_boost"),
            ("sw_thermal_slowdown", "sw thermal slowdown", "sw_thermal_slowdown"),
            ("display_clocks_setting", "display clock setting", "display_clock_setting"),
        )
    ),
    Field("throttle_reasons", "clocks_event_reasons", "clocks event reasons|clocks throttle reasons"),
    *(
        Field(name, "fabric/" + tag, "fabric/" + label, "fabric." + column)
        for name, tag, label, column in (
            ("fabric_state", "state", "state", "state"),
            ("fabric_status", "status", "status", "status"),
            ("fabric_clique", "cliqueId", "cliqueid", "cliqueid"),
            ("fabric_cluster", "clusterUuid", "clusteruuid", "clusteruuid"),
            ("fabric_summary", "health/summary", "health/summary", "health.summary"),
            ("fabric_bandwidth", "health/bandwidth", "health/bandwidth", "health.bandwidth"),
            (
                "fabric_route_recovery",
                "health/route_recovery_in_progress",
                "health/route recovery in progress",
                "health.route_recovery_in_progress",
            ),
            ("fabric_route_unhealthy", "health/route_unhealthy", "health/route unhealthy", "health.route_unhealthy"),
            (
                "fabric_access_timeout",
                "health/access_timeout_recovery",
                "health/access timeout recovery",
                "health.access_timeout_recovery",
            ),
            (
                "fabric_configuration",
                "health/incorrect_configuration",
                "health/incorrect configuration",
                "health.incorrect_configuration",
            ),
            ("fabric_partition", "health/partition_assigned", "health/partition assigned", "health.partition_assigned"),
        )
    ),
    Field("mig_uncorrected_volatile", "mig_devices/mig_device/index", "mig device/index"),
    Field("mig_uncorrected_volatile", "mig_devices/mig_device/gpu_instance_id", "mig device/gpu instance id"),
    Field("mig_uncorrected_volatile", "mig_devices/mig_device/compute_instance_id", "mig device/compute instance id"),
    Field(
        "mig_uncorrected_volatile",
        "mig_devices/mig_device/ecc_error_count/volatile_count/sram_uncorrectable",
        "mig device/ecc errors/volatile/sram uncorrectable",
    ),
    Field("processes", "processes", "processes"),
    Field("processes", "processes/process_info/pid", "processes/process id"),
    Field("processes", "processes/process_info/type", "processes/process id/type"),
    Field("processes", "processes/process_info/process_name", "processes/process id/name"),
    Field("processes", "processes/process_info/used_memory", "processes/process id/used gpu memory"),
)
# Elements that are there once for each device or program; the label with which one begins.
REPEATED = {"mig device": "mig_devices/mig_device", "processes/process id": "processes/process_info"}
# What the text says before its first card.
OF_DRIVER = {
    "driver version": "driver_version",
    "kmd version": "kmd_version",
    "cuda version": "cuda_version",
    "attached gpus": "attached_gpus",
    "attached units": "attached_units",
}


def by_label() -> Dict[str, str]:
    """The XML path for each label path of the text."""
    return {label: field.xml for field in FIELDS for label in _names(field.text)}


def by_column() -> Dict[str, str]:
    """The XML path for each column of --query-gpu, in lower case."""
    return {column: field.xml for field in FIELDS for column in _names(field.csv)}


def names_of(paths: Iterable[str]) -> FrozenSet[str]:
    """The record's fields that these XML paths are read for."""
    given = set(paths)
    return frozenset(field.name for field in FIELDS if field.xml in given)


def _names(words: str) -> Tuple[str, ...]:
    return tuple(word for word in words.split("|") if word)
