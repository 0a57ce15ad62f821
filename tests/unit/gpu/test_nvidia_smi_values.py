"""The value grammar of nvidia-smi: every token that captures show, and what it may not be mistaken for."""

from __future__ import annotations

import pytest
from gpuwright.gpu.nvidia_smi.values import (
    UNKNOWN,
    any_flag,
    clean,
    first_known,
    read_flag,
    read_mode,
    read_number,
    read_text,
    read_version,
    total,
)
from hypothesis import given
from hypothesis import strategies as st

# Tokens for "there is no such thing", with and without brackets.
ABSENT = ["N/A", "[N/A]", " N/A\n", "[Not Supported]", "Not Supported", "[Not Available]"]
# Tokens for "there is, and it cannot be read", and what damage leaves.
UNREADABLE = [
    "ERR!", "[Unknown Error]", "Unknown Error", "[GPU requires reset]", "GPU requires reset",
    "[Insufficient Permissions]", "Requested functionality has been deprecated",
    "[Requested functionality has been deprecated]", "", "  ", None, "[", "]", "[]", "n/a", "NA", "None",
]  # fmt: skip
READERS = {
    "number": lambda text: read_number(text, "MiB"),
    "watts": lambda text: read_number(text, "W", whole=False),
    "flag": read_flag,
    "mode": read_mode,
    "version": read_version,
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("text", ABSENT)
def test_absent(reader, text):
    assert reader(text) is None


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("text", UNREADABLE)
def test_unreadable_is_never_a_value(reader, text):
    assert reader(text) == UNKNOWN


@pytest.mark.parametrize(
    ("text", "unit", "whole", "expected"),
    [
        ("15360 MiB", "MiB", True, 15360),
        (" 0 MiB ", "MiB", True, 0),
        ("40 C", "C", True, 40),
        ("-5 C", "C", True, -5),
        ("2", "", True, 2),
        ("26.78 W", "W", False, 26.78),
        ("250 W", "W", False, 250.0),
        ("15 GiB", "MiB", True, UNKNOWN),
        ("15360", "MiB", True, UNKNOWN),
        ("2 pages", "", True, UNKNOWN),
        ("40.5 C", "C", True, UNKNOWN),
        ("15360MiB", "MiB", True, UNKNOWN),
        ("1,024 MiB", "MiB", True, UNKNOWN),
        ("0x10", "", True, UNKNOWN),
        ("nan W", "W", False, UNKNOWN),
        ("inf W", "W", False, UNKNOWN),
        ("1e3 W", "W", False, UNKNOWN),
        ("9" * 40 + " MiB", "MiB", True, UNKNOWN),
        ("\u0665 C", "C", True, UNKNOWN),
        ("40 C 41 C", "C", True, UNKNOWN),
    ],
)
def test_numbers(text, unit, whole, expected):
    assert read_number(text, unit, whole) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Yes", True), ("No", False), ("Active", True), ("Not Active", False), ("yes", UNKNOWN), ("1", UNKNOWN)],
)
def test_flags(text, expected):
    assert read_flag(text) is expected or read_flag(text) == expected == UNKNOWN


@pytest.mark.parametrize(("text", "expected"), [("Enabled", "Enabled"), ("Disabled", "Disabled"), ("On", UNKNOWN)])
def test_modes(text, expected):
    assert read_mode(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("580.95.05", "580.95.05"), ("13.0", "13.0"), ("580", UNKNOWN), ("580.x", UNKNOWN), ("v580.95", UNKNOWN)],
)
def test_versions(text, expected):
    assert read_version(text) == expected


@pytest.mark.parametrize("text", ["", "ERR!", "[Unknown Error]", "Requested functionality has been deprecated", None])
def test_texts_that_say_nothing(text):
    assert read_text(text) == UNKNOWN


def test_a_hostile_text_is_one_short_printable_line():
    text = read_text("Tesla\x1b[31m\r\nV100\u202e\x00" + "A" * 10_000)
    assert text is not None and text.isprintable() and len(text) <= 200 and text.startswith("Tesla [31m V100")


@given(st.text(max_size=600))
def test_no_text_raises(text):
    assert clean(text).isprintable()
    for reader in READERS.values():
        reader(text)
    assert isinstance(read_text(text), str) or read_text(text) is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.5, None], 1.5),
        ([None, 2.5], 2.5),
        ([UNKNOWN, 2.5], 2.5),
        ([None, None], None),
        ([UNKNOWN, None], UNKNOWN),
        ([UNKNOWN], UNKNOWN),
        ([], UNKNOWN),
    ],
)
def test_first_known(values, expected):
    assert first_known(values) == expected


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([True, UNKNOWN], True),
        ([False, None], UNKNOWN),
        ([False, False], False),
        ([True, None], True),
        ([False, UNKNOWN], UNKNOWN),
        ([None, UNKNOWN], UNKNOWN),
        ([None, None], None),
        ([], UNKNOWN),
    ],
)
def test_any_flag(flags, expected):
    assert any_flag(flags) is expected or any_flag(flags) == expected == UNKNOWN


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([1, 2], 3),
        ([0], 0),
        ([None, None], None),
        ([0, None], UNKNOWN),
        ([1, UNKNOWN], UNKNOWN),
        ([None, UNKNOWN], UNKNOWN),
        ([], UNKNOWN),
    ],
)
def test_total(counts, expected):
    assert total(counts) == expected
