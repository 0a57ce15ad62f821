# SPDX-License-Identifier: Apache-2.0
"""Read the XML of `nvidia-smi -q -x` as drivers 418 to 620 write it.

Tags were renamed within one DTD version (525 and 535 both say v12), so each value is looked up under all of its names,
and the DTD version is ignored.
"""

import re
from typing import Any, Dict, List, Optional, Union
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from ...host.patterns import lazily
from ..devices import ARCHITECTURES, describe_device
from .absent import Card, believed
from .health import read_health, read_warnings, watts
from .repair import uncorrected
from .values import (
    LOST_WORDS,
    NEEDS_RESET,
    UNKNOWN,
    Flag,
    any_flag,
    clean,
    first_known,
    read_flag,
    read_mode,
    read_number,
    read_text,
    read_version,
)

ROOT_TAG = "nvidia_smi_log"


# From 610 on, a renamed value has a note after it or in a comment next to it.
DEPRECATION = lazily(r" ?\[Deprecated.*", re.IGNORECASE | re.DOTALL)
COMMENT = lazily(r"<!--.*?-->", re.DOTALL)


class UnreadableXml(Exception):
    """The text is not the XML of nvidia-smi; the message says what is wrong with it."""


def parse_log(text: str) -> Dict[str, Any]:
    """`{driver_version, cuda_version, attached_gpus, gpus, warnings}` from the text; raises `UnreadableXml`."""
    text = COMMENT.sub("", text)
    begin, end = text.find("<" + ROOT_TAG), text.rfind(f"</{ROOT_TAG}>")
    return log_of(_parse(text), read_warnings(text, begin, end))


def log_of(root: Element, warnings: List[str]) -> Dict[str, Any]:
    """The same of the element `nvidia_smi_log`."""
    driver = _version(root, "kmd_version", "driver_version")
    return {
        "driver_version": driver,
        "cuda_version": _version(root, "cuda_umd_version", "cuda_version"),
        "attached_gpus": read_number(root.findtext("attached_gpus"), ""),
        "gpus": [read_gpu(gpu, _branch(driver)) for gpu in root.findall("gpu")],
        "warnings": warnings,
    }


def has_log(text: str) -> bool:
    """Whether nvidia-smi's XML, whole or damaged, is in the text."""
    return "<" + ROOT_TAG in COMMENT.sub("", text)


def around_log(text: str) -> str:
    """What nvidia-smi wrote before and after its XML."""
    text = COMMENT.sub("", text)
    begin, end = text.find("<" + ROOT_TAG), text.rfind(f"</{ROOT_TAG}>")
    return text if begin < 0 else text[:begin] + "\n" + (text[end:] if end >= begin else "")


def _version(root: Element, *names: str) -> Optional[str]:
    """The first of the elements that exists; the older of the two names is to be removed with CUDA 14."""
    texts = [root.findtext(name) for name in names if root.find(name) is not None]
    return first_known(read_version(DEPRECATION.sub("", text or "")) for text in texts)


def _branch(version: Optional[str]) -> Optional[int]:
    """580 for "580.95.05"; None for a version that cannot be read."""
    number = (version or "").partition(".")[0]
    return int(number) if number.isdecimal() else None


def _parse(text: str) -> Element:
    # nvidia-smi may write warnings before and after its XML.
    begin, end = text.find("<" + ROOT_TAG), text.rfind(f"</{ROOT_TAG}>")
    if begin < 0:
        raise UnreadableXml(f"no <{ROOT_TAG}> in it")
    if end < begin:
        raise UnreadableXml(f"it is cut off before </{ROOT_TAG}>")
    # Nothing before the first element is needed, and an entity can only be declared there. Comments are removed.
    if "<!" in text[begin:end] or "<?" in text[begin:end] or "<!ENTITY" in text[:begin]:
        raise UnreadableXml("it declares entities or other markup, which nvidia-smi never does")
    try:
        return ElementTree.fromstring(text[begin:end] + f"</{ROOT_TAG}>")
    except (ElementTree.ParseError, ValueError) as error:
        raise UnreadableXml(f"it is damaged: {error}")


def read_gpu(gpu: Element, driver: Optional[int] = None) -> Dict[str, Any]:
    """One record, see docs/parts/node.md; N/A becomes None only if this kind of card, or this driver, may say so."""
    name = read_text(gpu.findtext("product_name")) or UNKNOWN
    architecture, device_id = _architecture(gpu), _device_id(gpu)
    virtualization = clean(gpu.findtext("gpu_virtualization_mode/virtualization_mode")).lower()
    c2c = clean(gpu.findtext("c2c_mode"))
    bare = Card(name, architecture, None, None, device_id, virtualization, driver, c2c)
    ecc_mode = believed(read_mode(gpu.findtext("ecc_mode/current_ecc")), "ecc_mode", bare)
    card = bare._replace(mig=_mig_mode(gpu, bare), ecc=ecc_mode)
    values = {
        "uuid": read_text(gpu.findtext("uuid")),
        "serial": read_text(gpu.findtext("serial")),
        "name": name,
        "pci_id": _pci_id(gpu),
        "device_id": device_id or UNKNOWN,
        "architecture": architecture,
        "memory_total_mib": read_number(gpu.findtext("fb_memory_usage/total"), "MiB"),
        "memory_used_mib": read_number(gpu.findtext("fb_memory_usage/used"), "MiB"),
        "temperature_c": read_number(gpu.findtext("temperature/gpu_temp"), "C"),
        "power_draw_w": watts(gpu, "instant_power_draw", "power_draw", "average_power_draw"),
        "power_limit_w": watts(gpu, "current_power_limit", "power_limit", "enforced_power_limit"),
        "persistence_mode": read_mode(gpu.findtext("persistence_mode")),
        "ecc_mode": ecc_mode,
        "mig_mode": card.mig,
        "ecc_uncorrected_volatile": uncorrected(gpu.find("ecc_errors/volatile")),
        "retired_pages_pending": _retirement_pending(gpu),
        "remapped_rows_pending": _remapped(gpu, "remapped_row_pending"),
        "remapped_rows_failure": _remapped(gpu, "remapped_row_failure"),
        "recovery_action": _recovery_action(gpu),
        "throttle_reasons": _throttle_reasons(gpu),
    }
    found = {field: believed(value, field, card) for field, value in values.items()}
    return dict(found, lost=_is_lost(gpu), processes=_processes(gpu), health=read_health(gpu, card))


def _is_lost(gpu: Element) -> bool:
    """Whether one of this card's values is the driver's word for a card that no longer answers on the bus."""
    return any(words in clean(tag.text) for tag in gpu.iter() for words in LOST_WORDS)


def _architecture(gpu: Element) -> str:
    """In the words of the device table; drivers before 470 do not write it, so the table is used first."""
    known = describe_device(_device_id(gpu)).architecture
    if known != "unknown":
        return known
    word = clean(gpu.findtext("product_architecture")).lower().split(" ")[0]
    return word if word in ARCHITECTURES else UNKNOWN


def _device_id(gpu: Element) -> str:
    """ "1db4" for "1DB410DE", device before vendor; "" for anything else."""
    match = re.match(r"([0-9A-F]{4})10DE$", clean(gpu.findtext("pci/pci_device_id")), re.IGNORECASE)
    return match.group(1).lower() if match else ""


def _pci_id(gpu: Element) -> str:
    """The address as sysfs writes it: nvidia-smi uses capitals and a domain of eight digits."""
    address = clean(gpu.get("id") or gpu.findtext("pci/pci_bus_id"))
    match = re.match(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])$", address)
    return f"{int(match.group(1), 16):04x}:{match.group(2).lower()}" if match else UNKNOWN


def _mig_mode(gpu: Element, card: Card) -> Optional[str]:
    text = gpu.findtext("mig_mode/current_mig")
    # Drivers before 450 do not know MIG and have no such tag.
    return believed(None if text is None else read_mode(text), "mig_mode", card)


def _retirement_pending(gpu: Element) -> Flag:
    """Drivers from 470 on write the same value under both names; if only one reads N/A, the reading has failed."""
    tags = [gpu.find("retired_pages/" + name) for name in ("pending_retirement", "pending_blacklist")]
    return any_flag(read_flag(tag.text) for tag in tags if tag is not None)


def _remapped(gpu: Element, name: str) -> Flag:
    """None for "N/A" in place of the whole block (cards without row remapping, drivers without the block, MIG)."""
    rows = gpu.find("remapped_rows")
    if rows is None:
        return None
    return read_flag(rows.text) if len(rows) == 0 else read_flag(rows.findtext(name))


def _recovery_action(gpu: Element) -> Optional[str]:
    """none, or what the driver asks for in its own words; None if it is too old (before 535) to ask."""
    action = gpu.findtext("gpu_recovery_action")
    text = None if action is None else read_text(action)
    if isinstance(text, str) and text.lower() not in ("none", UNKNOWN):
        return text.lower()
    # Old and new drivers write this in place of values that they cannot read, whatever the action says.
    if any(clean(tag.text) == NEEDS_RESET for tag in gpu.iter()):
        return "gpu reset"
    if action is not None:
        return text.lower() if isinstance(text, str) else text
    status = gpu.find("gpu_reset_status")
    if status is None:
        return None
    flags = [read_flag(status.findtext(name)) for name in ("reset_required", "drain_and_reset_recommended")]
    if True in flags:
        return "gpu reset" if flags[0] is True else "drain and reset"
    return UNKNOWN if UNKNOWN in flags else "none"


def _throttle_reasons(gpu: Element) -> Union[None, str, List[str]]:
    """Names, without their long prefix, of the reasons that hold the clocks down; UNKNOWN if one is unreadable."""
    block = gpu.find("clocks_event_reasons")
    block = gpu.find("clocks_throttle_reasons") if block is None else block
    if block is None or (len(block) == 0 and clean(block.text) != "N/A"):
        return UNKNOWN
    reasons = [(re.sub(r"^clocks_(throttle|event)_reasons?_", "", tag.tag), read_flag(tag.text)) for tag in block]
    if UNKNOWN in [flag for _name, flag in reasons]:
        return UNKNOWN
    return sorted(clean(name) for name, flag in reasons if flag) if reasons else None


def _processes(gpu: Element) -> Union[str, List[Dict[str, Any]]]:
    """Programs on this GPU with pid, kind (C compute, G graphics), name, memory in MiB; UNKNOWN if there is no list."""
    block = gpu.find("processes")
    if block is None or (len(block) == 0 and clean(block.text)):
        return UNKNOWN
    return [
        {
            "pid": read_number(info.findtext("pid"), ""),
            "type": read_text(info.findtext("type")),
            "name": read_text(info.findtext("process_name")),
            "used_memory_mib": read_number(info.findtext("used_memory"), "MiB"),
        }
        for info in block.findall("process_info")
    ]
