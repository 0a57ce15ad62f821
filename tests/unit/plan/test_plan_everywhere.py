"""Every GPU on every system with every profile: a plan that has its lock file, or a refusal; nothing in between.

A plan depends on a card through its architecture and compute capability alone; tests/deep asks for each card by its id.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.question import imagined_host
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from conftest import REPOSITORY
from fact_schemas import plan_errors
from gpuwright.gpu.cards import card_of
from gpuwright.gpu.devices import NAMES, describe_device
from test_plan_questions import MATRIX

LOCKS = {file.name for file in (REPOSITORY / "roles/framework_pytorch/files/locks").glob("*.txt")}
# A plan depends on a system through its family and its Pythons alone.
SYSTEMS = [
    *{(row["family"], *row["pythons"]): f"{row['id']} {row['version']}" for row in MATRIX["os_releases"]}.values()
]
EL = ("rhel", "rocky", "almalinux")
# Those that are soldered beside another processor have no plan; tests/deep asks for them, too.
KINDS = {
    describe_device(device_id)[1:]: device_id for device_id in sorted(NAMES) if not card_of(device_id=device_id).machine
}
# What no plan can be made for, by what the vendors say.
REFUSED: dict[str, set] = {
    "current": {("kepler", "3.0"), ("kepler", "3.5")},
    "documented": {"kepler", "hopper", "blackwell"},
}


def shortcomings(device_id: str, system: str, profile: str) -> tuple[list[str], bool]:
    """What is wrong with the answer for one card, and whether it is a refusal."""
    answer: dict[str, Any] = solve(
        {**MATRIX, "locks": sorted(LOCKS)}, imagined_host("10de:" + device_id, system), {"profile": profile}
    )
    if "conflicts" in answer:
        speechless = not all(entry["what"].endswith(".") and entry["clash"] for entry in answer["conflicts"])
        return ["a refusal without reasons"] * speechless, True
    found = plan_errors(answer)
    torch = answer["pytorch"]
    if card_of(device_id=device_id).machine:
        # Looked at alone: there are locks for what is installed on.
        return found + ["it is called locked"] * torch["locked"], False
    found += [torch["lock"] + " does not exist"] * (torch["lock"] not in LOCKS)
    found += ["PyPI does not serve it"] * bool(torch["index_url"]) + ["it is not called locked"] * (not torch["locked"])
    return found, False


def is_el(system: str, major: str) -> bool:
    name, version = system.split()
    return name in EL and version.split(".")[0] == major


def must_be_refused(device_id: str, system: str, profile: str) -> bool:
    device = describe_device(device_id)
    if card_of(device_id=device_id).machine:
        # NVIDIA's repository for aarch64, and wheels with CUDA for it, which begin with PyTorch 2.11 for Python 3.10.
        return profile == "documented" or system == "debian 12" or system.split()[1] in ("8.6", "8.7", "9.0", "9.1")
    if profile == "documented":
        # Only RHEL 8 and its rebuilds have Python 3.8 and CUDA 11.8.
        return device.architecture in REFUSED[profile] or not is_el(system, "8")
    # That repository begins with CUDA 13.0, which ended with Turing; that for EL 9 with a branch after Kepler's.
    no_toolkit = is_el(system, "10") and device.architecture in ("kepler", "maxwell", "pascal", "volta")
    no_driver = device.architecture == "kepler" and not (is_el(system, "8") or system == "ubuntu 22.04")
    # The V100 of boards with switches: its driver is in Debian 13's archive alone, which has no fabric manager.
    no_manager = device_id == "1db8" and system == "debian 13"
    return device[1:] in REFUSED[profile] or no_toolkit or no_driver or no_manager


@pytest.mark.parametrize("profile", sorted(MATRIX["profiles"]))
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_kind_of_gpu(system: str, profile: str) -> None:
    for device_id in KINDS.values():
        found, refused = shortcomings(device_id, system, profile)
        assert found == [], (device_id, system, profile)
        assert refused == must_be_refused(device_id, system, profile), (device_id, describe_device(device_id), system)
