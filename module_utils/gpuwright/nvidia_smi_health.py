# SPDX-License-Identifier: Apache-2.0
"""The part of nvidia-smi's XML that tells how a card is: memory, heat, power, link, fabric.

As everywhere in these readers: None is "this card or driver has no such thing", UNKNOWN is "nothing says what it is".
"""

import re

from .nvidia_smi_absent import believed
from .nvidia_smi_values import UNKNOWN, clean, first_known, read_flag, read_mode, read_number, read_text, total

WIDTH = re.compile(r"([0-9]{1,2})x$")
# In the place of what a newer driver no longer tells of any card.
GONE = "functionality has been deprecated"
DEPRECATED = "deprecated"


def read_health(gpu, card):
    """One flat record of the element `gpu`; `card` decides which value may be absent."""
    found = {
        "vbios": read_text(gpu.findtext("vbios_version")),
        "compute_mode": read_text(gpu.findtext("compute_mode")),
        "ecc_pending": read_mode(gpu.findtext("ecc_mode/pending_ecc")),
        "ecc_corrected_volatile": _corrected(gpu.find("ecc_errors/volatile")),
        "sram_uncorrected_aggregate": _sram(gpu.find("ecc_errors/aggregate")),
        "sram_threshold_exceeded": _flag_if_there(gpu, "ecc_errors/aggregate/sram_threshold_exceeded"),
        "retired_pages_single_bit": _retired(gpu, "multiple_single_bit_retirement"),
        "retired_pages_double_bit": _retired(gpu, "double_bit_retirement"),
        "remapped_rows_uncorrected": _number_if_there(gpu, "remapped_rows/remapped_row_unc"),
        "temperature_slowdown_c": _number_if_there(gpu, "temperature/gpu_temp_slow_threshold", "C"),
        "temperature_margin_c": _number_if_there(gpu, "temperature/gpu_temp_tlimit", "C"),
        "power_default_w": _default_power(gpu),
        "utilization_percent": _number_if_there(gpu, "utilization/gpu_util", "%"),
        "link_width_now": _width(gpu, "current_link_width"),
        "link_width_max": _width(gpu, "max_link_width"),
        "pcie_replays": read_number(gpu.findtext("pci/replay_counter"), ""),
        "bar1_total_mib": read_number(gpu.findtext("bar1_memory_usage/total"), "MiB"),
        "fabric_state": _text_if_there(gpu, "fabric/state"),
        "fabric_status": _text_if_there(gpu, "fabric/status"),
        "performance_state": read_text(gpu.findtext("performance_state")),
        "clocks_applied": _clocks(gpu, "applications_clocks"),
        "clocks_default": _clocks(gpu, "default_applications_clocks"),
        "unrepairable_memory": _flag_if_there(gpu, "ecc_errors/unrepairable_memory"),
        "gsp_firmware": _text_if_there(gpu, "gsp_firmware_version"),
    }
    return {field: believed(value, field, card) for field, value in found.items()}


def read_warnings(text, begin, end):
    """What nvidia-smi wrote around its XML that warns of something, such as a corrupted InfoROM."""
    around = (text[:begin] + "\n" + text[end:]).splitlines()
    return [clean(line) for line in around if "warning" in line.lower() or "corrupt" in line.lower()]


def _number_if_there(gpu, path, unit=""):
    tag = gpu.find(path)
    return None if tag is None else read_number(tag.text, unit)


def _text_if_there(gpu, path):
    tag = gpu.find(path)
    return None if tag is None else read_text(tag.text)


def _flag_if_there(gpu, path):
    tag = gpu.find(path)
    return None if tag is None else read_flag(tag.text)


def _corrected(errors):
    """Corrected errors since the driver was loaded: single bits up to Volta, by kind of memory from Turing on."""
    if errors is None:
        return UNKNOWN
    if errors.find("single_bit") is not None:
        return read_number(errors.findtext("single_bit/total"), "")
    return total(read_number(error.text, "") for error in errors if re.match(r"[sd]ram_correctable", error.tag))


def _sram(errors):
    """Errors of the memory inside the chip over its life; None where the driver counts them in another way."""
    kinds = [] if errors is None else [error for error in errors if error.tag.startswith("sram_uncorrectable")]
    return total(read_number(error.text, "") for error in kinds) if kinds else None


def _retired(gpu, kind):
    return _number_if_there(gpu, "retired_pages/{}/retired_count".format(kind))


def _default_power(gpu):
    tags = [gpu.find(block + "/default_power_limit") for block in ("gpu_power_readings", "power_readings")]
    return first_known(read_number(tag.text, "W", whole=False) for tag in tags if tag is not None)


def _clocks(gpu, block):
    """ "MEMORY,GRAPHICS" in MHz, as nvidia-smi --applications-clocks takes them; DEPRECATED where they are no more."""
    texts = [gpu.findtext("{}/{}".format(block, name)) for name in ("mem_clock", "graphics_clock")]
    if all(GONE in clean(text) for text in texts):
        return DEPRECATED
    numbers = [read_number(text, "MHz") for text in texts]
    if numbers == [None, None]:
        return None
    return UNKNOWN if None in numbers or UNKNOWN in numbers else "{},{}".format(*numbers)


def _width(gpu, name):
    """Lanes of the PCIe link."""
    text = clean(gpu.findtext("pci/pci_gpu_link_info/link_widths/" + name))
    match = WIDTH.match(text)
    return int(match.group(1)) if match else (None if text == "N/A" else UNKNOWN)
