"""What nvidia-smi says inside a virtual machine that was given a part of a card (vGPU).

The host keeps to itself what is of the whole card: heat, power, link, InfoROM, repairs. Forms as in answers of guests
under drivers 535 to 580: the card's own PCI id, a firmware of zeros, the memory of the profile.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

DATA = Path(__file__).parents[1] / "data" / "nvidia_smi"
KEPT_BY_THE_HOST = (
    "serial",
    "inforom_version",
    "gpu_reset_status",
    "gpu_recovery_action",
    "gsp_firmware_version",
    "pci/pci_gpu_link_info",
    "pci/replay_counter",
    "pci/replay_rollover_counter",
    "fan_speed",
    "temperature",
    "power_readings",
    "gpu_power_readings",
    "module_power_readings",
    "applications_clocks",
    "default_applications_clocks",
    "clocks_event_reasons_counters",
)
ONE_WORD = ("clocks_throttle_reasons", "clocks_event_reasons", "remapped_rows")
LICENSED = "Licensed (Expiry: 2027-3-19 7:29:4 GMT)"


def guest(file: str, name: str, memory_mib: int, license_status: str | None = LICENSED, **texts: str) -> str:
    """The answer of this file as a guest's; `texts` by path with _ for /, such as ecc_mode_current_ecc, go in last."""
    root = ElementTree.fromstring((DATA / file).read_text().split("?>", 1)[1].split(">", 1)[1])
    for gpu in root.findall("gpu"):
        for path in KEPT_BY_THE_HOST:
            block = gpu.find(path)
            for leaf in [] if block is None else block.iter():
                leaf.text = leaf.text if len(leaf) else "N/A"
        for path in ONE_WORD:
            for block in gpu.findall(path):
                block[:] = []
                block.text = "N/A"
        put(gpu, "product_name", name)
        put(gpu, "vbios_version", "00.00.00.00.00")
        put(gpu, "gpu_virtualization_mode/virtualization_mode", "VGPU")
        put(gpu, "fb_memory_usage/total", f"{memory_mib} MiB")
        if license_status is not None:
            put(gpu, "vgpu_software_licensed_product/licensed_product_name", "NVIDIA Virtual Compute Server")
            put(gpu, "vgpu_software_licensed_product/license_status", license_status)
        for path, text in texts.items():
            put(gpu, path.replace("__", "/"), text)
    return ElementTree.tostring(root, encoding="unicode")


def put(gpu: ElementTree.Element, path: str, text: str) -> None:
    """Set the text at `path`, and make what is not there."""
    for tag in path.split("/"):
        child = gpu.find(tag)
        gpu = ElementTree.SubElement(gpu, tag) if child is None else child
    gpu.text = text
