# SPDX-License-Identifier: Apache-2.0
"""The ranks that run on this node, for the check of their placement."""

from typing import Any, Dict, List

from ...launch.running.processes import read_ranks
from ...launch.runtime_policy import load_policy, pci_address


def read_running(root: str, nvidia_smi: Any) -> List[Dict[str, Any]]:
    """A row for each running rank, as `launch.running.processes.read_ranks` has them; `nvidia_smi` is that reading.

    ValueError if nvidia-smi does not say who is computing.
    """
    named = load_policy(root)["gpu_nodes"].items()
    return read_ranks(_computing(nvidia_smi), root, corrected={pci_address(name): node for name, node in named})


def _computing(nvidia_smi: Any) -> Dict[int, List[str]]:
    """{pid: PCI addresses of the GPUs on which it computes}."""
    if nvidia_smi is None:
        raise ValueError("there is no nvidia-smi to say who computes on which GPU")
    if "unreadable" in nvidia_smi:
        raise ValueError(f"nvidia-smi does not say who computes on which GPU: {nvidia_smi['unreadable']}")
    found = {}  # type: Dict[int, List[str]]
    for gpu in nvidia_smi["gpus"]:
        if not isinstance(gpu["processes"], list):
            raise ValueError(f"nvidia-smi does not say who computes on GPU {gpu['pci_id']}")
        for process in gpu["processes"]:
            if "C" in str(process["type"]):
                found.setdefault(process["pid"], []).append(gpu["pci_id"])
    return found
