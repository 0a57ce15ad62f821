# SPDX-License-Identifier: Apache-2.0
"""The parameters of gpu_verify, and whether they can be used; loads nothing of the checks."""

import os
from typing import Any, Dict, Mapping

from ..training.smoke import OPTIONS, wrong_option

# Of the smoke test, besides how it is run.
OF_A_RUN: Dict[str, Dict[str, Any]] = {
    "agents": {"type": "list", "elements": "str"},
    "hours": {"type": "float", "default": 0.0},
    "names": {"type": "list", "elements": "str"},
}
SPEC: Dict[str, Dict[str, Any]] = {
    "expectations": {"type": "dict"},
    "smoke": {"type": "dict"},
    "smoke_test": {"type": "dict", "options": dict(OPTIONS, **OF_A_RUN)},
    "report_folder": {"type": "path"},
    "report_path": {"type": "path"},
    "verified_path": {"type": "path"},
    "level": {"type": "str", "choices": ["quick", "standard", "deep"], "default": "standard"},
    "simulated": {"type": "str", "default": ""},
    "nvidia_smi_timeout": {"type": "float", "default": 30},
    "stamp": {"type": "dict"},
    "hold": {"type": "str"},
    "claim": {"type": "dict"},
}


def wrong_parameter(params: Mapping[str, Any], check_mode: bool) -> str:
    """What is wrong with the parameters other than the expectations, "" if nothing is."""
    seconds = params["nvidia_smi_timeout"]
    if not seconds > 0:
        return f"nvidia_smi_timeout: {seconds} is not a waiting time; expected seconds above 0"
    if params["smoke_test"] and wrong_option(params["smoke_test"]):
        return f"smoke_test: {wrong_option(params['smoke_test'])}"
    for name in ("report_path", "verified_path"):
        path = params[name]
        # On a new node, an earlier task would have made the folder, which check mode only announced.
        if path and not (os.path.isabs(path) and (check_mode or os.path.isdir(os.path.dirname(path)))):
            return f"{name}: {path}: expected an absolute path in an existing folder"
    if params["hold"]:
        return "hold: the action plugin that takes the lock was not found; name it in full: gpuwright.node.gpu_verify"
    return ""
