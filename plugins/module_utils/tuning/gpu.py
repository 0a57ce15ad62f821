# SPDX-License-Identifier: Apache-2.0
"""Power limit and application clocks of GPUs, with the range that each card reports; through nvidia-smi."""

from typing import Any, Dict, Mapping, Optional
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from ..gpu.nvidia_smi.values import read_number
from ..host.bounded import run_bounded
from .disk import NotHere

SECONDS = 60
POWER = ("gpu_power_readings", "power_readings")


def ask() -> Dict[str, Dict[str, Any]]:
    """`{uuid: {power_limit, power_range, clocks, clocks_offered}}`; None for values that a card does not have.

    Watts as numbers, clocks as "MEMORY,GRAPHICS" in MHz. Raises NotHere if nvidia-smi does not answer.
    """
    done = run_bounded(["nvidia-smi", "-q", "-x"], SECONDS)
    if done.rc != 0:
        reason = done.problem or " ".join((done.stdout + done.stderr).split())[:200] or done.rc
        raise NotHere(f"the driver cannot be queried for its GPUs: {reason}")
    begin, end = done.stdout.find("<nvidia_smi_log"), done.stdout.rfind("</nvidia_smi_log>")
    try:
        if begin < 0 or end < 0:
            raise ValueError("no <nvidia_smi_log> in it")
        log = ElementTree.fromstring(done.stdout[begin : end + len("</nvidia_smi_log>")])
    except (ValueError, ElementTree.ParseError) as error:
        raise NotHere(f"nvidia-smi -q -x cannot be read: {error}")
    gpus = {(gpu.findtext("uuid") or "").strip(): _gpu(gpu) for gpu in log.findall("gpu")}
    if not gpus or "" in gpus:
        raise NotHere("nvidia-smi shows no GPU, or one without a UUID")
    return gpus


def _gpu(gpu: Element) -> Dict[str, Any]:
    power = next((gpu.find(tag) for tag in POWER if gpu.find(tag) is not None), None)
    watts = {} if power is None else {tag.tag: _number(tag.text, "W") for tag in power}
    lowest, highest = watts.get("min_power_limit"), watts.get("max_power_limit")
    offered = set()
    for memory in gpu.findall("supported_clocks/supported_mem_clock"):
        for graphics in memory.findall("supported_graphics_clock"):
            offered.add(_pair(memory.findtext("value"), graphics.text))
    return {
        "power_limit": next(
            (
                watts[name]
                for name in ("requested_power_limit", "current_power_limit", "power_limit")
                if watts.get(name)
            ),
            None,
        ),
        "power_range": (lowest, highest) if lowest and highest else None,
        "clocks": _pair(
            gpu.findtext("applications_clocks/mem_clock"), gpu.findtext("applications_clocks/graphics_clock")
        ),
        "clocks_offered": sorted(offered - {None}),
    }


def _number(text: Optional[str], unit: str) -> Optional[float]:
    value = read_number(text, unit, whole=False)
    return value if isinstance(value, (int, float)) else None


def _pair(memory: Optional[str], graphics: Optional[str]) -> Optional[str]:
    first, second = _number(memory, "MHz"), _number(graphics, "MHz")
    return None if first is None or second is None else f"{first:g},{second:g}"


def refusal(gpus: Mapping[str, Mapping[str, Any]], what: str, wanted: str) -> str:
    """Why some card cannot be set to `wanted` (it is outside the range that the card reports), or ""."""
    for uuid, gpu in sorted(gpus.items()):
        if what == "power_limit":
            if gpu["power_range"] is None:
                return f"{uuid} reports no range for its power limit, so it cannot be set"
            lowest, highest = gpu["power_range"]
            if not lowest <= float(wanted) <= highest:
                return f"{uuid} accepts {lowest:g} to {highest:g} W"
        elif not gpu["clocks_offered"] or gpu["clocks"] is None:
            return f"{uuid} offers no application clocks"
        elif wanted not in gpu["clocks_offered"]:
            near = sorted(gpu["clocks_offered"], key=lambda pair: _distance(pair, wanted))[:3]
            return f"{uuid} does not offer them; the nearest are {' '.join(near)}"
    return ""


def _distance(pair: str, wanted: str) -> Any:
    """How far apart two pairs of clocks are, in MHz."""
    here, there = [[float(number) for number in clocks.split(",")] for clocks in (pair, wanted)]
    return abs(here[0] - there[0]) + abs(here[1] - there[1])


def value(gpus: Mapping[str, Mapping[str, Any]], uuid: str, what: str) -> str:
    """The value of one card as text; NotHere if it has none."""
    if uuid not in gpus:
        raise NotHere(f"there is no GPU {uuid}")
    found = gpus[uuid][what]
    if found is None:
        raise NotHere(f"{uuid} does not report its {what.replace('_', ' ')}")
    return found if isinstance(found, str) else f"{found:g}"


def set_value(uuid: str, what: str, wanted: str) -> None:
    """Set a value; raises OSError with nvidia-smi's words."""
    option = {"power_limit": "--power-limit", "clocks": "--applications-clocks"}[what]
    done = run_bounded(["nvidia-smi", "--id=" + uuid, f"{option}={wanted}"], SECONDS)
    if done.rc != 0:
        words = done.problem or " ".join((done.stdout + done.stderr).split())[:200] or done.rc
        raise OSError(f"nvidia-smi {option}={wanted} for {uuid}: {words}")
