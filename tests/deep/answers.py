"""Whole answers of `nvidia-smi -q -x`, built in the form in which each driver writes them for each kind of card.

The forms follow recorded answers of drivers 418 to 610 and what was announced for 615: names and blocks that came and
went with a release stand beside the first release that has them.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar
from xml.sax.saxutils import escape

GONE = "Requested functionality has been deprecated"
VERSIONS = {
    418: ("418.87.01", "10.1"),
    460: ("460.73.01", "11.2"),
    510: ("510.47.03", "11.6"),
    535: ("535.261.03", "12.2"),
    570: ("570.148.08", "12.8"),
    580: ("580.105.08", "13.0"),
    590: ("590.48.01", "13.1"),
    595: ("595.91.07", "13.2"),
    610: ("610.57.04", "13.3"),
    615: ("615.36.01", "13.4"),
}
REASONS = (
    "gpu_idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "display_clocks_setting",
)
COUNTERS = ("sw_power_cap", "sync_boost", "sw_therm_slowdown", "hw_therm_slowdown", "hw_power_brake")
PLACES = ("device_memory", "register_file", "l1_cache", "l2_cache", "texture_memory", "texture_shm", "cbu", "total")
NA = "N/A"


class Model(NamedTuple):
    """What a kind of card has; `first` is the first driver here that knows it, `last` the last."""

    name: str
    architecture: str
    device_id: str
    memory_mib: int
    watts: int
    generation: int
    first: int
    last: int = 615
    mig: bool = False
    hbm: bool = True
    fabric: str = ""  # "", nvswitch (no clique), domain (a rack)
    grace: bool = False
    passthrough: bool = False
    word: str = ""


Value = TypeVar("Value")
MODELS = (
    Model("Tesla V100-PCIE-16GB", "volta", "1DB4", 16384, 250, 3, 418, 580),
    Model("Tesla V100-SXM2-32GB", "volta", "1DB5", 32768, 300, 3, 418, 580),
    Model("Tesla T4", "turing", "1EB8", 15360, 70, 3, 418, hbm=False, passthrough=True),
    Model("NVIDIA A100-PCIE-40GB", "ampere", "20F1", 40960, 250, 4, 460, mig=True),
    Model("NVIDIA A100-SXM4-80GB", "ampere", "20B2", 81920, 400, 4, 460, mig=True),
    Model("NVIDIA A10", "ampere", "2236", 23028, 150, 4, 460, hbm=False),
    Model("NVIDIA L40S", "ada", "26B9", 46068, 350, 4, 535, hbm=False, passthrough=True, word="Ada Lovelace"),
    Model("NVIDIA H100 PCIe", "hopper", "2331", 81559, 350, 5, 535, mig=True),
    Model("NVIDIA H100 80GB HBM3", "hopper", "2330", 81559, 700, 5, 535, mig=True, fabric="nvswitch"),
    Model("NVIDIA H200", "hopper", "2335", 143771, 700, 5, 535, mig=True, fabric="nvswitch"),
    Model("NVIDIA B200", "blackwell", "2901", 183359, 1000, 5, 570, mig=True, fabric="nvswitch"),
    Model("NVIDIA GB200", "blackwell", "2941", 189471, 1200, 6, 570, mig=True, fabric="domain", grace=True),
    Model("NVIDIA GB300", "blackwell", "31C2", 284208, 1400, 6, 580, mig=True, fabric="domain", grace=True),
    # A card that no table lists.
    Model("NVIDIA R200", "rubin", "3F01", 295936, 1800, 6, 615, mig=True, fabric="domain"),
)


def drivers_of(model: Model) -> list[int]:
    return [driver for driver in VERSIONS if model.first <= driver <= model.last]


def cases() -> list[tuple[Model, int, bool]]:
    """(model, driver, MIG) of every healthy answer."""
    plain = [(model, driver, False) for model in MODELS for driver in drivers_of(model)]
    sliced = [(model, driver, True) for model, driver, _mig in plain if model.mig and driver in (510, 535, 580, 590)]
    return plain + [case for case in sliced if case[0].name != "NVIDIA R200"]


def answer(model: Model, driver: int, mig: bool = False, number: int = 2) -> str:
    """The whole text."""
    version, cuda = VERSIONS[driver]
    lines = [
        '<?xml version="1.0" ?>',
        f'<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v{12 if driver < 580 else 13}.dtd">',
    ]
    lines += ["<nvidia_smi_log>", "\t<timestamp>Fri Aug 21 10:21:36 2026</timestamp>"]
    if driver >= 615:
        lines.append(
            "\t<!-- driver_version is deprecated and will be removed in CUDA 14.0. Use kmd_version instead -->"
        )
    lines += [f"\t<driver_version>{version}</driver_version>", f"\t<cuda_version>{cuda}</cuda_version>"]
    if driver >= 610:
        lines += [f"\t<kmd_version>{version}</kmd_version>", f"\t<cuda_umd_version>{cuda}</cuda_umd_version>"]
    lines.append(f"\t<attached_gpus>{number}</attached_gpus>")
    for index in range(number):
        address = f"00000000:{0x19 + 0x22 * index:02X}:00.0"
        lines.append(f'\t<gpu id="{address}">')
        lines += written(card(model, driver, mig, index, address), 2)
        lines.append("\t</gpu>")
    return "\n".join([*lines, "</nvidia_smi_log>", ""])


def written(block: dict, depth: int) -> list[str]:
    """The lines of nested elements; a list repeats its element, None leaves one out."""
    lines: list[str] = []
    tabs = "\t" * depth
    for tag, value in block.items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                lines += [f"{tabs}<{tag}>", *written(one, depth + 1), f"{tabs}</{tag}>"]
            elif one is not None:
                lines.append(f"{tabs}<{tag}>{escape(str(one))}</{tag}>")
    return lines


def card(model: Model, driver: int, mig: bool, index: int, address: str) -> dict:
    """One card at rest."""

    def since(first: int, value: Value) -> Value | None:
        return value if driver >= first else None

    return {
        "product_name": model.name,
        "product_brand": "NVIDIA" if driver >= 460 else "Tesla",
        "product_architecture": since(510, model.word or model.architecture.capitalize()),
        "display_mode": "Enabled" if driver < 570 else GONE,
        "display_attached": since(580, "No"),
        "display_active": "Disabled",
        "persistence_mode": "Enabled",
        "addressing_mode": since(535, "ATS" if model.grace else "HMM"),
        "mig_mode": since(460, both("mig", ("Enabled" if mig else "Disabled") if model.mig else NA)),
        "mig_devices": since(460, {"mig_device": [slice_of(0), slice_of(1)]} if mig else "None"),
        "accounting_mode": "Disabled",
        "accounting_mode_buffer_size": "4000",
        "driver_model": both("dm", NA),
        "serial": f"165000000000{index}",
        "uuid": f"GPU-0000000{index}-1111-2222-3333-00000000000{index}",
        "pdi": since(580, f"0x000000000000000{index}"),
        "minor_number": index,
        "vbios_version": "96.00.99.00.01",
        "multigpu_board": "No",
        "board_id": "0x1900",
        "gpu_part_number": "692-2G520-0200-000",
        "gpu_fru_part_number": since(535, NA),
        "platformInfo": since(570, platform(model, index)),
        "inforom_version": {
            "img_version": "G520.0200.00.05",
            "oem_object": "2.1",
            "ecc_object": "7.16",
            "pwr_object": NA,
        },
        "inforom_bbx_flush": since(570, {"latest_timestamp": "2026/08/20 23:33:00.497", "latest_duration": "61655 us"}),
        "gpu_operation_mode": {"current_gom": NA, "pending_gom": NA},
        "c2c_mode": since(570, "Enabled" if model.grace else ("Disabled" if model.generation > 4 else NA)),
        "gpu_virtualization_mode": {
            "virtualization_mode": "Pass-Through" if model.passthrough else "None",
            "host_vgpu_mode": since(460, NA),
        },
        "gpu_reset_status": {"reset_required": "No", "drain_and_reset_recommended": "No"}
        if 535 <= driver < 570
        else None,
        "gpu_recovery_action": since(570, "None"),
        "gsp_firmware_version": since(510, NA if model.architecture == "volta" else VERSIONS[driver][0]),
        "ibmnpu": {"relaxed_ordering_mode": NA},
        "pci": pci(model, driver, address),
        "fan_speed": NA,
        "performance_state": "P0",
        **clock_reasons(driver),
        "sparse_operation_mode": since(570, NA),
        "fb_memory_usage": memory(model.memory_mib, since(510, 500)),
        "bar1_memory_usage": memory(model.memory_mib, None),
        "cc_protected_memory_usage": since(535, memory(0, None)),
        "compute_mode": "Default",
        "utilization": dict.fromkeys(("gpu_util", "memory_util", "encoder_util", "decoder_util"), NA if mig else "0 %"),
        "encoder_stats": dict.fromkeys(("session_count", "average_fps", "average_latency"), 0),
        "fbc_stats": dict.fromkeys(("session_count", "average_fps", "average_latency"), 0),
        "dram_encryption_mode": since(570, both("dram_encryption", NA)),
        "ecc_mode": both("ecc", "Enabled"),
        "ecc_errors": ecc(model, driver, mig),
        "retired_pages": retired(model, driver),
        "remapped_rows": since(460, remapped(model, driver, mig)),
        "temperature": temperature(model, driver),
        "supported_gpu_target_temp": since(510, {"gpu_target_temp_min": NA, "gpu_target_temp_max": NA}),
        **power(model, driver),
        "clocks": {
            "graphics_clock": "210 MHz",
            "sm_clock": "210 MHz",
            "mem_clock": "1215 MHz",
            "video_clock": "585 MHz",
        },
        "applications_clocks": applied(driver),
        "default_applications_clocks": applied(driver),
        "max_clocks": {"graphics_clock": "1410 MHz", "sm_clock": "1410 MHz", "mem_clock": "1215 MHz"},
        "max_customer_boost_clocks": {"graphics_clock": "1410 MHz"},
        "clock_policy": {"auto_boost": NA, "auto_boost_default": NA},
        "fabric": since(535, fabric(model, driver)),
        "processes": "\n\t\t",
        "accounted_processes": "\n\t\t",
        "capabilities": since(570, {"egm": "disabled"}),
    }


def both(name: str, value: str) -> dict:
    return {f"current_{name}": value, f"pending_{name}": value}


def slice_of(index: int) -> dict:
    """A slice as `nvidia-smi -q -x` lists it."""
    return {
        "index": index,
        "gpu_instance_id": index + 1,
        "compute_instance_id": 0,
        "device_attributes": {"shared": {"multiprocessor_count": 42, "copy_engine_count": 3}},
        "ecc_error_count": {"volatile_count": {"sram_uncorrectable": 0}},
        "fb_memory_usage": {"total": "19968 MiB", "reserved": "0 MiB", "used": "19 MiB", "free": "19948 MiB"},
        "bar1_memory_usage": {"total": "32767 MiB", "used": "0 MiB", "free": "32767 MiB"},
    }


def platform(model: Model, index: int) -> dict:
    rack = model.fabric == "domain"
    return {
        "chassis_serial_number": "1820000000001" if rack else NA,
        "slot_number": 14 if rack else NA,
        "tray_index": 4 if rack else NA,
        "host_id": 1 if rack else NA,
        "peer_type": "Switch Connected" if model.fabric else NA,
        "module_id": index + 1,
        "gpu_fabric_guid": f"0x000000000000000{index}" if rack else NA,
    }


def pci(model: Model, driver: int, address: str) -> dict:
    generation: dict[str, object] = {"max_link_gen": model.generation, "current_link_gen": model.generation}
    if driver >= 535:
        generation["device_current_link_gen"] = model.generation
        generation["max_device_link_gen"] = model.generation
        generation["max_host_link_gen"] = NA if model.passthrough else model.generation
    return {
        "pci_bus": address[9:11],
        "pci_device": "00",
        "pci_domain": "0000",
        "pci_base_class": "3" if driver >= 570 else None,
        "pci_sub_class": "2" if driver >= 570 else None,
        "pci_device_id": model.device_id + "10DE",
        "pci_bus_id": address,
        "pci_sub_system_id": "16C110DE",
        "pci_gpu_link_info": {
            "pcie_gen": generation,
            "link_widths": {"max_link_width": "16x", "current_link_width": "16x"},
        },
        "pci_bridge_chip": {"bridge_chip_type": NA, "bridge_chip_fw": NA},
        "replay_counter": 150 if model.architecture == "hopper" else 0,
        "replay_rollover_counter": 0,
        "tx_util": "350 KB/s",
        "rx_util": "300 KB/s",
        "atomic_caps_outbound": NA if driver >= 535 else None,
        "atomic_caps_inbound": NA if driver >= 535 else None,
    }


def clock_reasons(driver: int) -> dict:
    kind = "event" if driver >= 535 else "throttle"
    found: dict = {
        f"clocks_{kind}_reasons": {
            f"clocks_{kind}_reason_{name}": "Active" if name == "gpu_idle" else "Not Active" for name in REASONS
        }
    }
    if driver >= 570:
        counted = {"sw_power_cap": "770461242 us", "sw_therm_slowdown": "7319467 us"}
        prefix = "clocks_event_reasons_counters"
        found[prefix] = {f"{prefix}_{name}": counted.get(name, "0 us") for name in COUNTERS}
    return found


def memory(total: int, reserved: int | None) -> dict:
    kept = None if reserved is None else f"{reserved} MiB"
    free = total - (reserved or 0)
    return {"total": f"{total} MiB", "reserved": kept, "used": "0 MiB", "free": f"{free} MiB"}


def ecc(model: Model, driver: int, mig: bool) -> dict:
    """Single and double bits up to Volta, by kind of memory from Turing on, parity and SEC-DED apart from 550 on."""
    if model.architecture == "volta":
        by_bits = {f"{bits}_bit": dict.fromkeys(PLACES, 0) for bits in ("single", "double")}
        return {"volatile": by_bits, "aggregate": by_bits}
    split = driver >= 570 and model.architecture != "turing"
    sram = ["sram_uncorrectable_parity", "sram_uncorrectable_secded"] if split else ["sram_uncorrectable"]
    counts = dict.fromkeys(["sram_correctable", *sram, "dram_correctable", "dram_uncorrectable"], 0)
    volatile: dict[str, object] = {**(dict.fromkeys(counts, NA) if mig and driver == 510 else counts)}
    found: dict = {"volatile": volatile, "aggregate": dict(counts)}
    if split:
        found["aggregate"]["sram_threshold_exceeded"] = "No"
        sources = ("sram_l2", "sram_sm", "sram_microcontroller", "sram_pcie", "sram_other")
        found["aggregate_uncorrectable_sram_sources"] = dict.fromkeys(sources, 0)
    if split and driver >= 580:
        found.update(channel_repair_pending="No", tpc_repair_pending="No")
    if split and driver >= 590:
        found["unrepairable_memory"] = "No"
    return found


def retired(model: Model, driver: int) -> dict:
    """Pages up to Turing, nothing after it."""
    has = model.architecture in ("volta", "turing")
    kind = {"retired_count": 0 if has else NA, "retired_pagelist": "\n\t\t\t\t" if has else NA}
    return {
        "multiple_single_bit_retirement": kind,
        "double_bit_retirement": kind,
        "pending_blacklist": ("No" if has else NA) if driver >= 460 else None,
        "pending_retirement": "No" if has else NA,
    }


def remapped(model: Model, driver: int, mig: bool) -> dict | str:
    """Rows from Ampere on, with a histogram of the spare ones; nothing in MIG mode."""
    if mig or model.architecture in ("volta", "turing"):
        return NA
    prefix = "row_remapper_histogram"
    banks = {f"{prefix}_{name}": "0 bank(s)" for name in ("max", "high", "partial", "low", "none")}
    banks[f"{prefix}_max"] = "2560 bank(s)"
    return {
        "remapped_row_corr": 0,
        "remapped_row_unc": 0,
        "remapped_row_corr_inactive": 0 if driver >= 595 else None,
        "remapped_row_unc_inactive": 0 if driver >= 595 else None,
        "remapped_row_pending": "No",
        "remapped_row_failure": "No",
        prefix: banks,
    }


def temperature(model: Model, driver: int) -> dict:
    """Limits in degrees up to Ampere, margins (T.Limit) after it."""
    found: dict = {"gpu_temp": "33 C"}
    margins = model.architecture not in ("volta", "turing", "ampere")
    if driver >= 535:
        found["gpu_temp_tlimit"] = "49 C" if margins else NA
    if margins and driver >= 535:
        found["gpu_temp_max_tlimit_threshold"] = "-8 C"
        found["gpu_temp_slow_tlimit_threshold"] = "-2 C"
        found["gpu_temp_max_gpu_tlimit_threshold"] = "0 C"
    else:
        found["gpu_temp_max_threshold"] = "92 C"
        found["gpu_temp_slow_threshold"] = "89 C"
        found["gpu_temp_max_gpu_threshold"] = "85 C"
    found["gpu_target_temperature"] = NA if driver >= 460 else None
    found["memory_temp"] = "34 C" if model.hbm else NA
    if margins:
        found["gpu_temp_max_mem_tlimit_threshold"] = "0 C" if model.hbm else NA
    else:
        found["gpu_temp_max_mem_threshold"] = "95 C" if model.hbm else NA
    return found


def power(model: Model, driver: int) -> dict:
    """One block up to 530, three after it; from 610 on the limits of the GPU stand one element deeper."""
    most = f"{model.watts}.00 W"
    if driver < 535:
        block = {"power_state": "P0", "power_management": "Supported", "power_draw": "49.68 W", "power_limit": most}
        block.update(
            default_power_limit=most, enforced_power_limit=most, min_power_limit="100.00 W", max_power_limit=most
        )
        return {"power_readings": block}
    limits = {"current_power_limit": most, "requested_power_limit": most, "default_power_limit": most}
    draw: dict = {"power_draw": "49.68 W"}
    if driver >= 570:
        average = NA if model.architecture in ("volta", "turing", "ampere") else "49.60 W"
        draw = {"average_power_draw": average, "instant_power_draw": "49.68 W"}
    base = dict.fromkeys(("current_base_power", "requested_base_power", "default_base_power"), NA)
    own = {"gpu_ceiling_power_limit": limits, "gpu_base_power": base} if driver >= 610 else limits
    state = "P0" if driver < 580 else GONE
    module = dict.fromkeys(limits, "2500.00 W" if model.grace else NA)
    edges = {"min_power_limit": "100.00 W", "max_power_limit": most}
    found: dict[str, object] = {"gpu_power_readings": {"power_state": state, **draw, **own, **edges}}
    if driver >= 570:
        found["gpu_memory_power_readings"] = {"average_power_draw": NA, "instant_power_draw": NA}
    no_draw = dict.fromkeys(draw, NA)
    found["module_power_readings"] = {"power_state": state, **no_draw, **module, **dict.fromkeys(edges, NA)}
    if driver >= 570:
        found["power_smoothing"] = "Insufficient Permissions" if model.architecture == "blackwell" else NA
        names = ("power_profile_requested_profiles", "power_profile_enforced_profiles")
        found["power_profiles"] = dict.fromkeys(names, NA)
    if driver >= 590:
        found["edpp_multiplier"] = NA
    return found


def applied(driver: int) -> dict:
    if driver >= 590:
        return {"graphics_clock": GONE, "mem_clock": GONE}
    return {"graphics_clock": "1095 MHz", "mem_clock": "1215 MHz"}


def fabric(model: Model, driver: int) -> dict:
    """Hopper's switches tell no health; Blackwell's summary says Healthy; racks have a clique and a cluster."""
    rack, joined = model.fabric == "domain", bool(model.fabric)
    found: dict = {"state": "Completed" if joined else NA, "status": "Success" if joined else NA}
    if driver < 570:
        return found
    found["cliqueId"] = (2 if rack else 0) if joined else NA
    cluster = "00000001-0000-0000-0000-000000000001" if rack else "00000000-0000-0000-0000-000000000000"
    found["clusterUuid"] = cluster if joined else NA
    health: dict = {
        "bandwidth": "Full" if rack else NA,
        "route_recovery_in_progress": "False" if rack else NA,
        "route_unhealthy": "False" if rack else NA,
        "access_timeout_recovery": "False" if rack else NA,
    }
    if driver >= 580:
        health = {"summary": "Healthy" if joined and model.architecture != "hopper" else NA, **health}
        health["incorrect_configuration"] = "None" if rack else NA
    if driver >= 595:
        health["partition_assigned"] = "True" if rack and driver >= 610 else NA
    return {**found, "health": health}
