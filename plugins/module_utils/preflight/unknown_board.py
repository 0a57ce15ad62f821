# SPDX-License-Identifier: Apache-2.0
"""Boards with NVSwitches: one that no row of the matrix knows is not installed, only scanned and verified."""

from typing import Any, List, Mapping

from .problem import Problem, problem

GUIDE = "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/"


def platform_problems(host: Mapping[str, Any]) -> List[Problem]:
    """Switches of a board that this version has no row for, and a remark on a board whose switches nobody sees here.

    host  what gpu_probe returned; its `platform` says both
    """
    found = host.get("platform") or {}
    if not found.get("because"):
        return []
    if found.get("known"):
        text = "Nothing is installed for the NVSwitches that GPUs of this kind are always behind"
        step = "In a virtual machine nothing; in a server, find out why the functions are not on the PCI bus."
        return [problem("platform.elsewhere", text, found["because"], step, stops=False)]
    text = (
        "This version does not know the board of this node, whose GPUs are behind NVSwitches, nor what it needs: "
        "without that, CUDA computes nothing (error 802)"
    )
    step = (
        f"Install it by NVIDIA's guide, {GUIDE} ; playbooks/scan.yml and playbooks/verify.yml judge it as it is. To "
        "let gpuwright install it, write its row into roles/preflight/files/matrix/platforms.yml and run make docs."
    )
    return [problem("platform.unknown", text, found["because"], step)]
