"""The table of PCI device ids."""

from __future__ import annotations

import pytest
from gpuwright.gpu.cards import CARDS, CHIPS
from gpuwright.gpu.device_table import BLOCKS
from gpuwright.gpu.devices import NAMES, describe_device, find_devices
from module_files import load_file

device_table = load_file("tools/device_table.py")


def test_the_table_is_what_the_matrix_says():
    matrix = device_table.read_devices()
    assert device_table.TABLE.read_text() == device_table.table(matrix), "run `make docs`"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("devices", "GV100", "cards", "Tesla V100-PCIE-16GB", "ids"), ["1db4", "1db9"]),
        (("devices", "GV100", "cards", "Tesla V100-PCIE-16GB", "class"), "consumer"),
        (("devices", "GV100", "cards", "Tesla V100-PCIE-16GB", "ecc"), {"kind": "none"}),
        (("devices", "GV100", "cards", "Tesla V100-PCIE-16GB", "memory"), {"kind": "hbm2", "gib": 17}),
        (("devices", "GV100", "compute_capability"), "7.1"),
        (("architectures", "volta", "memory_repair"), "rows"),
        (("known_good", "v100-memory", "measures"), {"copy_gb_s": 751.0}),
        (("card_naming", 0, "class"), "consumer"),
    ],
)
def test_a_changed_row_is_drift(path, value):
    matrix = device_table.read_devices()
    *parents, last = path
    record = matrix
    for key in parents:
        record = record[key]
    record[last] = value
    assert device_table.TABLE.read_text() != device_table.table(matrix)


@pytest.mark.parametrize(
    ("device_id", "name"),
    [
        ("1db1", "Tesla V100-SXM2-16GB"),
        ("1db2", "Tesla V100-DGXS-16GB"),
        ("1db3", "Tesla V100-FHHL-16GB"),
        ("1db4", "Tesla V100-PCIE-16GB"),
        ("1db5", "Tesla V100-SXM2-32GB"),
        ("1db6", "Tesla V100-PCIE-32GB"),
        ("1db7", "Tesla V100-DGXS-32GB"),
        ("1db8", "Tesla V100-SXM3-32GB"),
        ("1df5", "Tesla V100-SXM2-16GB"),
        ("1df6", "Tesla V100S-PCIE-32GB"),
        ("1df0", "Tesla PG500-216"),
        ("1df2", "Tesla PG503-216"),
        ("1d81", "NVIDIA TITAN V"),
        ("1dba", "Quadro GV100"),
    ],
)
def test_the_volta_family_is_exact(device_id, name):
    assert describe_device(device_id) == (name, "volta", "7.0")


@pytest.mark.parametrize(
    ("device_id", "architecture", "capability"),
    [
        ("102d", "kepler", "3.7"),
        ("1023", "kepler", "3.5"),
        ("118f", "kepler", "3.0"),
        ("13f2", "maxwell", "5.2"),
        ("15f8", "pascal", "6.0"),
        ("1b38", "pascal", "6.1"),
        ("1eb8", "turing", "7.5"),
        ("20b0", "ampere", "8.0"),
        ("20f3", "ampere", "8.0"),
        ("2236", "ampere", "8.6"),
        ("2235", "ampere", "8.6"),
        ("26b5", "ada", "8.9"),
        ("27b8", "ada", "8.9"),
        ("2330", "hopper", "9.0"),
        ("2335", "hopper", "9.0"),
        ("2901", "blackwell", "10.0"),
        ("3182", "blackwell", "10.3"),
        ("2b85", "blackwell", "12.0"),
    ],
)
def test_one_card_of_each_generation(device_id, architecture, capability):
    device = describe_device(device_id)
    assert device[1:] == (architecture, capability)
    assert not device.name.startswith("unknown")


@pytest.mark.parametrize("device_id", ["1340", "1d7f", "1dff"])
def test_an_unnamed_card_of_a_known_block_has_its_architecture(device_id):
    device = describe_device(device_id)
    assert device.name == f"unknown 10de:{device_id}"
    assert device.architecture in ("maxwell", "pascal", "volta")


@pytest.mark.parametrize("device_id", ["0000", "ffff", "", "unknown", "1db", "zzzz", "1db44"])
def test_what_the_table_does_not_know_is_not_guessed(device_id):
    assert describe_device(device_id) == (f"unknown 10de:{device_id}", "unknown", None)


def test_upper_case_is_the_same_card():
    assert describe_device("1DB4") == describe_device("1db4")


def test_blocks_do_not_overlap_and_know_their_chips():
    assert list(BLOCKS) == sorted(BLOCKS)
    for (first, last, chip), following in zip(BLOCKS, [*BLOCKS[1:], (0x10000, 0x10000, "")], strict=True):
        assert first <= last < following[0]
        assert chip in CHIPS


def test_a_named_card_lies_in_the_block_of_its_chip():
    """The K80's GK210 is numbered among GK110; any other card elsewhere is a slip of the pen."""
    elsewhere = {
        device_id
        for card in CARDS
        for device_id in card.ids
        if not any(first <= int(device_id, 16) <= last for first, last, owner in BLOCKS if owner == card.chip)
    }
    assert elsewhere == {"102d"}


def test_every_generation_has_named_cards():
    found = [describe_device(device_id).architecture for device_id in NAMES]
    assert set(found) == {chip.architecture for chip in CHIPS.values()}
    assert min(found.count(architecture) for architecture in found) >= 4


def test_every_named_card_has_an_architecture():
    assert {name for name in NAMES if describe_device(name).architecture == "unknown"} == set()
    assert {card.chip for card in CARDS} <= set(CHIPS)
    assert all(len(device_id) == 4 and device_id == device_id.lower() for device_id in NAMES)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("NVIDIA A16", ["25b6"]),
        ("A2", ["25b6"]),
        ("Quadro RTX 8000", ["1e30", "1e78"]),
        ("NVIDIA GH200 480GB", ["2342"]),
        ("NVIDIA B300", ["3182"]),
        ("GeForce RTX 3060", ["2487", "24c7", "2503", "2504", "2544"]),
    ],
)
def test_a_person_finds_a_card_by_any_of_its_names(asked, found):
    assert find_devices(asked) == found


def test_cards_that_share_an_id_are_named_together():
    assert describe_device("25b6") == ("NVIDIA A2 or A16", "ampere", "8.6")
    assert describe_device("1e30").name == "Quadro RTX 6000 or RTX 8000"
