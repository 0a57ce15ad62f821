# SPDX-License-Identifier: Apache-2.0
"""The part of nvidia-smi's XML that gives a card's health: memory, heat, power, link, fabric.

As in all these readers, None means "this card or driver has no such thing", UNKNOWN "nothing says what it is".
"""

from typing import Any, Dict, List, Optional
from xml.etree.ElementTree import Element

from ...host.patterns import lazily
from .absent import (
    Card,
    believed,
)
from .fabric import read_fabric
from .repair import read_repair
from .tags import amount_at, mode_at, number_at, text_at
from .values import (
    NOT_THERE,
    UNKNOWN,
    Count,
    clean,
    first_known,
    read_mode,
    read_number,
    read_text,
)

WIDTH = lazily(r"([0-9]{1,2})x$")
# Written in place of values that a newer driver no longer reports for any card.
GONE = "functionality has been deprecated"
DEPRECATED = "deprecated"
# Where drivers write power limits; from 610 on, those of the GPU are one element deeper.
POWER_BLOCKS = ("gpu_power_readings", "gpu_power_readings/gpu_ceiling_power_limit", "power_readings")
# gpu_temp_tlimit; a newer name has other underscores or says margin. Limits of the range have more words behind.
MARGIN = lazily(r"(?:gpu_)?(?:temp_)?(?:t_?limit|temperature_margin|temp_margin|margin)(?:_temp)?$")
COUNTERS = "clocks_event_reasons_counters/clocks_event_reasons_counters_"


def read_health(gpu: Element, card: Card) -> Dict[str, Any]:
    """One flat record of the element `gpu`; `card` decides which value may be absent."""
    found = {
        "vbios": read_text(gpu.findtext("vbios_version")),
        "inforom_image": text_at(gpu, "inforom_version/img_version"),
        "gsp_firmware": text_at(gpu, "gsp_firmware_version"),
        "virtualization": text_at(gpu, "gpu_virtualization_mode/virtualization_mode"),
        "vgpu_license": text_at(gpu, "vgpu_software_licensed_product/license_status"),
        "addressing_mode": text_at(gpu, "addressing_mode"),
        "c2c_mode": mode_at(gpu, "c2c_mode"),
        "compute_mode": read_text(gpu.findtext("compute_mode")),
        "mig_pending": mode_at(gpu, "mig_mode/pending_mig"),
        "ecc_pending": read_mode(gpu.findtext("ecc_mode/pending_ecc")),
        "bar1_total_mib": read_number(gpu.findtext("bar1_memory_usage/total"), "MiB"),
        "utilization_percent": number_at(gpu, "utilization/gpu_util", "%"),
        "performance_state": read_text(gpu.findtext("performance_state")),
        "clocks_applied": _clocks(gpu, "applications_clocks"),
        "clocks_default": _clocks(gpu, "default_applications_clocks"),
        "throttled_by_heat_us": number_at(gpu, COUNTERS + "hw_therm_slowdown", "us"),
        "throttled_by_brake_us": number_at(gpu, COUNTERS + "hw_power_brake", "us"),
    }
    for read in (read_repair, read_heat, read_power, read_link, read_fabric):
        found.update(read(gpu))
    return {field: believed(value, field, card) for field, value in found.items()}


def read_heat(gpu: Element) -> Dict[str, Any]:
    """Temperatures in degrees Celsius, and the fan speed in percent of the maximum."""
    return {
        "temperature_slowdown_c": number_at(gpu, "temperature/gpu_temp_slow_threshold", "C"),
        "temperature_margin_c": _margin(gpu),
        "temperature_memory_c": number_at(gpu, "temperature/memory_temp", "C"),
        "temperature_memory_max_c": number_at(gpu, "temperature/gpu_temp_max_mem_threshold", "C"),
        "fan_speed": number_at(gpu, "fan_speed", "%"),
    }


def _margin(gpu: Element) -> Count:
    """Degrees up to the slowdown, under whichever name this driver has for the card's T.Limit."""
    found = [tag for tag in gpu.findall("temperature/*") if MARGIN.match(tag.tag)]
    return first_known(read_number(tag.text, "C") for tag in found) if found else None


def read_power(gpu: Element) -> Dict[str, Any]:
    """Power in watts; `module_*` is that of the module which carries both the GPU and the Grace processor."""
    return {
        "power_default_w": watts(gpu, "default_power_limit"),
        "module_power_default_w": amount_at(gpu, "module_power_readings/default_power_limit", "W"),
        "module_power_limit_w": amount_at(gpu, "module_power_readings/current_power_limit", "W"),
    }


def read_link(gpu: Element) -> Dict[str, Any]:
    """The PCIe link: lanes, generations, and packets sent again since the driver was loaded."""
    info = "pci/pci_gpu_link_info/pcie_gen/"
    return {
        "link_width_now": _width(gpu, "current_link_width"),
        "link_width_max": _width(gpu, "max_link_width"),
        "link_gen_now": number_at(gpu, info + "current_link_gen"),
        "link_gen_max": number_at(gpu, info + "max_link_gen"),
        "link_gen_card": number_at(gpu, info + "max_device_link_gen"),
        "link_gen_host": number_at(gpu, info + "max_host_link_gen"),
        "pcie_replays": read_number(gpu.findtext("pci/replay_counter"), ""),
        "pcie_replay_rollovers": number_at(gpu, "pci/replay_rollover_counter"),
    }


def read_warnings(text: str, begin: int, end: int) -> List[str]:
    """Warnings that nvidia-smi wrote around its XML, such as one about a corrupted InfoROM."""
    around = (text[:begin] + "\n" + text[end:]).splitlines()
    return [clean(line) for line in around if "warning" in line.lower() or "corrupt" in line.lower()]


def watts(gpu: Element, *names: str) -> Count:
    """Watts, from whichever of the blocks and names this driver has; UNKNOWN if one of them is a word for an error."""
    tags = [gpu.find(f"{block}/{name}") for name in names for block in POWER_BLOCKS]
    found = [(read_number(tag.text, "W", whole=False), clean(tag.text)) for tag in tags if tag is not None]
    failed = [text for value, text in found if value == UNKNOWN and GONE not in text]
    return UNKNOWN if failed else first_known(value for value, _text in found)


def _clocks(gpu: Element, block: str) -> Optional[str]:
    """ "MEMORY,GRAPHICS" in MHz, as nvidia-smi --applications-clocks takes them; DEPRECATED if they no longer exist."""
    texts = [gpu.findtext(f"{block}/{name}") for name in ("mem_clock", "graphics_clock")]
    if all(GONE in clean(text) for text in texts):
        return DEPRECATED
    numbers = [read_number(text, "MHz") for text in texts]
    if numbers == [None, None]:
        return None
    return UNKNOWN if None in numbers or UNKNOWN in numbers else "{},{}".format(*numbers)


def _width(gpu: Element, name: str) -> Count:
    """Lanes of the PCIe link."""
    text = clean(gpu.findtext("pci/pci_gpu_link_info/link_widths/" + name))
    match = WIDTH.match(text)
    return int(match.group(1)) if match else (None if text in NOT_THERE else UNKNOWN)
