"""A virtual machine with a part of a card: what the host keeps to itself is no failed reading, what is told counts."""

from __future__ import annotations

import pytest
import vgpu_guest
from gpuwright.doctor.replay.given_file import XML, Piece
from gpuwright.doctor.replay.judge import judged
from gpuwright.verdict.check import FAIL, PASS, SKIP, UNKNOWN, WARN

V100 = ("580-v100.xml", "GRID V100D-8C", 8192)
H100 = ("570-h100-two.xml", "NVIDIA H100XM-40C", 40960)
# What the shortened capture of H100s lacks.
REST = {
    "bar1_memory_usage__total": "65536 MiB",
    "compute_mode": "Default",
    "applications_clocks__graphics_clock": "N/A",
    "applications_clocks__mem_clock": "N/A",
    "default_applications_clocks__graphics_clock": "N/A",
    "default_applications_clocks__mem_clock": "N/A",
    "pci__pci_gpu_link_info__link_widths__current_link_width": "N/A",
    "pci__pci_gpu_link_info__link_widths__max_link_width": "N/A",
    "pci__replay_counter": "N/A",
    "pci__replay_rollover_counter": "N/A",
    "performance_state": "P0",
    "fb_memory_usage__used": "0 MiB",
    "ecc_mode__pending_ecc": "Enabled",
}
ECC_OFF = {
    "ecc_mode__current_ecc": "N/A",
    "ecc_mode__pending_ecc": "N/A",
    "ecc_errors__volatile__double_bit__total": "N/A",
    "ecc_errors__volatile__single_bit__total": "N/A",
    "ecc_errors__aggregate__double_bit__total": "N/A",
    "retired_pages__pending_retirement": "N/A",
    "retired_pages__pending_blacklist": "N/A",
}


def states(text: str) -> dict[str, str]:
    return {record["id"]: record["status"] for record in judged(Piece(XML, text))["checks"]}


def bad(text: str) -> dict[str, str]:
    found = judged(Piece(XML, text))["checks"]
    return {record["id"]: record["message"] for record in found if record["status"] not in (PASS, SKIP)}


@pytest.mark.parametrize(("card", "texts"), [(V100, {}), (V100, ECC_OFF), (H100, REST)])
def test_a_healthy_guest_is_not_accused(card, texts):
    text = vgpu_guest.guest(*card, **texts)
    assert bad(text) == {}
    assert judged(Piece(XML, text))["verdict"] == PASS
    found = states(text)
    for name in ("gpu.temperature", "gpu.power_draw", "gpu.link_width", "gpu.pcie_replays", "gpu.throttle"):
        assert found.get(name) == SKIP, name


@pytest.mark.parametrize(
    ("texts", "check_id", "status"),
    [
        ({"ecc_errors__volatile__double_bit__total": "1"}, "driver.ecc", FAIL),
        ({"retired_pages__pending_retirement": "Yes"}, "driver.retired_pages", FAIL),
        ({"fb_memory_usage__total": "0 MiB"}, "gpu.memory_size", FAIL),
        ({"temperature__gpu_temp": "ERR!"}, "gpu.temperature", UNKNOWN),
        ({"pci__replay_counter": "[Unknown Error]"}, "gpu.pcie_replays", UNKNOWN),
        ({"ecc_mode__current_ecc": "ERR!"}, "driver.ecc", UNKNOWN),
        ({"clocks_event_reasons": "ERR!"}, "gpu.throttle", UNKNOWN),
        ({"compute_mode": "Prohibited"}, "gpu.compute_mode", FAIL),
    ],
)
def test_what_a_guest_is_told_counts(texts, check_id, status):
    assert states(vgpu_guest.guest(*V100, **texts))[check_id] == status


@pytest.mark.parametrize(
    ("license_status", "status"),
    [
        ("Licensed", PASS),
        (vgpu_guest.LICENSED, PASS),
        ("Licensed (Expiry: N/A)", PASS),
        ("Unlicensed (Unrestricted)", WARN),
        ("Unlicensed (Restricted)", FAIL),
        ("Unlicensed", FAIL),
        ("Expired", FAIL),
        ("ERR!", UNKNOWN),
        ("N/A", SKIP),
        (None, SKIP),
    ],
)
def test_a_guest_without_a_licence_is_slowed_down(license_status, status):
    assert states(vgpu_guest.guest(*V100, license_status))["gpu.vgpu_license"] == status


def test_a_whole_card_is_held_to_all_of_it():
    """The same N/A on a card that was passed through as a whole is a reading that failed."""
    text = vgpu_guest.guest(*V100).replace(">VGPU<", ">Pass-Through<")
    found = states(text)
    for name in ("gpu.temperature", "gpu.power_draw", "gpu.pcie_replays", "gpu.throttle"):
        assert found[name] == UNKNOWN, name
    assert found["gpu.memory_size"] == FAIL
    assert found["gpu.vgpu_license"] == SKIP
