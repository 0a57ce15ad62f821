"""Rows of test_checks_sad_paths: what a card's answer says of fabric, repairs, heat, power, link and firmware."""

from __future__ import annotations

from gpuwright.verdict.check import FAIL, PASS, SKIP, UNKNOWN, WARN
from healthy_gpu import IN_FABRIC, NVLINK
from node_names import Changes
from row_values import DOWN, GPU, HEALTH, SMI, SMI_GPU, V100

A = "00000001-0000-0000-0000-000000000001"
SLOT = (*GPU, "link", "slot_width_max")
NARROW: Changes = {(*HEALTH, "link_width_now"): 8}
GUEST: Changes = {(*HEALTH, "virtualization"): "Pass-Through"}
LINKS = ("nvlink",)
NO_SLOT: Changes = {SLOT: None}
OF_32 = {(*HEALTH, "link_width_now"): 12, (*HEALTH, "link_width_max"): 32}
NOW_4 = {(*HEALTH, "link_width_now"): 4}
WINDOW = (*HEALTH, "bar1_total_mib")
LICENSE: Changes = {(*HEALTH, "virtualization"): "VGPU"}
GB200: Changes = {(*SMI_GPU, "name"): "NVIDIA GB200"}
GENERATION = (*HEALTH, "link_gen_now")
HEAT, BRAKE = (*HEALTH, "throttled_by_heat_us"), (*HEALTH, "throttled_by_brake_us")
REASONS = (*SMI_GPU, "throttle_reasons")
OWN_LIMIT = {(*HEALTH, "temperature_memory_max_c"): 85}
UPTIME = ("host", "uptime_s")


def two(field: str, first: object, second: object) -> dict:
    """Two cards whose health differs in one field."""
    other = {**V100, "pci_id": "0000:5e:00.0"}
    cards = [{**card, "health": {**V100["health"], field: value}} for card, value in ((V100, first), (other, second))]
    return {(*SMI, "gpus"): cards}


def sizes(*amounts: int, **changes: object) -> dict:
    """Cards with these amounts of memory; `changes` are those of the second one."""
    cards = [{**V100, "memory_total_mib": amount} for amount in amounts]
    cards[1:2] = [{**card, **changes} for card in cards[1:2]]
    return {(*SMI, "gpus"): cards}


def mixed_modes(first: int, second: int) -> dict:
    """Two cards with these windows, the second one cut into MIG slices."""
    cards = [
        {**V100, "mig_mode": mode, "health": {**V100["health"], "bar1_total_mib": size, "mig_pending": mode}}
        for mode, size in (("Disabled", first), ("Enabled", second))
    ]
    return {(*SMI, "gpus"): cards}


def joined(**health: object) -> dict:
    return {**IN_FABRIC, **{(*HEALTH, f"fabric_{name}"): value for name, value in health.items()}}


def domains(*places: tuple[str | None, str | None]) -> dict:
    cards = [
        {**V100, "health": {**V100["health"], "fabric_cluster": cluster, "fabric_clique": clique}}
        for cluster, clique in places
    ]
    return {(*SMI, "gpus"): cards}


ROWS = [
    ("gpu.fabric", joined(bandwidth="Degraded"), {}, FAIL, "joined, but bandwidth into the fabric is Degraded"),
    ("gpu.fabric", joined(summary="Unhealthy"), {}, FAIL, "summary is Unhealthy"),
    ("gpu.fabric", joined(route_unhealthy=True), {}, FAIL, "route through the fabric is unhealthy"),
    ("gpu.fabric", joined(route_recovery=True), {}, FAIL, "being recovered"),
    ("gpu.fabric", joined(access_timeout=True), {}, FAIL, "timed out"),
    ("gpu.fabric", joined(configuration="Incorrect SysGUID"), {}, FAIL, "wrong: Incorrect SysGUID"),
    ("gpu.fabric", joined(bandwidth="unknown"), {}, UNKNOWN, "fabric_bandwidth reads 'unknown'"),
    ("gpu.fabric", joined(), {}, PASS, "joined"),
    ("gpu.fabric_summary", joined(summary="Limited Capacity"), {}, FAIL, "Limited Capacity"),
    ("gpu.fabric_summary", joined(summary="healthy"), {}, PASS, "healthy"),
    ("gpu.fabric_summary", joined(summary="unknown"), {}, UNKNOWN, "fabric_summary"),
    ("gpu.fabric_summary", {}, {}, SKIP, "no fabric"),
    ("gpu.fabric_bandwidth", joined(bandwidth="Degraded"), {}, FAIL, "Degraded"),
    ("gpu.fabric_route_unhealthy", joined(route_unhealthy=True), {}, FAIL, "unhealthy"),
    ("gpu.fabric_route_unhealthy", joined(route_unhealthy="unknown"), {}, UNKNOWN, "fabric_route_unhealthy"),
    ("gpu.fabric_route_recovery", joined(route_recovery=True), {}, FAIL, "recovered"),
    ("gpu.fabric_access_timeout", joined(access_timeout=True), {}, FAIL, "timed out"),
    ("gpu.fabric_configuration", joined(configuration="Incorrect Chassis SN"), {}, FAIL, "Incorrect Chassis SN"),
    ("gpu.fabric_partition", joined(partition=False), {}, FAIL, "no partition of the fabric"),
    ("gpu.fabric_partition", joined(), {}, SKIP, "no partitions"),
    ("gpu.fabric_domain", domains((A, "1"), (A, "2")), {}, FAIL, f"different domains: cluster {A} clique 1"),
    ("gpu.fabric_domain", domains((A, "1"), (None, None)), {}, FAIL, "1 of 2 cards are in no domain"),
    ("gpu.fabric_domain", domains((A, "1"), (A, None)), {}, FAIL, "1 of 2 cards are in no domain"),
    ("gpu.fabric_domain", domains((A, "1"), (A, "1")), {}, PASS, f"cluster {A} clique 1"),
    ("gpu.fabric_domain", domains(("GPU is lost", "1")), {}, UNKNOWN, "fabric_cluster is not a UUID"),
    ("gpu.fabric_domain", domains((A, "x")), {}, UNKNOWN, "fabric_clique is not a number"),
    ("gpu.fabric_domain", {}, {}, SKIP, "no fabric"),
    ("gpu.fabric_domain", {SMI: DOWN}, {}, UNKNOWN, "driver cannot be queried"),
    ("gpu.channel_repair", {(*HEALTH, "channel_repair_pending"): True}, {}, FAIL, "memory channels waits"),
    ("gpu.channel_repair", {(*HEALTH, "channel_repair_pending"): "unknown"}, {}, UNKNOWN, "channel_repair_pending"),
    ("gpu.channel_repair", {}, {}, SKIP, "does not repair its memory channels"),
    ("gpu.tpc_repair", {(*HEALTH, "tpc_repair_pending"): True}, {}, FAIL, "processing clusters waits"),
    ("gpu.tpc_repair", {}, {}, SKIP, "does not repair"),
    ("gpu.dram_uncorrected", {(*HEALTH, "dram_uncorrected_aggregate"): 1}, {}, WARN, "1 uncorrected errors over"),
    ("gpu.dram_uncorrected", {(*HEALTH, "dram_uncorrected_aggregate"): 511}, {}, WARN, "511"),
    ("gpu.dram_uncorrected", {(*HEALTH, "dram_uncorrected_aggregate"): 512}, {}, FAIL, "512"),
    ("gpu.dram_uncorrected", {(*HEALTH, "dram_uncorrected_aggregate"): None}, {}, SKIP, "does not count"),
    ("gpu.spare_rows", {(*HEALTH, "spare_rows_none"): 1, (*HEALTH, "spare_rows_low"): 0}, {}, FAIL, "1 banks have no"),
    ("gpu.spare_rows", {(*HEALTH, "spare_rows_none"): 0, (*HEALTH, "spare_rows_low"): 3}, {}, WARN, "3 have few"),
    ("gpu.spare_rows", {(*HEALTH, "spare_rows_none"): "unknown"}, {}, UNKNOWN, "spare_rows_none"),
    ("gpu.spare_rows", {}, {}, SKIP, "does not report how many"),
    ("gpu.mig_errors", {(*HEALTH, "mig_uncorrected_volatile"): 2}, {}, FAIL, "2 uncorrected errors in MIG slices"),
    ("gpu.mig_errors", {}, {}, SKIP, "not cut"),
    ("gpu.memory_size", sizes(0), {}, FAIL, "0000:3b:00.0 has 0 MiB of 16384"),
    ("gpu.memory_size", sizes(16384, 15360), {}, FAIL, "0000:3b:00.0 has 15360 MiB of 16384"),
    ("gpu.memory_size", sizes(16000, 15840), {}, PASS, "the same on each"),
    ("gpu.memory_size", sizes(16000, 15839), {}, FAIL, "0000:3b:00.0 has 15839 MiB of 16000"),
    ("gpu.memory_size", sizes(14336), {}, FAIL, "0000:3b:00.0 has 14336 MiB of 16384"),
    ("gpu.memory_size", sizes(16384, 15360, ecc_mode="Disabled"), {}, PASS, "the same on each"),
    ("gpu.memory_size", sizes(16384, 24576, name="Tesla P40"), {}, PASS, "the same on each"),
    ("gpu.memory_size", {(*SMI_GPU, "memory_total_mib"): "unknown"}, {}, UNKNOWN, "memory_total_mib"),
    ("gpu.memory_size", {SMI: DOWN}, {}, UNKNOWN, "driver cannot be queried"),
    (
        "gpu.memory_temperature",
        {**OWN_LIMIT, (*HEALTH, "temperature_memory_c"): 85},
        {},
        FAIL,
        "memory at 85 C, its limit is 85 C",
    ),
    ("gpu.memory_temperature", {**OWN_LIMIT, (*HEALTH, "temperature_memory_c"): 80}, {}, WARN, "memory at 80 C"),
    ("gpu.memory_temperature", {**OWN_LIMIT, (*HEALTH, "temperature_memory_c"): 79}, {}, PASS, "below"),
    (
        "gpu.memory_temperature",
        {(*HEALTH, "temperature_memory_c"): 95, (*HEALTH, "temperature_memory_max_c"): None},
        {},
        FAIL,
        "its limit is 95 C",
    ),
    (
        "gpu.memory_temperature",
        {(*HEALTH, "temperature_memory_c"): 94, (*HEALTH, "temperature_memory_max_c"): None},
        {},
        WARN,
        "its limit is 95 C",
    ),
    ("gpu.memory_temperature", {(*HEALTH, "temperature_memory_c"): None}, {}, SKIP, "does not report"),
    (
        "gpu.temperature",
        {(*HEALTH, "temperature_slowdown_c"): None, (*HEALTH, "temperature_margin_c"): -3},
        {},
        FAIL,
        "3 C above its limit",
    ),
    (
        "gpu.temperature",
        {(*HEALTH, "temperature_slowdown_c"): None, (*HEALTH, "temperature_margin_c"): 0},
        {},
        FAIL,
        "0 C below its limit",
    ),
    (
        "gpu.temperature",
        {(*HEALTH, "temperature_slowdown_c"): None, (*HEALTH, "temperature_margin_c"): True},
        {},
        UNKNOWN,
        "temperature_margin_c is not a number: True",
    ),
    ("gpu.fan", {(*HEALTH, "fan_speed"): 0, (*SMI_GPU, "temperature_c"): 70}, {}, WARN, "is not turning at 70 C"),
    ("gpu.fan", {(*HEALTH, "fan_speed"): 0, (*SMI_GPU, "temperature_c"): 69}, {}, PASS, "cool"),
    ("gpu.fan", {(*HEALTH, "fan_speed"): 30, (*SMI_GPU, "temperature_c"): 80}, {}, PASS, "turning"),
    ("gpu.fan", {(*HEALTH, "fan_speed"): "unknown"}, {}, UNKNOWN, "fan_speed"),
    ("gpu.fan", {}, {}, SKIP, "no fan of its own"),
    ("gpu.throttle", {REASONS: ["sw_power_cap", "hw_slowdown", "hw_power_brake_slowdown"]}, {}, FAIL, "power_brake"),
    (
        "gpu.throttle",
        {REASONS: ["sw_power_cap", "hw_slowdown", "hw_power_brake_slowdown"]},
        {"slowdowns": ["hw_power_brake_slowdown"]},
        PASS,
        "nothing but hw_power_brake_slowdown may hold the clocks down, as the inventory says",
    ),
    (
        "gpu.throttle",
        {REASONS: ["hw_slowdown", "hw_power_brake_slowdown", "hw_thermal_slowdown"]},
        {"slowdowns": ["hw_power_brake_slowdown"]},
        FAIL,
        "held down by hw_slowdown, hw_thermal_slowdown",
    ),
    ("gpu.throttle", {REASONS: ["hw_slowdown"]}, {"slowdowns": ["hw_power_brake_slowdown"]}, FAIL, "by hw_slowdown"),
    (
        "gpu.throttle",
        {REASONS: ["hw_slowdown", "hw_power_brake_slowdown"]},
        {"slowdowns": ["hw_thermal_slowdown"]},
        FAIL,
        "hw_power_brake",
    ),
    ("gpu.throttle", {}, {"slowdowns": ["gpu_idle"]}, UNKNOWN, "is not one of"),
    ("gpu.throttle_history", {HEAT: 865_000_000, BRAKE: 0}, {}, WARN, "hw_thermal_slowdown for 865 s"),
    ("gpu.throttle_history", {HEAT: 864_000_000}, {}, PASS, "hardly ever"),
    ("gpu.throttle_history", {BRAKE: 865_000_000}, {}, WARN, "hw_power_brake_slowdown for 865 s"),
    ("gpu.throttle_history", {BRAKE: 865_000_000}, {"slowdowns": ["hw_power_brake_slowdown"]}, PASS, "hardly ever"),
    ("gpu.throttle_history", {HEAT: 60_999_999, UPTIME: 600.0}, {}, PASS, "hardly ever"),
    ("gpu.throttle_history", {HEAT: 61_000_000, UPTIME: 600.0}, {}, WARN, "for 61 s"),
    ("gpu.throttle_history", {HEAT: 61_000_000, UPTIME: 0.0}, {}, WARN, "for 61 s"),
    ("gpu.throttle_history", {HEAT: 61_000_000, UPTIME: {"unreadable": "no /proc"}}, {}, UNKNOWN, "no /proc"),
    ("gpu.throttle_history", {HEAT: "unknown"}, {}, UNKNOWN, "throttled_by_heat_us"),
    ("gpu.throttle_history", {HEAT: None}, {}, SKIP, "does not count it"),
    (
        "gpu.throttle_history",
        {},
        {"slowdowns": ["hw_power_brake_slowdown", "hw_thermal_slowdown"]},
        SKIP,
        "inventory says",
    ),
    ("gpu.power_draw", {(*SMI_GPU, "power_draw_w"): 0.0}, {}, WARN, "draws nothing"),
    ("gpu.power_draw", {(*SMI_GPU, "power_draw_w"): 375.1}, {}, WARN, "it draws 375.1 W and may draw 250 W"),
    ("gpu.power_draw", {(*SMI_GPU, "power_draw_w"): 375.0}, {}, PASS, "plausible"),
    (
        "gpu.power_draw",
        {(*SMI_GPU, "power_draw_w"): 375.1, (*SMI_GPU, "power_limit_w"): None},
        {},
        SKIP,
        "reports no limit",
    ),
    ("gpu.power_draw", {(*SMI_GPU, "power_draw_w"): "unknown"}, {}, UNKNOWN, "power_draw_w"),
    ("gpu.power_draw", {(*SMI_GPU, "power_draw_w"): None}, {}, SKIP, "does not measure"),
    (
        "gpu.module_power",
        {(*HEALTH, "module_power_limit_w"): 2400.0, (*HEALTH, "module_power_default_w"): 2500.0},
        {},
        WARN,
        "limited to 2400 W; its default is 2500 W",
    ),
    (
        "gpu.module_power",
        {(*HEALTH, "module_power_limit_w"): 2499.0, (*HEALTH, "module_power_default_w"): 2500.0},
        {},
        PASS,
        "own limit",
    ),
    ("gpu.module_power", {}, {}, SKIP, "no module"),
    ("gpu.link_width", NARROW, {}, FAIL, "8 of 16 lanes"),
    ("gpu.link_width", {**NARROW, SLOT: 8}, {}, WARN, "8 of 16 lanes; the slot has 8"),
    ("gpu.link_width", {**NARROW, (*HEALTH, "link_width_now"): 4, SLOT: 8}, {}, FAIL, "4 of 16 lanes"),
    ("gpu.link_width", {**NARROW, **NO_SLOT}, {}, FAIL, "8 of 16 lanes"),
    ("gpu.link_width", {**NARROW, **NO_SLOT, **GUEST}, {}, SKIP, "8 of 16 lanes; a virtual machine"),
    ("gpu.link_width", {**NARROW, **NO_SLOT, **GUEST, **NOW_4}, {}, WARN, "4 of 16 lanes; a virtual machine"),
    (
        "gpu.link_width",
        {**two("link_width_now", 16, 8), **NO_SLOT, ("machine",): "kvm"},
        {},
        WARN,
        "others of its model have 16",
    ),
    ("gpu.link_width", {**two("link_width_now", 8, 8), **NO_SLOT, ("machine",): "kvm"}, {}, SKIP, "8 of 16 lanes"),
    (
        "gpu.link_width",
        {**two("link_width_max", 16, 8)},
        {},
        WARN,
        "0000:5e:00.0: at most 8 lanes, others of its model 16",
    ),
    ("gpu.link_width", {**two("link_width_max", 16, 8)}, {"link_width": 8}, PASS, "as the inventory says"),
    ("gpu.link_width", {**two("link_width_max", 16, "unknown")}, {}, UNKNOWN, "link_width_max"),
    (
        "gpu.link_width",
        {**NARROW, **NO_SLOT, (*HEALTH, "virtualization"): "VGPU"},
        {},
        SKIP,
        "8 of 16 lanes; a virtual machine",
    ),
    ("gpu.link_width", {**OF_32, **NO_SLOT, **GUEST}, {}, WARN, "12 of 32 lanes"),
    ("gpu.link_width", {(*HEALTH, "link_width_now"): None}, {}, SKIP, "cannot see its link"),
    ("gpu.link_width", {**NARROW, **NO_SLOT, (*HEALTH, "virtualization"): None}, {}, FAIL, "8 of 16"),
    ("gpu.link_width", {**NARROW, **NO_SLOT, ("machine",): "kvm"}, {}, SKIP, "8 of 16 lanes; a virtual machine"),
    ("gpu.link_width", {**NARROW, **NO_SLOT, ("machine",): {"unreadable": "x"}}, {}, FAIL, "8 of 16"),
    ("gpu.link_width", {**NARROW, (*GPU, "pci_id"): "0000:5e:00.0", SLOT: 8}, {}, FAIL, "8 of 16"),
    ("gpu.link_width", {**NARROW, (*GPU, "link"): {}}, {}, FAIL, "8 of 16"),
    ("gpu.link_width", {(*HEALTH, "link_width_now"): 0, **GUEST}, {}, FAIL, "0 of 16"),
    ("gpu.link_width", {(*HEALTH, "link_width_now"): 0, SLOT: 0}, {}, FAIL, "0 of 16"),
    ("gpu.link_width", {(*HEALTH, "link_width_now"): 0, (*HEALTH, "link_width_max"): 0}, {}, FAIL, "0 of 0"),
    ("gpu.link_width", {SLOT: 8}, {}, PASS, "all lanes"),
    ("gpu.link_width", NARROW, {"link_width": 8}, PASS, "8 lanes, as the inventory says"),
    ("gpu.link_width", {(*HEALTH, "link_width_now"): 4}, {"link_width": 8}, FAIL, "4 lanes; the inventory says 8"),
    ("gpu.link_width", NARROW, {"link_width": "many"}, UNKNOWN, "link_width is not a number"),
    ("gpu.link_width", {(*HEALTH, "link_width_now"): "unknown"}, {}, UNKNOWN, "link_width_now"),
    ("gpu.link_generation", {GENERATION: 1}, {}, FAIL, "generation 1 of 3 in state P0"),
    ("gpu.link_generation", {GENERATION: 0}, {}, FAIL, "generation 0 of 3"),
    ("gpu.link_generation", {GENERATION: 0, (*HEALTH, "performance_state"): "P8"}, {}, FAIL, "generation 0 of 3"),
    ("gpu.link_generation", {GENERATION: 1, (*HEALTH, "performance_state"): "P2"}, {}, FAIL, "in state P2"),
    ("gpu.link_generation", {GENERATION: 1, (*HEALTH, "performance_state"): "P8"}, {}, SKIP, "idle cards"),
    (
        "gpu.link_generation",
        {GENERATION: 1, (*HEALTH, "performance_state"): "P8", (*HEALTH, "utilization_percent"): 50},
        {},
        FAIL,
        "in state P8",
    ),
    (
        "gpu.link_generation",
        {GENERATION: 1, (*HEALTH, "performance_state"): "P8", (*HEALTH, "utilization_percent"): None},
        {},
        SKIP,
        "idle cards",
    ),
    (
        "gpu.link_generation",
        {GENERATION: 1, (*HEALTH, "performance_state"): "P8", (*HEALTH, "utilization_percent"): 49},
        {},
        SKIP,
        "idle cards",
    ),
    ("gpu.link_generation", {GENERATION: None}, {}, SKIP, "cannot see its link"),
    ("gpu.pcie_replays", {(*HEALTH, "pcie_replays"): None}, {}, SKIP, "cannot see its link"),
    ("gpu.temperature", {(*SMI_GPU, "temperature_c"): None}, {}, SKIP, "cannot see its temperature"),
    ("gpu.temperature", {(*SMI_GPU, "temperature_c"): 0}, {}, WARN, "0 C: the sensor"),
    ("gpu.temperature", {(*SMI_GPU, "temperature_c"): 1}, {}, PASS, "below the temp"),
    ("gpu.link_limit", {**two("link_gen_max", 3, 1)}, {}, FAIL, "has 3, the host 3"),
    ("gpu.link_generation", {(*HEALTH, "link_gen_max"): 0}, {}, FAIL, "generation 3 of 0"),
    ("gpu.throttle", {REASONS: None}, {}, SKIP, "does not report it"),
    ("gpu.throttle", {REASONS: "unknown"}, {}, UNKNOWN, "throttle_reasons"),
    ("gpu.bar1", two("bar1_total_mib", 16384, 256), {}, WARN, "0000:5e:00.0: BAR1 has 256 MiB, others have 16384"),
    ("gpu.bar1", two("bar1_total_mib", 256, 256), {}, PASS, "the window is present"),
    ("gpu.bar1", two("bar1_total_mib", 16384, "unknown"), {}, UNKNOWN, "bar1_total_mib"),
    ("gpu.bar1", two("bar1_total_mib", 16384, 0), {}, FAIL, "BAR1 has 0 MiB"),
    ("gpu.bar1", two("bar1_total_mib", 131072, None), {}, WARN, "BAR1 is not reported, others have 131072 MiB"),
    ("gpu.bar1", two("bar1_total_mib", None, None), {}, SKIP, "without a window (C2C)"),
    ("gpu.bar1", mixed_modes(16384, 256), {}, PASS, "the window is present"),
    ("gpu.vgpu_license", {**LICENSE, (*HEALTH, "vgpu_license"): "Unlicensed (Restricted)"}, {}, FAIL, "(Restricted)"),
    ("gpu.vgpu_license", {**LICENSE, (*HEALTH, "vgpu_license"): "Unlicensed (Unrestricted)"}, {}, WARN, "(Unrestr"),
    ("gpu.vgpu_license", {**LICENSE, (*HEALTH, "vgpu_license"): "Licensed"}, {}, PASS, "licensed"),
    ("gpu.vgpu_license", {**LICENSE, (*HEALTH, "vgpu_license"): "unknown"}, {}, UNKNOWN, "vgpu_license"),
    ("gpu.vgpu_license", {**GUEST, (*HEALTH, "vgpu_license"): "Unlicensed"}, {}, SKIP, "no vGPU"),
    ("gpu.vgpu_license", LICENSE, {}, SKIP, "no vGPU"),
    ("gpu.memory_size", {(*HEALTH, "virtualization"): None}, {}, PASS, "the same on each"),
    ("gpu.memory_size", {**LICENSE, (*SMI_GPU, "memory_total_mib"): 4096}, {}, PASS, "the same on each"),
    ("gpu.link_generation", {GENERATION: 4}, {}, PASS, "as fast as it can"),
    ("gpu.link_generation", {GENERATION: "unknown"}, {}, UNKNOWN, "link_gen_now"),
    (
        "gpu.link_limit",
        {(*HEALTH, "link_gen_card"): 4, (*HEALTH, "link_gen_host"): 4},
        {},
        FAIL,
        "at most generation 3; the card has 4, the host 4",
    ),
    ("gpu.link_limit", {(*HEALTH, "link_gen_card"): 4}, {}, PASS, "as fast as"),
    ("gpu.link_limit", {(*HEALTH, "link_gen_card"): 6, (*HEALTH, "link_gen_host"): None}, {}, SKIP, "does not report"),
    ("gpu.link_limit", {(*HEALTH, "link_gen_card"): 6, (*HEALTH, "link_gen_host"): 0}, {}, SKIP, "does not report"),
    ("gpu.link_limit", {(*HEALTH, "link_gen_card"): None, (*HEALTH, "link_gen_host"): 5}, {}, SKIP, "does not report"),
    ("gpu.pcie_replays", {(*HEALTH, "pcie_replays"): 174, UPTIME: 60.0}, {}, PASS, "few packets"),
    ("gpu.pcie_replays", {(*HEALTH, "pcie_replays"): 480, UPTIME: {"unreadable": "x"}}, {}, PASS, "few packets"),
    ("gpu.pcie_replays", {(*HEALTH, "pcie_replays"): 481, UPTIME: {"unreadable": "x"}}, {}, UNKNOWN, "uptime_s: x"),
    ("gpu.pcie_replays", {(*HEALTH, "pcie_replays"): 481, UPTIME: 1.0}, {}, WARN, "481 replays, 8.0 a minute"),
    ("gpu.pcie_replays", {(*HEALTH, "pcie_replays"): 11520}, {}, PASS, "few packets"),
    ("gpu.pcie_replays", {(*HEALTH, "pcie_replays"): 11521}, {}, WARN, "11521 replays, 8.0 a minute"),
    ("gpu.pcie_replays", {(*HEALTH, "pcie_replay_rollovers"): 1}, {}, WARN, "rolled over"),
    ("gpu.pcie_replays", {(*HEALTH, "pcie_replay_rollovers"): "unknown"}, {}, UNKNOWN, "rollovers"),
    ("gpu.c2c", {**GB200, (*HEALTH, "c2c_mode"): "Disabled"}, {}, FAIL, "C2C is Disabled"),
    ("gpu.c2c", {**GB200, (*HEALTH, "c2c_mode"): "unknown"}, {}, UNKNOWN, "c2c_mode"),
    ("gpu.c2c", {(*HEALTH, "c2c_mode"): "Disabled"}, {}, SKIP, "no Grace processor"),
    ("gpu.c2c", GB200, {}, SKIP, "does not report it"),
    ("gpu.addressing_mode", GB200, {}, WARN, "addressing mode is HMM, ATS is expected"),
    ("gpu.addressing_mode", {**GB200, (*HEALTH, "addressing_mode"): "ATS"}, {}, PASS, "as it should be"),
    ("gpu.addressing_mode", {**GB200, (*HEALTH, "addressing_mode"): "unknown"}, {}, UNKNOWN, "addressing_mode"),
    ("gpu.addressing_mode", {**GB200, (*HEALTH, "addressing_mode"): None}, {}, SKIP, "does not report it"),
    ("gpu.addressing_mode", {}, {}, SKIP, "no Grace"),
    ("gpu.gsp_firmware", {(*HEALTH, "gsp_firmware"): "570.86.10"}, {}, FAIL, "0000:3b:00.0 has 570.86.10"),
    ("gpu.gsp_firmware", {(*HEALTH, "gsp_firmware"): "580.65.06"}, {}, PASS, "driver's branch"),
    ("gpu.gsp_firmware", two("gsp_firmware", "580.95.05", "570.1"), {}, FAIL, "0000:5e:00.0 has 570.1"),
    ("gpu.gsp_firmware", {(*HEALTH, "gsp_firmware"): "unknown"}, {}, UNKNOWN, "gsp_firmware"),
    ("gpu.gsp_firmware", {(*SMI_GPU, "architecture"): "blackwell"}, {}, UNKNOWN, "reports no GSP firmware"),
    ("gpu.gsp_firmware", {SMI: DOWN}, {}, UNKNOWN, "driver cannot be queried"),
    ("gpu.gsp_firmware", {}, {}, SKIP, "no GSP firmware in use: 0000:3b:00.0"),
    ("gpu.inforom", {(*HEALTH, "inforom_image"): "unknown"}, {}, UNKNOWN, "inforom_image"),
    ("gpu.inforom", {(*HEALTH, "inforom_image"): None}, {}, SKIP, "0000:3b:00.0 reports no version"),
    ("gpu.mig_mode", {(*SMI_GPU, "mig_mode"): "Disabled", (*HEALTH, "mig_pending"): "Enabled"}, {}, WARN, "will be"),
    ("gpu.mig_mode", {(*SMI_GPU, "mig_mode"): "Disabled", (*HEALTH, "mig_pending"): "Disabled"}, {}, PASS, "no card"),
    ("gpu.sram", {(*HEALTH, "sram_uncorrected_aggregate"): 0, (*HEALTH, "sram_uncorrected_sources"): 5}, {}, FAIL, "5"),
    (
        "gpu.remapped_rows_count",
        {(*HEALTH, "remapped_rows_uncorrected"): 0, (*HEALTH, "remapped_rows_corrected"): 512},
        {},
        FAIL,
        "512 for corrected ones",
    ),
    (
        "gpu.remapped_rows_count",
        {(*HEALTH, "remapped_rows_uncorrected"): 0, (*HEALTH, "remapped_rows_corrected"): 511},
        {},
        PASS,
        "no row",
    ),
    (
        "gpu.performance_state",
        {(*SMI_GPU, "name"): "NVIDIA L40", (*HEALTH, "performance_state"): "?"},
        {},
        UNKNOWN,
        "?",
    ),
    ("driver.ecc", {(*SMI_GPU, "ecc_uncorrected_volatile"): None}, {}, SKIP, "not counted in MIG mode"),
    (
        "driver.ecc",
        {(*SMI_GPU, "ecc_uncorrected_volatile"): None, (*HEALTH, "mig_uncorrected_volatile"): 0},
        {},
        PASS,
        "no uncorrected error",
    ),
    (
        "driver.ecc",
        {(*SMI_GPU, "ecc_uncorrected_volatile"): None, (*HEALTH, "mig_uncorrected_volatile"): 3},
        {},
        FAIL,
        "3 on",
    ),
    ("gpu.nvlink", {LINKS: [{**NVLINK, "active": 0, "mig": "Not Supported"}]}, {}, SKIP, "cards: Not Supported"),
    ("gpu.nvlink", {LINKS: [{**NVLINK, "active": 0, "mig": ""}]}, {}, SKIP, "MIG mode, which has no NVLink"),
    ("gpu.nvlink", {LINKS: [{**NVLINK, "active": 11, "mig": ""}]}, {}, FAIL, "11 of 12"),
    ("gpu.nvlink", {LINKS: [{**NVLINK, "mig": ""}]}, {}, PASS, "all links are up"),
    ("gpu.nvlink_errors", {LINKS: [{**NVLINK, "errors": {}, "mig": ""}]}, {}, SKIP, "does not count them in MIG"),
    (
        "gpu.nvlink_errors",
        {LINKS: [{**NVLINK, "errors": {}, "mig": ""}, {**NVLINK, "errors": {}}]},
        {},
        UNKNOWN,
        "nothing about 2 cards",
    ),
    (
        "driver.reachable",
        {(*SMI, "status"): "gpu_lost", (*SMI, "message"): "a GPU has fallen off the PCI bus"},
        {},
        FAIL,
        "fallen off",
    ),
    ("driver.retired_pages", {(*SMI_GPU, "remapped_rows_failure"): False}, {}, UNKNOWN, "reports only half"),
    ("driver.retired_pages", {(*SMI_GPU, "remapped_rows_pending"): False}, {}, UNKNOWN, "reports only half"),
    ("gpu.ecc_corrected", {(*HEALTH, "ecc_corrected_volatile"): None}, {}, SKIP, "not counted in MIG mode"),
    ("gpu.c2c", {(*HEALTH, "c2c_mode"): "unknown"}, {}, UNKNOWN, "c2c_mode"),
    ("gpu.nvlink_errors", {LINKS: [{**NVLINK, "errors": {"replay": 0}, "mig": ""}]}, {}, PASS, "no error on 1 cards"),
    ("gpu.nvlink_errors", {LINKS: [{**NVLINK, "errors": {"replay": 2}, "mig": ""}]}, {}, WARN, "2 replay"),
]
