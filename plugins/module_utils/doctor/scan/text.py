# SPDX-License-Identifier: Apache-2.0
"""A scan for people: what is there, what was left out (one line for each reason), and last what is wrong."""

from typing import Dict, List, Optional

from ...verdict.check import NEEDS_ROOT, SKIP
from ...verdict.report import printable, summary_line
from ..report_text import in_families, report_lines
from .scope import KEY, LEFT_OUT

LEAST_NAME = 12


def scan_lines(report: Dict, columns: Optional[int], everything: bool, program: str) -> List[str]:
    """The lines of a scan's report; like `report_text.report_lines`, but what needs root is counted separately."""
    why, only_root = report["expectations"][KEY], "only root can see this: sudo {}".format(program)
    apart: Dict[str, List[Dict]] = {why: [], only_root: []}
    rest: List[Dict] = []
    for check in report["checks"]:
        reason = {LEFT_OUT: why, NEEDS_ROOT: only_root}.get(check["code"])
        (rest if reason is None or (everything and reason == only_root) else apart[reason]).append(check)
    lines = host_lines(report["readings"]) + [""]
    for reason, checks in apart.items():
        if checks:
            names = in_families([check["id"] for check in checks]) if everything else ""
            words = "{:<7}  {} checks: {}".format(SKIP, len(checks), reason) + (" ({})".format(names) if names else "")
            lines.append(printable(words))
    lines += report_lines(rest, columns, everything, program) + [""]
    return lines + ["{}: {} ({})".format(report["host"], report["verdict"], summary_line(report["checks"]))]


def host_lines(readings: Dict) -> List[str]:
    """System, cards and driver, each in a line."""
    host, smi = readings["probe"], readings["nvidia_smi"]
    if "unreadable" in host:
        rows = [("host", host["unreadable"])]
    else:
        system = "{}, kernel {}, {}".format(host["os"]["name"], host["kernel"]["running"], host["machine"])
        rows = [("system", system), ("GPUs", _cards(host)), ("driver", _driver(host))]
    if smi.get("reachable") is True and smi.get("cuda_version"):
        rows.append(("CUDA", "up to {} by this driver".format(smi["cuda_version"])))
    place = readings["confinement"].get("manager")
    if place:
        rows.append(("inside", "{}: it may see less than the host has".format(place)))
    return [printable("{:<{}} {}".format(name, LEAST_NAME, value)) for name, value in rows]


def _cards(host: Dict) -> str:
    if isinstance(host["gpus"], dict):
        return host["gpus"]["unreadable"]
    names = ["{name} ({device_id})".format(**gpu) for gpu in host["gpus"]]
    counted = ["{} x {}".format(names.count(name), name) for name in sorted(set(names))]
    return ", ".join(counted) or "no NVIDIA GPU on the PCI bus"


def _driver(host: Dict) -> str:
    nvidia = host["nvidia"]
    if nvidia["loaded"]:
        return "{version} ({flavour}), loaded".format(**nvidia["loaded"])
    if nvidia["user_space"]:
        return "{}, installed and not loaded".format(nvidia["user_space"])
    return "nouveau" if host["nouveau_loaded"] else "none from NVIDIA"
