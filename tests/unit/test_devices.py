"""The table of PCI device ids."""

from __future__ import annotations

import pytest
from gpuwright.devices import BLOCKS, CHIP_EXCEPTIONS, CHIPS, NAMES, describe_device


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


def test_every_named_card_has_an_architecture():
    assert {name for name in NAMES if describe_device(name).architecture == "unknown"} == set()
    assert set(CHIP_EXCEPTIONS.values()) <= set(CHIPS)
    assert all(len(device_id) == 4 and device_id == device_id.lower() for device_id in NAMES)
