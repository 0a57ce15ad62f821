"""The table of believable "N/A" against the captures: field x architecture x MIG mode."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpuwright.gpu.cards import CHIPS
from gpuwright.gpu.nvidia_smi.absent import REMAPS_ROWS, RETIRES_PAGES, RULES, Card, believed, may_be_absent
from gpuwright.gpu.nvidia_smi.values import UNKNOWN
from gpuwright.gpu.nvidia_smi.xml import parse_log

DATA = Path(__file__).parents[1] / "data" / "nvidia_smi"
NOT_FIELDS = ("name", "architecture", "processes", "health", "pci_id")
STRICT = ("ecc_mode", "mig_mode", "power_draw_w", "power_limit_w")
V100 = Card("Tesla V100-PCIE-16GB", "volta", None, "Enabled")


def test_every_rule_has_a_source_and_every_architecture_its_place():
    assert all(rule.source and rule.fields for rule in RULES)
    assert {chip.architecture for chip in CHIPS.values()} <= {*RETIRES_PAGES, *REMAPS_ROWS}


@pytest.mark.parametrize("file", sorted(DATA.glob("*.xml")), ids=lambda file: file.stem)
def test_what_healthy_cards_lack_is_in_the_table(file):
    for gpu in parse_log(file.read_text())["gpus"]:
        card = Card(gpu["name"], gpu["architecture"], gpu["mig_mode"], gpu["ecc_mode"], gpu["device_id"])
        fields = {name: gpu[name] for name in gpu if name not in NOT_FIELDS}
        assert UNKNOWN not in fields.values()
        # Older captures were shortened before these values were read.
        fields.update(gpu["health"] if file.stem == "580-v100" else {})
        assert [name for name, value in fields.items() if value is None and not may_be_absent(name, card)] == []


@pytest.mark.parametrize(
    ("field", "change", "allowed"),
    [
        ("temperature_c", {}, False),
        ("uuid", {}, False),
        ("a_field_of_tomorrow", {}, False),
        ("retired_pages_pending", {}, False),
        ("retired_pages_pending", {"ecc": "Disabled"}, True),
        ("retired_pages_pending", {"ecc": UNKNOWN}, False),
        ("retired_pages_pending", {"architecture": "hopper"}, True),
        ("remapped_rows_pending", {}, True),
        ("remapped_rows_pending", {"architecture": "hopper", "name": "NVIDIA H100"}, False),
        ("remapped_rows_pending", {"architecture": "hopper", "name": "NVIDIA H100", "mig": "Enabled"}, True),
        ("remapped_rows_pending", {"architecture": "hopper", "name": "NVIDIA H100", "mig": UNKNOWN}, False),
        ("mig_mode", {}, True),
        ("mig_mode", {"name": "NVIDIA A100-SXM4-40GB", "architecture": "ampere"}, False),
        # MIG came with Ampere: of an older card that no row knows, nothing else can be true.
        ("mig_mode", {"name": "GRID K520", "architecture": "kepler"}, True),
        ("temperature_c", {"virtualization": "vgpu"}, True),
        ("temperature_c", {"virtualization": "pass-through"}, False),
        ("uuid", {"virtualization": "vgpu"}, False),
        ("throttle_reasons", {}, False),
        ("throttle_reasons", {"name": "NVIDIA GeForce GT 730"}, True),
        ("power_limit_w", {}, False),
        ("power_limit_w", {"name": "NVIDIA GeForce RTX 3090"}, True),
        ("ecc_mode", {"name": "NVIDIA GeForce RTX 3090"}, True),
        ("serial", {}, True),
        # What no row places may lack least; its PCI id or a line of products that NVIDIA names says more.
        *((name, {"name": "NVIDIA B400", "architecture": UNKNOWN}, False) for name in STRICT),
        *((name, {"name": "NVIDIA GeForce RTX 6090", "architecture": UNKNOWN}, True) for name in STRICT),
        *((name, {"name": "NVIDIA B400", "architecture": UNKNOWN, "device_id": "2b85"}, True) for name in STRICT),
        *((name, {"name": "Graphics Device", "architecture": UNKNOWN, "device_id": "2901"}, False) for name in STRICT),
        ("remapped_rows_pending", {"name": "NVIDIA B400", "architecture": "blackwell"}, False),
        # On workstation cards it is known which have ECC; they are delivered with it off.
        ("ecc_mode", {"name": "NVIDIA RTX A6000", "architecture": "ampere"}, False),
        ("ecc_mode", {"name": "Quadro P4000", "architecture": "pascal"}, True),
        ("ecc_mode", {"name": "Tesla M10", "architecture": "maxwell"}, True),
        ("mig_mode", {"name": "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "architecture": "blackwell"}, True),
        ("mig_mode", {"name": "NVIDIA RTX PRO 6000 Blackwell Server Edition", "architecture": "blackwell"}, False),
    ],
)
def test_the_table(field, change, allowed):
    card = V100._replace(**change)
    assert may_be_absent(field, card) is allowed
    assert believed(None, field, card) == (None if allowed else UNKNOWN)
    assert believed(0, field, card) == 0 and believed(UNKNOWN, field, card) == UNKNOWN
