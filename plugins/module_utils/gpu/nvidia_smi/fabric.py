# SPDX-License-Identifier: Apache-2.0
"""What nvidia-smi's XML says about a card's place in the NVSwitch fabric, and about the fabric's own health.

Drivers from 535 on have the block, from 550 on `health` in it, from 580 on its `summary`; a card without a fabric
writes N/A everywhere. Names as in nvml.h (NVML_GPU_FABRIC_HEALTH_MASK_*).
"""

from typing import Any, Dict
from xml.etree.ElementTree import Element

from .tags import flag_at, members, text_at

HEALTH = "fabric/health"


def read_fabric(gpu: Element) -> Dict[str, Any]:
    """State, status, domain, and each field of the health; flags are True if the fabric has that problem."""
    found = {
        "fabric_state": text_at(gpu, "fabric/state"),
        "fabric_status": text_at(gpu, "fabric/status"),
        "fabric_clique": text_at(gpu, "fabric/cliqueId"),
        "fabric_cluster": text_at(gpu, "fabric/clusterUuid"),
    }
    return dict(members(gpu, "fabric", lambda _gpu: found), **members(gpu, HEALTH, _read_health))


def _read_health(gpu: Element) -> Dict[str, Any]:
    return {
        "fabric_summary": text_at(gpu, HEALTH + "/summary"),
        "fabric_bandwidth": text_at(gpu, HEALTH + "/bandwidth"),
        "fabric_route_recovery": flag_at(gpu, HEALTH + "/route_recovery_in_progress"),
        "fabric_route_unhealthy": flag_at(gpu, HEALTH + "/route_unhealthy"),
        "fabric_access_timeout": flag_at(gpu, HEALTH + "/access_timeout_recovery"),
        "fabric_configuration": text_at(gpu, HEALTH + "/incorrect_configuration"),
        "fabric_partition": flag_at(gpu, HEALTH + "/partition_assigned"),
    }
