# SPDX-License-Identifier: Apache-2.0
"""What a scan compares a host with: not a plan, but what its own parts say about each other, and the known limits."""

import fnmatch
import os
from typing import Dict, List

from ...checks.all import CHECKS
from ...checks.driver.loaded import CARD_NODE
from ...host.files import below, exists
from ...probe.hardware import PCI_FOLDER
from ...verdict.check import Check
from ...verdict.expectations import EXPECTATIONS_PATH, PLAN_PARTS, SCHEMA

# Patterns of ids. Without a plan or an inventory nobody can say what these should be.
OF_A_PLAN = (
    "gpu.plan",
    "gpu.dcgm_diag",
    "driver.version",
    "driver.flavour",
    "driver.modules",
    "host.size",
    "host.training_user",
    "cuda.*",
    "cudnn.*",
    "nccl.*",
    "runtime.*",
    "framework.*",
    "model.*",
    "smoke.*",
    "performance.*",
)
# These examine what the toolkit keeps or has set on its nodes.
OF_A_NODE = (
    "gpu.strikes",
    "host.services",
    "host.tuning",
    "host.repositories",
    "host.repository_files",
    "containers.*",
    "waivers.valid",
)
NOT_A_NODE = "not a node of this toolkit"
NO_PLAN = "a scan does not compare a node with a plan; gpu-doctor does"
# In the expectations of a scan: why checks are left out.
KEY = "scan"
# The code of their records.
LEFT_OUT = "left-out-of-scan"
NO_PCI = "{} is not there, so it is not known which cards this host has".format(PCI_FOLDER)


def is_node(root: str = "/") -> bool:
    """Whether the toolkit has set up this host, judged by the files that each of its nodes has."""
    return exists(root, EXPECTATIONS_PATH)


def why_left_out(root: str = "/") -> str:
    """The reason for every check that is left out on this host."""
    return NO_PLAN if is_node(root) else NOT_A_NODE


def is_scan(expectations: object) -> bool:
    """Whether these are the expectations of a scan; they can also come from a report or bundle."""
    return isinstance(expectations, dict) and expectations.get(KEY) in (NOT_A_NODE, NO_PLAN)


def off_node(expectations: Dict) -> bool:
    """Whether a scan was of a host that the toolkit has not set up."""
    return expectations.get(KEY) == NOT_A_NODE


def is_left_out(check: Check, expectations: Dict) -> bool:
    """Whether a scan with these expectations leaves the check out."""
    patterns = OF_A_PLAN + (OF_A_NODE if off_node(expectations) else ())
    return any(fnmatch.fnmatchcase(check.id, pattern) for pattern in patterns)


def scanned_checks(expectations: Dict) -> List[Check]:
    """The checks that a scan judges."""
    return [check for check in CHECKS if not is_left_out(check, expectations)]


def scan_expectations(readings: Dict, user: str, root: str = "/") -> Dict:
    """The expectations that follow from the host itself, in the format of a node's.

    readings  what was read; the probe, nvidia-smi and the kernel's log say which cards there are
    user      the account that must be able to open the device files

    As many cards as anything shows, of any model, and a plan that installs nothing.
    """
    host = readings["probe"]
    plan: Dict[str, Dict] = {part: {} for part in PLAN_PARTS}
    plan["driver"] = {"branch": "", "version": "", "source": "", "flavour": _flavour(host)}
    return {
        "schema": SCHEMA,
        KEY: why_left_out(root),
        "gpu_count": _gpu_count(host, readings["nvidia_smi"], readings["kernel_log"] or {}),
        "gpu_model": "",
        "training_user": user,
        "plan": plan,
        "services": [],
        "slowdowns": [],
        "link_width": 0,
        "skip_checks": {},
    }


def _gpu_count(host: Dict, nvidia_smi: Dict, kernel_log: Dict) -> object:
    """As many cards as any reading shows: one that has fallen off the bus leaves its device file, and its Xid."""
    if "unreadable" in host:
        return {"unreadable": host["unreadable"]}
    answer = nvidia_smi.get("gpus") if nvidia_smi.get("reachable") is True else None
    nodes = [name for name in host["nvidia"]["device_nodes"] if CARD_NODE.fullmatch(name)]
    # The module does not stay loaded if there is no card to drive.
    some = 1 if host["nvidia"]["loaded"] or kernel_log.get("xids") else 0
    traces = max(len(answer or []), len(nodes), some)
    if isinstance(host["gpus"], list):
        return max(len(host["gpus"]), traces)
    return traces or dict(host["gpus"])


def _flavour(host: Dict) -> str:
    """Flavour of the loaded module, else of the one installed for the next boot: the one that a plan would keep."""
    nvidia = host.get("nvidia") or {}
    installed = (nvidia.get("modules") or {}).get((host.get("kernel") or {}).get("next_boot"))
    module = nvidia.get("loaded") or installed or {}
    return module.get("flavour") or "open or proprietary"


def without_bus(host: Dict, root: str = "/") -> Dict:
    """The probe's record; if the PCI bus cannot be listed at all, an empty list of cards does not mean "no card"."""
    if "unreadable" in host or host["gpus"]:
        return host
    try:
        os.listdir(below(root, PCI_FOLDER))
    except OSError:
        return dict(host, gpus={"unreadable": NO_PCI})
    return host
